"""Reserves a part of the loopback network for one trial, so that trials at the same time share no address.

A UDP socket, bound to an address of the part, is the reservation. It ends with the trial or its process, and trials of
other users respect it, too.
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
    """Each part is reserved for another trial, or has a port on which another process listens."""


@contextmanager
def place(program: Program, placement: Placement, folder: Path) -> Iterator[LoopbackLayout]:
    """Yield the layout of the application in a free part, which is reserved meanwhile. Raises `NoPlaceError`."""
    first = ""
    for part in range(PARTS):
        reservation = _reserved(part)
        if reservation is None:
            continue
        with reservation:
            layout = LoopbackLayout(program, placement, folder, part)
            taken = _taken(layout)
            if taken is None:
                yield layout
                return
            first = first or taken
    raise NoPlaceError(f"another process listens on {first}" if first else f"{PARTS} trials run on this machine")


def _reserved(part: int) -> socket.socket | None:
    """Return a socket that reserves a part for this process; None while another trial has reserved it."""
    reservation = socket.socket(type=socket.SOCK_DGRAM)
    try:
        reservation.bind((f"127.4.0.{part + 1}", ADMIN_PORT))
    except OSError:
        reservation.close()
        return None
    return reservation


def _taken(layout: LoopbackLayout) -> str | None:
    """Return the first address that a process of the trial needs and another process has; None if there is none."""
    return next((f"{address}:{port}" for address, port in layout.listeners() if not can_listen(address, port)), None)
