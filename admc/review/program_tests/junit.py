"""The results of `admc test` as JUnit XML: a suite for each file of tests."""

from __future__ import annotations

from admc.base.findings.junit import Case, Suite, case, document, finding
from admc.review.program_tests.model import ProgramTest
from admc.review.program_tests.results import FileResults, RunResults
from admc.review.program_tests.verdict import Failed, Result, Undecided


def render(run: RunResults) -> str:
    suites = [_suite(program) for program in run.programs]
    if run.problems:
        suites.append(Suite("admc", tuple(case(diagnostic, "", "admc") for diagnostic in run.problems)))
    return document(suites)


def _suite(program: FileResults) -> Suite:
    cases = [_result(program, test, result) for test, result in program.results]
    if not cases:
        # The program or the file of tests has errors, so no test ran: the findings are the cases.
        cases = [case(diagnostic, program.folder, program.app or program.path) for diagnostic in program.diagnostics]
    return Suite(program.path, tuple(cases))


def _result(program: FileResults, test: ProgramTest, result: Result) -> Case:
    case = Case(test.name, program.app, program.path, test.span.line)
    if isinstance(result, Failed):
        source = test.span.source
        lines = f"{result.observation}\n{program.path}:{test.span.line}: {source.line(test.span.line).strip()}"
        return case._replace(failure=(result.observation, lines))
    if isinstance(result, Undecided):
        return case._replace(error=finding(result.error, program.folder))
    return case
