"""Runs the tests of programs: each program is compiled once, as `admc compile` does, and all its tests are judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from admc.compile.pipeline import folder_of, load_program, place_program
from admc.compile.programs import ProgramFiles
from admc.exits import CommandError, Exit, worst, wrong_usage
from admc.paths import shown_path
from admc.program_tests.read import load_tests, program_of
from admc.program_tests.results import FileResults, RunResults
from admc.program_tests.verdict import Failed, Passed, Result, Undecided, judge, subject


def run_all(
    named: ProgramFiles,
    include: Sequence[Path] | None = None,
    effort: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> RunResults:
    tested = tuple(_run(Path(path), include, effort, progress) for path in named.files)
    return RunResults(tested, named.problems)


def _run(
    path: Path, include: Sequence[Path] | None, effort: float | None, progress: Callable[[str], None] | None
) -> FileResults:
    folder = folder_of(path)
    shown = shown_path(path.name, folder)
    app = ""
    try:
        program = load_program(program_of(path), include=include)
        app = program.app
        if not os.path.lexists(path):
            raise _no_tests(path)
        tests = load_tests(path, program, folder)
        placement, _seconds = place_program(program, folder, effort=effort, progress=progress)
    except CommandError as error:
        return FileResults(shown, error.folder, app, (), error.diagnostics, error.exit_code)
    about = subject(program, placement)
    results = tuple((test, judge(test, about)) for test in tests)
    errors = tuple(result.error for _, result in results if isinstance(result, Undecided))
    return FileResults(shown, folder, app, results, errors, worst(_codes(result for _, result in results)))


def _codes(results: Iterable[Result]) -> Iterable[Exit]:
    codes = {Passed: Exit.DONE, Failed: Exit.GATE, Undecided: Exit.INPUT}
    return (codes[type(result)] for result in results)


def _no_tests(path: Path) -> CommandError:
    program = program_of(path)
    return wrong_usage(
        "ADM845",
        f"`{program}` has no tests",
        cause=f"there is no file `{path}`",
        hint=f"write `{path.name}` beside it, with lines such as `test few = adms <= 4`",
    )
