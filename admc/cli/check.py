"""`admc check`: reads and resolves programs, and reports their errors. It never solves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.base.findings.report import Format
from admc.cli.options import FormatOption, IncludeOption, ProgramsArgument, WarningsOption

if TYPE_CHECKING:
    from admc.review.checking import Checked


def check(
    programs: ProgramsArgument,
    include: IncludeOption = None,
    warnings_as_errors: WarningsOption = False,
    format_: FormatOption = Format.TEXT,
) -> int:
    """Check programs for errors, without solving them."""
    from admc.base.findings.report import Report
    from admc.cli.output import show_report, write_out
    from admc.compile.programs import find_programs
    from admc.review.checking import check_all

    selected = find_programs(programs)
    outcome = check_all(selected, include, warnings_as_errors=warnings_as_errors)
    several = selected.folders or len(programs) > 1
    document: dict[str, object] = {}
    if several:
        document["programs"] = [_document(program) for program in outcome.programs]
    elif outcome.programs:
        document.update(outcome.programs[0].facts or {})
    report = Report(outcome.diagnostics, outcome.exit_code, "", document)
    show_report(report, format_, findings_are_the_result=True)
    if format_ is Format.TEXT:
        write_out("".join(_line(program) for program in outcome.programs if several or program.facts is not None))
    return outcome.exit_code


def _document(program: Checked) -> dict[str, object]:
    return {"path": program.path, "exit_code": int(program.exit_code), **(program.facts or {})}


def _line(program: Checked) -> str:
    from admc.base.terminal import visible

    shown = visible(program.path)
    if program.facts is None:
        return f"{shown}: has errors\n"
    numbers = ", ".join(_counted(word, number) for word, number in program.facts.items() if isinstance(number, int))
    return f"{shown}: {'has warnings' if program.exit_code else 'no errors'} ({numbers})\n"


def _counted(words: str, number: int) -> str:
    one = {"policies": "policy"}.get(words, words.removesuffix("s"))
    return f"{number} {one if number == 1 else words}"
