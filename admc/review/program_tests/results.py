"""The results of the tests of several programs."""

from __future__ import annotations

from typing import NamedTuple

from admc.base.exits import Exit, worst
from admc.review.program_tests.model import ProgramTest
from admc.review.program_tests.verdict import Result
from dsl.diagnostics.diagnostic import Diagnostic


class FileResults(NamedTuple):
    """The results of one file of tests; `results` is empty if the program or the file has errors."""

    path: str
    """The path of the file of tests, relative to the working directory."""
    folder: str
    app: str
    results: tuple[tuple[ProgramTest, Result], ...]
    diagnostics: tuple[Diagnostic, ...]
    exit_code: Exit


class RunResults(NamedTuple):
    programs: tuple[FileResults, ...]
    problems: tuple[Diagnostic, ...]
    """Errors of the command line."""

    @property
    def exit_code(self) -> Exit:
        return worst([*(program.exit_code for program in self.programs), *([Exit.INPUT] if self.problems else ())])
