"""The results of `admc test` as JSON, with findings in the form that all reports of admc have."""

from __future__ import annotations

from admc.base.findings import json
from admc.base.findings.report import Report, from_here
from admc.review.program_tests.model import ProgramTest
from admc.review.program_tests.results import FileResults, RunResults
from admc.review.program_tests.verdict import Failed, Passed, Result


def render(run: RunResults) -> str:
    diagnostics = [*run.problems]
    for program in run.programs:
        diagnostics += from_here(program.diagnostics, program.folder)
    return json.render(
        Report(tuple(diagnostics), run.exit_code, "", {"programs": [_program(program) for program in run.programs]})
    )


def _program(program: FileResults) -> dict[str, object]:
    return {
        "path": program.path,
        "app": program.app or None,
        "exit_code": int(program.exit_code),
        "tests": [_test(test, result) for test, result in program.results],
    }


def _test(test: ProgramTest, result: Result) -> dict[str, object]:
    word = "passed" if isinstance(result, Passed) else "failed" if isinstance(result, Failed) else "undecided"
    observation = result.observation if isinstance(result, Failed) else None
    return {"name": test.name, "line": test.span.line, "result": word, "found": observation}
