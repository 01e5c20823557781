"""Exit codes, so that a script can tell a wrong program from a bug without reading a message."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from dsl.diagnostics import Diagnostic, Severity


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
    """What shells report for a program that Ctrl-C ended."""


class CommandError(Exception):
    """A command cannot go on: what to tell the user, and the exit code.

    `folder` is the program's folder as the user would type it: paths in spans are relative to it.
    """

    def __init__(self, exit_code: Exit, diagnostics: Iterable[Diagnostic], folder: str = "") -> None:
        self.exit_code = exit_code
        self.diagnostics = tuple(diagnostics)
        self.folder = folder
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics[:3]))


def wrong_usage(code: str, message: str, *, cause: str | None = None, hint: str | None = None) -> CommandError:
    """A failure of the command line itself: exit 1, and no line of a program to point at."""
    return CommandError(Exit.INPUT, [Diagnostic(code, Severity.ERROR, message, None, cause, hint)])
