"""Runs the tests of programs: each program is placed once, by the plan beside it or by the solver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from admc.base.exits import CommandError, Exit, worst, wrong_usage
from admc.base.findings.report import shown_path
from admc.compile.pipeline import folder_of, load_program, place_program
from admc.compile.plan.beside import default_plan_path
from admc.compile.plan.read import read_plan
from admc.compile.programs import ProgramFiles
from admc.compile.reviewed_plan import served
from admc.review.program_tests.read import load_tests, program_of
from admc.review.program_tests.results import FileResults, RunResults
from admc.review.program_tests.verdict import Failed, Passed, Result, Undecided, judge, subject_of
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.program import Program
from solver.placement import Placement


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
        tests = load_tests(path, program, folder, include)
        placement, unfit = _beside(program_of(path), program)
        if placement is None:
            placement, _seconds = place_program(program, folder, effort=effort, progress=progress)
    except CommandError as error:
        return FileResults(shown, error.folder, app, (), error.diagnostics, error.exit_code)
    subject = subject_of(program, placement)
    results = tuple((test, judge(test, subject)) for test in tests)
    errors = tuple(result.error for _, result in results if isinstance(result, Undecided))
    return FileResults(shown, folder, app, results, (*unfit, *errors), worst(_codes(result for _, result in results)))


def _beside(path: Path, program: Program) -> tuple[Placement | None, tuple[Diagnostic, ...]]:
    """The placement in the plan beside a program, since the server would serve that plan.

    None and a warning if the plan does not fit the program; None alone if there is no plan.
    """
    beside = default_plan_path(path)
    if not os.path.lexists(beside):
        return None, ()
    try:
        return served(beside, read_plan(beside, regular=True), program), ()
    except CommandError as error:
        hint = "the tests judge a new placement; `admc compile --check` says how to renew the plan"
        return None, (replace(error.diagnostics[0], severity=Severity.WARNING, hint=hint),)


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
