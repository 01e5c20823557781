"""The language: text to `Program`.

    text -> syntax tree -> [Program] -> placement -> plan -> emit

Importing this package is cheap; the parser is loaded by the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsl.program import Program

__all__ = ["format_text", "load", "load_text"]


def load(path: Path, read: Callable[[str], bytes] | None = None, include: Sequence[Path] = ()) -> Program:
    """Reads a program and every file that it names. Raises `dsl.diagnostics.diagnostic.ProgramError` with the findings.

    All files are in the program's folder or in a folder of `include`, or below. A function `read` replaces the file
    system: it receives paths relative to the program's folder, including the program's own name, may raise `OSError`,
    and has to check the folders itself. Without `include`, no path may lead out of the program's folder.
    """
    from dsl.loader import load as load_

    return load_(path, read, include)


def load_text(
    text: str,
    path: str = "policies.adm",
    read: Callable[[str], bytes] | None = None,
    *,
    included: bool = False,
) -> Program:
    """Reads a program from a text in memory, and all files that it names by `read`, as in `load`. Without `read`, a
    file that it names is an error. The folder of `path` is ignored.

    `included`: paths may lead out of the program's folder (`../shared/kinds.adm`), and `read` checks them.
    """
    from dsl.loader import load_text as load_text_

    return load_text_(text, path, read, included=included)


def format_text(text: str, path: str = "policies.adm") -> str:
    """The text of a program in canonical layout, with its comments. Raises `ProgramError` if it does not parse."""
    from dsl.syntax.format import format_text as format_text_

    return format_text_(text, path)
