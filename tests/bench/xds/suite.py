"""All scenarios, with both servers in turn and in another order each round, and what was promised."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.table import Table
from rich.text import Text

from tests.bench.errors import SkippedError
from tests.bench.measure import spread
from tests.bench.xds.compare import OURS, SOURCES, Round, Scenario, measure
from tests.bench.xds.states import write_states
from tests.golang import BuildError, MissingError, build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console

CHANGES: Final = 4
"""In one round."""
STATES: Final = 3
CPU, MEMORY = 1.0, 0.5
"""At most so much of what go-control-plane takes."""
STREAMS, MANY = 2_000, 10_000
SKIPPED: Final = "the xDS server beside go-control-plane: changes and connect storms with thousands of streams"


class Measure(NamedTuple):
    """A figure of a round, and how much of go-control-plane's it may be: at most, and better."""

    name: str
    of: Callable[[Round], list[float]]
    goal: float | None = None
    better: float | None = None
    unit: str = "ms"
    scale: float = 1000.0


def every(goal: float | None = None, better: float | None = None) -> Measure:
    return Measure("acknowledged by all", lambda found: found.every, goal, better)


COSTS: Final = (
    Measure("CPU of the server", lambda found: found.cpu, CPU, None, "s", 1.0),
    Measure("peak memory of the server", lambda found: [found.peak], MEMORY, None, "MB", 1e-6),
)
ONE: Final = (
    Measure("acknowledged by half", lambda found: found.half, 1.5, 1.0),
    Measure("acknowledged by 99 of 100", lambda found: found.most, 1.5, 1.0),
)
PROMISED: Final[tuple[tuple[Scenario, tuple[Measure, ...]], ...]] = (
    *(
        (Scenario(f"all of {count} clusters change, {variant}", variant, count, count, STREAMS), (every(*goal),))
        for count, goal in ((200, (0.5, 0.35)), (20, (1.5, 1.0)))
        for variant in ("sotw", "delta")
    ),
    (Scenario("one of 100 clusters changes, delta", "delta", 100, 1, STREAMS), ONE),
    *(
        (Scenario(f"connect storm, 100 clusters, {variant}", variant, 100, 100, STREAMS, storm=True), (every(1.5),))
        for variant in ("sotw", "delta")
    ),
    (Scenario("one of 100 clusters changes, delta", "delta", 100, 1, MANY), (*ONE, every())),
)


def xds(console: Console, folder: Path, rounds: int, only: str = "") -> None:
    """Measure the scenarios whose titles have `only` in them, and print. Raises `SkippedError` and `BrokenError`."""
    try:
        theirs, client = (str(build(SOURCES, name, f"./{name}")) for name in ("server", "client"))
    except (MissingError, BuildError) as error:
        raise SkippedError(f"{error}. Skipped without it: {SKIPPED}") from None
    servers = {"ours": OURS, "theirs": [theirs]}
    table = Table(
        title=f"xDS beside go-control-plane, {rounds} rounds: median (lowest .. highest)", title_justify="left"
    )
    for name in ("scenario", "figure", "go-control-plane", "admc", "ratio", "goal", "better"):
        table.add_column(name, justify="left" if name in ("scenario", "figure") else "right")
    lost = []
    for scenario, measures in PROMISED:
        if only not in scenario.name:
            continue
        states = write_states(folder, scenario.clusters, scenario.changed, STATES)
        found: dict[str, list[Round]] = {name: [] for name in servers}
        for number in range(rounds if scenario.streams == STREAMS else 1):
            for name in sorted(servers, reverse=number % 2 == 0):
                if console.is_terminal:
                    console.print(f"{scenario.title}, {scenario.streams} streams, {name}", style="dim")
                found[name].append(measure(servers[name], client, scenario, states, CHANGES))
        title = scenario.name
        for measured in (*measures, *COSTS):
            table.add_row(title, *_row(measured, found["theirs"], found["ours"]))
            title = ""
        table.add_section()
        lost += [
            f"{scenario.title}: {each.lost} streams of {name} ({each.why or 'they are late'})"
            for name in found
            for each in found[name]
            if each.lost
        ]
    console.print(table)
    console.print(Text(f"  lost: {'; '.join(lost)}" if lost else "  no stream was lost", style="red" if lost else ""))
    console.print()


def _row(measured: Measure, theirs: list[Round], ours: list[Round]) -> tuple[str | Text, ...]:
    values = [[value * measured.scale for each in side for value in measured.of(each)] for side in (theirs, ours)]
    spreads = [spread(side) for side in values]
    digits = 2 if measured.unit == "s" else 0
    shown = [f"{s.median:.{digits}f} {measured.unit} ({s.low:.{digits}f} .. {s.high:.{digits}f})" for s in spreads]
    ratio = median(values[1]) / median(values[0]) if median(values[0]) else float("inf")
    missed = measured.goal is not None and ratio > measured.goal
    return (
        measured.name,
        *shown,
        Text(f"{ratio:.2f}", style="red" if missed else ""),
        "" if measured.goal is None else f"{measured.goal:g}",
        "" if measured.better is None else f"{measured.better:g}",
    )
