"""`admc overhead`: what each ADM of the plan costs, by the program's profile, and what a full mesh would."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from admc.cli.options import EffortOption, IncludeOption, ProgramArgument
from admc.exits import CommandError, Exit

if TYPE_CHECKING:
    from admc.overhead.money.price_list import PriceList
    from admc.overhead.what_if.run import Estimates
    from admc.overhead.what_if.scenario import Scenario

SHOWN = 8
"""Reasons of an error; the output without `--require-priced` has all."""


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
        typer.Option("--profile", metavar="PROFILE", help="Compare with another profile: a file, or a built-in one."),
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
    format_: Annotated[
        OverheadFormat, typer.Option("--format", help="The format of the estimate.")
    ] = OverheadFormat.TEXT,
) -> int:
    """Estimate what each ADM costs, before it is deployed; compare with other figures, rates and plans."""
    from admc.cli.output import write_out
    from admc.overhead.money.price_list import named_prices
    from admc.overhead.what_if.scenario import read_scenario

    scenario = read_scenario(what_if or (), profile, traffic, replan=replan)
    price_list = None if prices is None else named_prices(prices)
    found = _estimates(program, include, effort, scenario)
    if require_priced and found.missing:
        from admc.render.overhead_text import lacking

        raise _unpriced([lacking(each) for each in found.missing])
    write_out(_rendered(found, price_list, format_))
    return Exit.DONE


def _estimates(program: Path, include: list[Path] | None, effort: float | None, scenario: Scenario) -> Estimates:
    from admc.cli.output import Progress
    from admc.compile.pipeline import folder_of, load_program, place_program
    from admc.overhead.what_if.run import estimates

    folder = folder_of(program)
    progress = Progress()
    try:
        loaded = load_program(program, include=include)
        return estimates(
            loaded, scenario, lambda each: place_program(each, folder, effort=effort, progress=progress)[0], folder
        )
    finally:
        progress.clear()


def _rendered(found: Estimates, prices: PriceList | None, format_: OverheadFormat) -> str:
    from admc.overhead.money.bill import bill
    from admc.render import comparison_json, comparison_text, overhead_json, overhead_text

    json = format_ is OverheadFormat.JSON
    if found.comparison is None or found.other is None:
        money = None if prices is None else bill(found.report, prices)
        render = overhead_json.render if json else overhead_text.render
        return render(found.program, found.report, money)
    compared = found.comparison
    bills = None if prices is None else (bill(compared.before, prices), bill(compared.after, prices))
    if json:
        return comparison_json.render((found.program, found.other), compared, bills)
    return comparison_text.render(found.program, compared, bills)


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
