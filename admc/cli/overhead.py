"""`admc overhead`: what each ADM of the plan costs, by the program's profile, and what a full mesh would."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from admc.cli.options import EffortOption, IncludeOption, ProgramArgument
from admc.cli.trace_options import FilesOption, SampledOption, share
from admc.exits import CommandError, Exit, wrong_usage

if TYPE_CHECKING:
    from admc.overhead.profiles.source import NamedProfile
    from admc.overhead.traces.report import TraceReport

SHOWN = 8
"""Reasons of an error; the output without `--require-priced` has all."""


class OverheadFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def overhead(
    program: ProgramArgument,
    include: IncludeOption = None,
    effort: EffortOption = None,
    require_priced: Annotated[
        bool, typer.Option("--require-priced", help="Exit 4 if a cost is not in the profile or the program.")
    ] = False,
    traces: FilesOption = None,
    sampled: SampledOption = None,
    format_: Annotated[
        OverheadFormat, typer.Option("--format", help="The format of the estimate.")
    ] = OverheadFormat.TEXT,
) -> int:
    """Estimate what each ADM costs, before it is deployed."""
    from admc.cli.output import Progress, write_out
    from admc.compile.pipeline import folder_of, load_program, place_program
    from admc.overhead.report import report

    if sampled is not None and not traces:
        raise wrong_usage("ADM801", "`--sampled` is about traces, and there is no `--traces`")
    of_all = share(sampled)
    progress = Progress()
    try:
        loaded = load_program(program, include=include)
        placement, _seconds = place_program(loaded, folder_of(program), effort=effort, progress=progress)
        found = report(loaded, placement, folder_of(program))
        if traces:
            from admc.overhead.traces.report import trace_report

            progress("traces")
            requests = trace_report(loaded, placement, found.profile.profile, traces, of_all)
    finally:
        progress.clear()
    missing = found.overhead.missing
    if require_priced and missing:
        from admc.render.overhead_text import lacking

        raise _unpriced([lacking(each) for each in missing])
    if traces:
        write_out(_of_traces(loaded.app, found.profile, requests, format_))
    elif format_ is OverheadFormat.JSON:
        from admc.render import overhead_json

        write_out(overhead_json.render(loaded, found))
    else:
        from admc.render import overhead_text

        write_out(overhead_text.render(loaded, found))
    return Exit.DONE


def _of_traces(app: str, profile: NamedProfile, requests: TraceReport, format_: OverheadFormat) -> str:
    if format_ is OverheadFormat.JSON:
        from admc.render import traces_json

        return traces_json.render(app, profile, requests)
    from admc.render import traces_text

    return traces_text.render(app, profile.named, requests)


def _unpriced(reasons: list[str]) -> CommandError:
    from admc.terminal import counted
    from dsl.diagnostics.diagnostic import Diagnostic, Severity

    more = len(reasons) - SHOWN
    shown = "; ".join(reasons[:SHOWN]) + (f"; and {counted(more, 'more reason')}" if more > 0 else "")
    return CommandError(
        Exit.GATE,
        [
            Diagnostic(
                "ADM872",
                Severity.ERROR,
                "not every cost can be estimated, and `--require-priced` was given",
                None,
                cause=shown,
                hint="use a profile that has them, or give calls a rate and a size",
            )
        ],
    )
