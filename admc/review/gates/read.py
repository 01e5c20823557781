"""Reads the gates of a program: `shop.gates.adm` beside `shop.adm`."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from admc.base.exits import CommandError, Exit
from admc.review.gates.model import Gate
from admc.review.gates.resolve import resolve_gates
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.folders import Read
from dsl.files.reading import Reader
from dsl.resolve.resolver import in_order
from dsl.syntax.parser import parse
from dsl.syntax.tokens import GATE_ENDING

_ENDING: Final = ".adm"


def gates_name(program: str) -> str:
    """`shop.gates.adm` for `shop.adm`."""
    return PurePosixPath(program).name.removesuffix(_ENDING) + GATE_ENDING


def load_gates(name: str, read: Read, folder: str) -> tuple[Gate, ...]:
    """The gates in the file `name` of the folder that `read` reads. `folder` is shown in messages.

    Raises `CommandError` (exit 1) with all findings.
    """
    diagnostics = Diagnostics()
    source = Reader(read, diagnostics, folder).text(name, None)
    found = () if source is None else resolve_gates(parse(source, diagnostics), diagnostics)
    if diagnostics.has_errors:
        raise CommandError(Exit.INPUT, in_order(diagnostics), folder)
    return found


def gates_beside(program: str, read: Read, folder: str) -> tuple[Gate, ...]:
    """The gates of the program `program`; none if it has no such file. Raises as `load_gates` does."""
    name = gates_name(program)
    try:
        read(name)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError):
        pass  # `load_gates` reports it
    return load_gates(name, read, folder)
