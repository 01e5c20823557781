"""`admc test`: runs the tests of a program, which are beside it (`shop.test.adm` beside `shop.adm`): what a request has
to meet, and what a placement has to be. The exit code is 4 if a test fails."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from admc.cli.options import EffortOption, IncludeOption
from admc.cli.suggestions import programs as known_programs


class ResultFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


def run_tests(
    programs: Annotated[
        list[str],
        typer.Argument(
            metavar="PROGRAM...",
            help="Programs, their files of tests, or folders that contain such files.",
            autocompletion=known_programs,
        ),
    ],
    include: IncludeOption = None,
    effort: EffortOption = None,
    format_: Annotated[ResultFormat, typer.Option("--format", help="The format of the results.")] = ResultFormat.TEXT,
) -> int:
    """Run the tests of programs."""
    from admc.base.findings.report import Report
    from admc.cli.output import Progress, show_reports, write_out
    from admc.compile.programs import find_tests
    from admc.review.program_tests.run import run_all

    progress = Progress()
    try:
        run = run_all(find_tests(programs), include, effort, progress)
    finally:
        progress.clear()
    if format_ is ResultFormat.JUNIT:
        from admc.review.program_tests import junit as tests_junit

        write_out(tests_junit.render(run))
        return run.exit_code
    if format_ is ResultFormat.JSON:
        from admc.review.program_tests import json as tests_json

        write_out(tests_json.render(run))
        return run.exit_code
    from admc.review.program_tests import text as tests_text

    reports = [Report(run.problems, run.exit_code)] if run.problems else []
    reports += [
        Report(tested.diagnostics, tested.exit_code, tested.folder) for tested in run.programs if tested.diagnostics
    ]
    show_reports(reports)
    write_out(tests_text.render(run))
    return run.exit_code
