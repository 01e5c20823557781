"""The whole suite: a profile, its digest, a seed, measurements, and what came of the predictions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from admc.base.exits import CommandError
from admc.cost.measurement import measured as measuring
from admc.cost.measurement import programs
from admc.cost.measurement.bed import Tools
from admc.cost.measurement.stolen import Ticks, disturbance
from admc.cost.measurement.uses import of_prelude
from admc.cost.profiles.profile import Profile
from admc.cost.profiles.source import named_profile
from admc.cost.profiles.write import to_json
from emitters.envoy import Mode
from tests.bench.errors import SkippedError
from tests.bench.overhead.draw import Configuration, draw
from tests.bench.overhead.hotel import Hotel, hotel
from tests.bench.overhead.judge import Factors, Judged, Row, error, factors, judged
from tests.bench.overhead.measure import USUAL, Settings, layout, measured, references
from tests.bench.overhead.predict import naive, predictor

MINUTES = 30.0
"""For the profile, where none is given: as many as `admc profile measure` takes. An interval takes five turns, and a
turn over everything takes four to six minutes."""
SLOWER = 0.7
QUANTITIES = {"cpu": "CPU of a request", "latency": "added median latency"}


class Result(NamedTuple):
    rows: tuple[Row, ...]
    factors: Factors
    judged: dict[str, Judged]


def overhead(
    console: Console,
    folder: Path,
    seed: int | None,
    profile: str | None,
    settings: Settings = USUAL,
    *,
    with_hotel: bool = True,
) -> None:
    """Measure, predict and print. Raises `SkippedError`, `FailedError`, `CostError`, `MeshError`."""

    def progress(stage: str) -> None:
        if console.is_terminal:
            console.print(stage, style="dim")

    def note(text: str) -> None:
        console.print(Text(text, style="red"), soft_wrap=True)

    try:
        tools = Tools(programs.envoy()[0], programs.app())
        path = profile or _profile(folder, progress)
        found = named_profile(path)
    except CommandError as missing:
        raise SkippedError(f"{missing}. Skipped without it: how well profiles predict") from None
    console.print(f"profile `{found.profile.name}`, sha256 {found.sha256}")
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    console.print(f"seed {seed}\n")
    result = compared(found.profile, seed, tools, settings, folder, progress, note)
    print_result(console, result)
    if with_hotel:
        _print_hotel(console, hotel(found.profile, Path(tools.app), folder, progress), result.factors)


def _profile(folder: Path, progress: Callable[[str], None]) -> str:
    path = folder / "profile.json"
    found = measuring.measured(None, "profile", MINUTES, quick=False, progress=progress)
    path.write_text(to_json(found.made.profile))
    return str(path)


def compared(
    profile: Profile,
    seed: int,
    tools: Tools,
    settings: Settings,
    folder: Path,
    progress: Callable[[str], None],
    note: Callable[[str], None],
) -> Result:
    drawn = draw(seed, profile, of_prelude(), settings.number, settings.several)
    configurations = [within(profile, each, folder) for each in drawn]
    beside = references(profile)
    shape = layout((*configurations, *beside), Mode.REDIRECT, folder)
    predict, others = predictor(profile, shape), naive(profile, shape)
    predictions = {each.name: predict(each) for each in (*configurations, *beside)}
    before = Ticks.now()
    found = measured(configurations, beside, tools, settings, progress, note)
    if (said := disturbance(Ticks.now().share_since(before))) is not None:
        note(said)
    rows = tuple(
        Row(
            str(each),
            found[each.name],
            predictions[each.name],
            {name: of(each) for name, of in others.items()},
        )
        for each in configurations
        if each.name in found
    )
    if len(rows) < len(configurations):
        note(f"{len(rows)} of {len(configurations)} sidecars were measured")
    by = factors(
        rows,
        [predictions[each.name].value for each in beside],
        {name: [of(each) for each in beside] for name, of in others.items()},
    )
    return Result(rows, by, {quantity: judged(rows, quantity, by) for quantity in QUANTITIES})


def within(profile: Profile, configuration: Configuration, folder: Path) -> Configuration:
    """The same at a lower rate, where the profile calls the sidecar saturated."""
    while True:
        try:
            predictor(profile, layout([configuration], Mode.REDIRECT, folder))(configuration)
        except ValueError:
            if configuration.rate < 1:
                raise
            slower = tuple(replace(hop, rate=round((hop.rate or 0.0) * SLOWER, 2)) for hop in configuration.hops)
            configuration = configuration._replace(hops=slower)
        else:
            return configuration


def print_result(console: Console, result: Result) -> None:
    for quantity, title in QUANTITIES.items():
        _print_rows(console, result, quantity, title)
        found = result.judged[quantity]
        factor = getattr(result.factors.own, quantity)
        console.print(
            f"  factor of this run {factor:.3f}; median error without it {found.uncorrected:.1%}; halves differ by "
            f"{found.halves:.1%} (median)",
            soft_wrap=True,
        )
        for goal, reached in found.goals.items():
            console.print(Text(f"  {'reached' if reached else 'NOT REACHED'}: {goal}", "" if reached else "red"))
        console.print(Text(f"  {title}: {found.verdict}\n", style="bold"))


def _print_rows(console: Console, result: Result, quantity: str, title: str) -> None:
    table = Table(title=f"{title}, us", title_justify="left")
    table.add_column("sidecar", overflow="fold")
    naive_names = list(result.factors.naive)
    for name in ("measured", "halves", "predicted", "interval", "error", "without factor", *naive_names):
        table.add_column(name, justify="right")
    factor = getattr(result.factors.own, quantity)
    for row in result.rows:
        cost, said = row.measured(quantity), getattr(row.predicted.value, quantity)
        ends = [
            None if end is None else getattr(end, quantity) * factor for end in (row.predicted.low, row.predicted.high)
        ]
        table.add_row(
            row.title,
            f"{cost:,.0f}",
            " ".join(f"{getattr(half.sidecar, quantity):,.0f}" for half in row.halves),
            f"{said * factor:,.0f}",
            "-" if None in ends else " ".join(f"{end:,.0f}" for end in ends if end is not None),
            f"{error(said * factor, cost):.0%}",
            f"{error(said, cost):.0%}",
            *(
                f"{error(getattr(row.naive[name], quantity) * getattr(result.factors.naive[name], quantity), cost):.0%}"
                for name in naive_names
            ),
        )
    console.print(table)


def _print_hotel(console: Console, found: Sequence[Hotel], by: Factors) -> None:
    table = Table(title="Hotel reservation: all sidecars together, for one request", title_justify="left")
    for name in ("mode", "figure", "halves", "measured", "predicted", "error", "without factor"):
        table.add_column(name, justify="left" if name in ("mode", "figure") else "right")
    for each in found:
        for quantity, title in QUANTITIES.items():
            values = [getattr(half, quantity) for half in each.measured]
            cost, said = sum(values) / len(values), getattr(each.predicted, quantity)
            factor = getattr(by.own, quantity)
            least = ">= " if each.at_least else ""
            table.add_row(
                str(each.mode),
                f"{title}, us",
                " ".join(f"{value:,.0f}" for value in values),
                f"{cost:,.0f}",
                f"{least}{said * factor:,.0f}",
                f"{error(said * factor, cost):.0%}",
                f"{error(said, cost):.0%}",
            )
    console.print(table)
    for each in found:
        if each.bound is not None:
            console.print(
                f"  {each.mode}: CPU by the solver's coefficients is {each.bound:.2f} times that of the full model"
            )
