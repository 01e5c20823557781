"""The language: text to `Program`.

    text -> syntax tree -> [Program] -> placement -> plan -> emit

Importing this package is cheap; the parser is loaded by the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsl.program import Program

__all__ = ["format_text", "load", "load_text"]


def load(path: Path, read: Callable[[str], bytes] | None = None) -> Program:
    """Reads a program and every file that it names. Raises `dsl.diagnostics.ProgramError` with all findings.

    `read` gets paths relative to the program's folder, its own name among them, and may raise `OSError`.
    """
    from dsl.loader import load as load_

    return load_(path, read)


def load_text(text: str, path: str = "policies.adm", read: Callable[[str], bytes] | None = None) -> Program:
    """The same from memory; `read` gets paths relative to the program and may raise `OSError`."""
    from dsl.loader import load_text as load_text_

    return load_text_(text, path, read)


def format_text(text: str, path: str = "policies.adm") -> str:
    """The same program in canonical layout, comments kept. Raises `ProgramError` where it does not parse."""
    from dsl.format import format_text as format_text_

    return format_text_(text, path)
