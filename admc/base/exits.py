"""Exit codes, by which a script can distinguish a wrong program from a bug, and the error of a command."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from dsl.diagnostics.diagnostic import Diagnostic, Severity


class Exit(IntEnum):
    """The same for every command and every output format (docs/cli.md)."""

    DONE = 0
    INPUT = 1
    CHANGES = 2
    NO_PLACEMENT = 3
    GATE = 4
    NOT_PROVEN = 5
    BUG = 70
    INTERRUPTED = 130
    """The code that shells use for a program that Ctrl-C ended."""


_WORST_FIRST = (Exit.BUG, Exit.INPUT, Exit.NO_PLACEMENT, Exit.NOT_PROVEN, Exit.GATE, Exit.CHANGES)


def worst(codes: Iterable[Exit]) -> Exit:
    """Return the worst code of a command that did several things; DONE if there is none. `INTERRUPTED` is ignored."""
    distinct = set(codes)
    return next((code for code in _WORST_FIRST if code in distinct), Exit.DONE)


class CommandError(Exception):
    """A command cannot continue: the diagnostics for the user, and the exit code.

    `folder` is the program's folder as the user would type it. Paths in spans are relative to it.
    """

    def __init__(self, exit_code: Exit, diagnostics: Iterable[Diagnostic], folder: str = "") -> None:
        self.exit_code = exit_code
        self.diagnostics = tuple(diagnostics)
        self.folder = folder
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics[:3]))


def wrong_usage(code: str, message: str, *, cause: str | None = None, hint: str | None = None) -> CommandError:
    """Return an error that concerns no line of a program. Its exit code is 1."""
    return CommandError(Exit.INPUT, [Diagnostic(code, Severity.ERROR, message, None, cause, hint)])


def refused_warnings(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return one error if there are warnings among the diagnostics, for `--warnings-as-errors`."""
    number = sum(1 for diagnostic in diagnostics if diagnostic.severity is Severity.WARNING)
    if not number:
        return []
    there = "there is a warning" if number == 1 else f"there are {number} warnings"
    message = f"{there}, and `--warnings-as-errors` was given"
    return [
        Diagnostic(
            "ADM814", Severity.ERROR, message, None, hint="nothing was written; remove the causes of the warnings"
        )
    ]
