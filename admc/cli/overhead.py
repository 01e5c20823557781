"""`admc overhead`: the costs of each ADM of the plan and of a full mesh, by the program's profile."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.terminal import is_terminal, width
from admc.cli.options import EffortOption, IncludeOption, ProgramArgument
from admc.cli.trace_options import FilesOption, NamesOption, PartialOption, SampledOption, share

if TYPE_CHECKING:
    from admc.cli.output import Progress
    from admc.cost.money.price_list import PriceList
    from admc.cost.what_if.run import Estimates
    from admc.cost.what_if.scenario import Scenario


class OverheadFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def overhead(
    program: ProgramArgument,
    include: IncludeOption = None,
    effort: EffortOption = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="CHANGE",
            help="Compare with other figures: `ipc.latency=-50%`, `rbac.cpu=x0.5`; repeatable.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="Compare with another profile, a file or a built-in one; the profile of a program that names none.",
        ),
    ] = None,
    traffic: Annotated[
        str | None, typer.Option("--traffic", metavar="FACTOR", help="Compare with all rates multiplied: `x10`.")
    ] = None,
    replan: Annotated[
        bool, typer.Option("--replan", help="Solve again after the change; otherwise the plan stays.")
    ] = False,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", metavar="FILE", help="Give the money of a month, by the prices in a JSON file."),
    ] = None,
    require_priced: Annotated[
        bool, typer.Option("--require-priced", help="Exit 4 if a cost is not in the profile or the program.")
    ] = False,
    traces: FilesOption = None,
    sampled: SampledOption = None,
    names: NamesOption = None,
    partial: PartialOption = False,
    format_: Annotated[
        OverheadFormat, typer.Option("--format", help="The format of the estimate.")
    ] = OverheadFormat.TEXT,
) -> int:
    """Estimate what each ADM costs, before it is deployed; compare with other figures, rates and plans."""
    from admc.cli.output import Progress, write_out
    from admc.cost.money.price_list import named_prices
    from admc.cost.what_if.scenario import read_scenario

    for option, there in (("--sampled", sampled is not None), ("--names", names is not None), ("--partial", partial)):
        if there and not traces:
            raise wrong_usage("ADM801", f"`{option}` is about traces, and there is no `--traces`")
    scenario = read_scenario(what_if or (), profile, traffic, replan=replan)
    of_all = share(sampled)
    if traces:
        _alone(scenario, prices)
    price_list = None if prices is None else named_prices(prices)
    progress = Progress()
    try:
        estimates = _estimates(program, include, effort, scenario, progress)
        if require_priced and estimates.missing:
            from admc.cost.overhead_notes import phrases

            raise _unpriced(phrases(estimates.missing))
        if traces:
            text = _of_traces(estimates, Reading(traces, of_all, names, partial), progress, format_)
        else:
            text = _rendered(estimates, price_list, format_)
    finally:
        progress.clear()
    write_out(text)
    return Exit.DONE


def _alone(scenario: Scenario, prices: Path | None) -> None:
    """Raise `CommandError` for options that have no meaning together with `--traces`."""
    given = [
        name
        for name, there in (
            ("--what-if", bool(scenario.changes)),
            ("--traffic", scenario.traffic is not None),
            ("--replan", scenario.replan),
            ("--prices", prices is not None),
        )
        if there
    ]
    if given:
        raise _beside_traces(given[0])


def _beside_traces(option: str) -> CommandError:
    return wrong_usage(
        "ADM857",
        f"`--traces` cannot be combined with `{option}`",
        cause="recorded requests are estimated as they were, by the program's own profile, without a before and after",
        hint="give the two options to two commands",
    )


def _estimates(
    program: Path, include: list[Path] | None, effort: float | None, scenario: Scenario, progress: Progress
) -> Estimates:
    from admc.compile.pipeline import folder_of, load_program, place_program
    from admc.cost.what_if.run import estimates

    folder = folder_of(program)
    loaded = load_program(program, include=include)
    return estimates(
        loaded, scenario, lambda changed: place_program(changed, folder, effort=effort, progress=progress)[0], folder
    )


class Reading(NamedTuple):
    """The traces to read, and the options for reading them."""

    files: list[Path]
    sampled: float
    names: Path | None
    partial_traces: bool


def _of_traces(estimates: Estimates, reading: Reading, progress: Progress, format_: OverheadFormat) -> str:
    from admc.cost.traces import json as traces_json
    from admc.cost.traces import text as traces_text
    from admc.cost.traces.names import read_names
    from admc.cost.traces.report import trace_report

    if estimates.comparison is not None:
        raise _beside_traces("--profile")
    progress("traces")
    named = estimates.report.profile
    parties = {*estimates.program.services, *estimates.program.externals}
    requests = trace_report(
        estimates.program,
        estimates.placement,
        named.profile,
        reading.files,
        reading.sampled,
        None if reading.names is None else read_names(reading.names, parties),
        partial_traces=reading.partial_traces,
    )
    if format_ is OverheadFormat.JSON:
        return traces_json.render(estimates.program.app, named, requests)
    return traces_text.render(estimates.program.app, named.named, requests, width=_columns())


def _columns() -> int | None:
    """The width of the terminal, or None for a file or a pipe, whose readers expect whole lines."""
    return width(sys.stdout) if is_terminal(sys.stdout) else None


def _rendered(estimates: Estimates, prices: PriceList | None, format_: OverheadFormat) -> str:
    from admc.cost import overhead_json, overhead_text
    from admc.cost.money.bill import bill
    from admc.cost.what_if import json as comparison_json
    from admc.cost.what_if import text as comparison_text

    json = format_ is OverheadFormat.JSON
    if estimates.comparison is None or estimates.other is None:
        money = None if prices is None else bill(estimates.report, prices)
        if json:
            return overhead_json.render(estimates.program, estimates.report, money)
        return overhead_text.render(estimates.program, estimates.report, money, width=_columns())
    compared = estimates.comparison
    bills = None if prices is None else (bill(compared.before, prices), bill(compared.after, prices))
    if json:
        return comparison_json.render((estimates.program, estimates.other), compared, bills)
    return comparison_text.render(estimates.program, compared, bills, width=_columns())


def _unpriced(reasons: list[str]) -> CommandError:
    from dsl.diagnostics.diagnostic import Diagnostic, Severity

    return CommandError(
        Exit.GATE,
        [
            Diagnostic(
                "ADM872",
                Severity.ERROR,
                "not every cost can be estimated, and `--require-priced` was given",
                None,
                cause="; ".join(reasons),
                hint="use a profile that has them, or give calls a rate and a size",
            )
        ],
    )
