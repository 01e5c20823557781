"""`admc check`: is the program right? Reads and resolves it; never solves."""

from __future__ import annotations

from admc.cli.options import FormatOption, IncludeOption, ProgramArgument
from admc.render.report import Format


def check(program: ProgramArgument, include: IncludeOption = None, format_: FormatOption = Format.TEXT) -> int:
    """Say whether a program is right; never solves."""
    from admc.exits import CommandError, Exit
    from admc.output import show_report, write_out
    from admc.pipeline import folder_of, load_program
    from admc.render.report import Report, shown_path
    from admc.terminal import visible

    folder = folder_of(program)
    try:
        loaded = load_program(program, include=include)
    except CommandError as error:
        show_report(Report(error.diagnostics, error.exit_code, folder), format_, findings_are_the_result=True)
        return error.exit_code
    facts = {
        "app": loaded.app,
        "services": len(loaded.services),
        "externals": len(loaded.externals),
        "calls": len(loaded.calls),
        "policies": len(loaded.policies),
    }
    show_report(
        Report((*loaded.warnings, *loaded.notes), Exit.DONE, folder, facts), format_, findings_are_the_result=True
    )
    if format_ is Format.TEXT:
        numbers = ", ".join(_counted(word, number) for word, number in facts.items() if isinstance(number, int))
        write_out(f"{visible(shown_path(loaded.source.path, folder))}: no errors ({numbers})\n")
    return Exit.DONE


def _counted(words: str, number: int) -> str:
    one = {"policies": "policy"}.get(words, words.removesuffix("s"))
    return f"{number} {one if number == 1 else words}"
