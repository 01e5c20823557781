"""A part of the loopback network for one trial, so that trials beside each other do not meet.

A socket that no packet reaches keeps the part as long as the process lives: of two trials that start together, each has
its own, whatever users they belong to.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from admc.testbed.loopback import LoopbackLayout
from admc.testbed.open_ports import can_listen
from emitters.ports import ADMIN_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsl.program import Program
    from solver.placement import Placement

PARTS: Final = 50


class NoPlaceError(Exception):
    """Each part has a port on which another trial, or another process, listens."""


@contextmanager
def place(program: Program, placement: Placement, folder: Path) -> Iterator[LoopbackLayout]:
    """Where the application is tried. Raises `NoPlaceError`."""
    first = ""
    for part in range(PARTS):
        kept = _kept(part)
        if kept is None:
            continue
        with kept:
            layout = LoopbackLayout(program, placement, folder, part)
            taken = _taken(layout)
            if taken is None:
                yield layout
                return
            first = first or taken
    raise NoPlaceError(f"another process listens on {first}" if first else f"{PARTS} trials run on this machine")


def _kept(part: int) -> socket.socket | None:
    """What keeps a part for this process; None while another trial has it."""
    kept = socket.socket(type=socket.SOCK_DGRAM)
    try:
        kept.bind((f"127.4.0.{part + 1}", ADMIN_PORT))
    except OSError:
        kept.close()
        return None
    return kept


def _taken(layout: LoopbackLayout) -> str | None:
    """The first address at which a process of the trial would listen and another one does."""
    return next((f"{address}:{port}" for address, port in layout.listeners() if not can_listen(address, port)), None)
