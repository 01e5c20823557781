"""Standard output, with exactly one document, and standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from admc.base.exits import CommandError, Exit
from admc.base.findings.report import Format, Report
from admc.base.terminal import is_dumb, is_terminal, takes_colour
from dsl.diagnostics.diagnostic import Diagnostic, Severity


class OutputError(CommandError):
    """Standard output is not writable, so the report of this error goes to standard error."""


def render(report: Report, format_: Format, *, colour: bool = False) -> str:
    """The report in a format. A renderer is imported only when it is needed."""
    if format_ is Format.TEXT:
        from admc.base.findings import text

        return text.render(report, colour=colour)
    if format_ is Format.JSON:
        from admc.base.findings import json

        return json.render(report)
    if format_ is Format.MARKDOWN:
        from admc.base.findings import markdown

        return markdown.render(report)
    if format_ is Format.SARIF:
        from admc.base.findings import sarif
        from admc.cli.codes import title

        return sarif.render(report, title)
    if format_ is Format.JUNIT:
        from admc.base.findings import junit

        return junit.render(report)
    from admc.base.findings import github

    return github.render(report)


def write_out(text: str) -> None:
    """Write a document to standard output. A reader that has closed the pipe (`| head`) is not an error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_output()
    except OSError as error:
        _give_up_output()
        cause = (error.strerror or "the system refused").lower()
        raise OutputError(
            Exit.INPUT, [Diagnostic("ADM803", Severity.ERROR, "cannot write to standard output", None, cause)]
        ) from error


def _give_up_output() -> None:
    """Redirect standard output to the null device, because Python flushes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_error(text: str) -> None:
    """Write to standard error. If standard error is closed, the text is dropped."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (BrokenPipeError, ValueError):
        return


def show_report(report: Report, format_: Format, *, findings_are_the_result: bool = False) -> None:
    """Machine formats always go to standard output; text only if findings are the result of the command."""
    if format_ is Format.TEXT and not findings_are_the_result:
        write_error(render(report, format_, colour=takes_colour(sys.stderr)))
    else:
        write_out(render(report, format_, colour=takes_colour(sys.stdout)))


def show_reports(reports: Sequence[Report]) -> None:
    """Findings about several programs, each in a folder of its own, as text with one count."""
    if reports:
        from admc.base.findings import text

        write_error(text.render_all(reports, colour=takes_colour(sys.stderr)))


def show_failure(report: Report, format_: Format) -> None:
    """Show the report of a failed command; as text on standard error if standard output is not writable."""
    try:
        show_report(report, format_)
    except OutputError as error:
        both = replace(report, diagnostics=(*report.diagnostics, *error.diagnostics))
        show_report(both, Format.TEXT)


class Progress:
    """Shows the current stage in one line of a terminal, and removes the line at the end. Writes nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = is_terminal(sys.stderr) and not is_dumb()

    def __call__(self, stage: str) -> None:
        if self._shown:
            write_error(f"\r\x1b[K{stage} ...")

    def clear(self) -> None:
        if self._shown:
            write_error("\r\x1b[K")
