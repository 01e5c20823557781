"""The tables, for a terminal and as markdown: one model, two ways to write it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table

from tests.bench.cost.figures import COMPILED, Arm, Window, added, over_rounds, rank, ratio
from tests.bench.measure import spread

if TYPE_CHECKING:
    from tests.bench.cost.arm import Load
    from tests.bench.measure import Spread

Rounds = Sequence[Mapping[Arm, Window]]
MEGABYTE = 1_000_000
ARMS = tuple(Arm)
RATIOS = ((Arm.FULL, Arm.NONE), *((arm, Arm.FULL) for arm in COMPILED))
VERSUS = tuple(f"{above} / {below}" for above, below in RATIOS)
TITLE = "Hotel reservation without a mesh, with a full one, and compiled: median (lowest .. highest) of the rounds"
RATIOS_TITLE = "Ratios within a round: median (lowest .. highest)"
PARTS = (0.5, 0.99)
ADDED_GOAL, CPU_GOAL = 0.48, 0.45
"""Of the full mesh, for the best compiled arm: what is added to p50, and CPU of proxies."""
LATE = 0.1
"""A generator that is later than this part of a latency (p50 by p50, p99 by p99) is part of the figure, not only its
observer."""
BUSY = 0.7
"""Above this part of the machine's CPU, latencies are about queues more than about the way of a request."""
OTHERS = 0.1
"""CPU cores that others may use before it is said. The kernel's own work for the bed's packets is in it."""


class Measure(NamedTuple):
    """One row: what it says of a window, and with how many digits."""

    name: str
    value: Callable[[Window], float]
    digits: int


MEASURES = (
    Measure("latency p50, ms", lambda w: w.latency(0.5), 2),
    Measure("latency p99, ms", lambda w: w.latency(0.99), 2),
    Measure("latency p99.9, ms", lambda w: w.latency(0.999), 2),
    Measure("CPU of proxies, s for 1,000 requests", lambda w: w.each(w.proxies.cpu), 3),
    Measure("  of those at `no adm` services", lambda w: w.each(w.databases.cpu), 3),
    Measure("CPU of the application, same unit", lambda w: w.each(w.application.cpu), 3),
    Measure("CPU of both, same unit", lambda w: w.each(w.application.cpu + w.proxies.cpu), 3),
    Measure("memory of proxies (PSS), MB", lambda w: w.proxies.pss / MEGABYTE, 0),
    Measure("memory of proxies (RSS), MB", lambda w: w.proxies.rss / MEGABYTE, 0),
    Measure("memory of the application (PSS), MB", lambda w: w.application.pss / MEGABYTE, 0),
    Measure("memory of both (PSS), MB", lambda w: (w.application.pss + w.proxies.pss) / MEGABYTE, 0),
    Measure("CPU cores that all of the bed used", lambda w: w.bed / w.seconds, 2),
)


class Row(NamedTuple):
    """Text for each of `ARMS`, and for each of `RATIOS`."""

    name: str
    values: tuple[str, ...]
    ratios: tuple[str, ...]


def rows(rounds: Rounds) -> Iterator[Row]:
    number = {arm: rounds[-1][arm].proxies.processes for arm in ARMS}
    yield Row(
        "proxies",
        tuple(str(each) for each in number.values()),
        tuple(f"{number[above] / number[below]:.2f}" if number[below] else "-" for above, below in RATIOS),
    )
    for measure in MEASURES:
        spreads = [over_rounds([each[arm] for each in rounds], measure.value) for arm in ARMS]
        ratios = [ratio(rounds, above, below, measure.value) for above, below in RATIOS]
        yield Row(
            measure.name,
            tuple(_spread(each, measure.digits) if each.high > 0 else "-" for each in spreads),
            tuple(_spread(each, 2) if each and each.high > 0 else "-" for each in ratios),
        )
    for part in PARTS:
        more = tuple(_spread(spread(added(rounds, arm, Arm.NONE, part)), 2) for arm in ARMS if arm is not Arm.NONE)
        kept = tuple(added_of_full(rounds, arm, part) for arm in COMPILED)
        yield Row(
            f"added to p{part * 100:g} by the mesh, ms",
            ("-", *more),
            ("-", *(_spread(each, 2) if each else "-" for each in kept)),
        )


def added_of_full(rounds: Rounds, arm: Arm, part: float) -> Spread | None:
    """Of what the full mesh adds to a percentile, the part that an arm adds."""
    full = added(rounds, Arm.FULL, Arm.NONE, part)
    if min(full) <= 0:
        return None
    return spread([own / other for own, other in zip(added(rounds, arm, Arm.NONE, part), full, strict=True)])


def goals(rounds: Rounds) -> Iterator[tuple[bool, str]]:
    """The best compiled arm beside the full mesh. A missed goal is no reason to doubt the figure."""
    for what, goal, found in (
        ("added p50", ADDED_GOAL, {arm: added_of_full(rounds, arm, 0.5) for arm in COMPILED}),
        ("CPU of proxies", CPU_GOAL, {arm: ratio(rounds, arm, Arm.FULL, _cpu) for arm in COMPILED}),
    ):
        medians = {arm: each.median for arm, each in found.items() if each is not None}
        if medians:
            best = min(medians, key=lambda arm: medians[arm])
            said = "met" if medians[best] <= goal else "missed"
            yield False, f"{what}: the best arm has {medians[best]:.2f} of the full mesh ({best}); goal {goal}: {said}"


def _cpu(window: Window) -> float:
    return window.each(window.proxies.cpu)


def tables(rounds: Rounds) -> Iterator[Table]:
    """What was measured, and the ratios."""
    found = list(rows(rounds))
    yield _table(TITLE, ARMS, [(row.name, row.values) for row in found])
    yield _table(RATIOS_TITLE, VERSUS, [(row.name, row.ratios) for row in _compared(found)])


def markdown(rounds: Rounds) -> str:
    found = list(rows(rounds))
    measured = _markdown(ARMS, [(row.name, row.values) for row in found])
    return f"{measured}\n\n{_markdown(VERSUS, [(row.name, row.ratios) for row in _compared(found)])}"


def _compared(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if any(ratio != "-" for ratio in row.ratios)]


def _table(title: str, head: Sequence[str], body: Sequence[tuple[str, Sequence[str]]]) -> Table:
    made = Table(title=title, title_justify="left")
    made.add_column("")
    for name in head:
        made.add_column(name, justify="right")
    for name, cells in body:
        made.add_row(name, *cells)
    return made


def _markdown(head: Sequence[str], body: Sequence[tuple[str, Sequence[str]]]) -> str:
    lines = ["| | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    lines += [f"| {name.strip()} | " + " | ".join(cells) + " |" for name, cells in body]
    return "\n".join(lines)


def remarks(rounds: Rounds, load: Load) -> Iterator[tuple[bool, str]]:
    """What belongs to the figures, and whether it is a reason to doubt them."""
    each = len(rounds[0][ARMS[0]].outcomes)
    yield (
        False,
        f"{load.rate:g} requests/s at even distances, whatever is answered; latency from the intended time. Rounds: "
        f"{len(rounds)}; in each, for every arm, {load.warm_up:g} s of warm-up and {load.window:g} s that are "
        f"measured. That is {each:,} requests, so p99.9 is number {each - rank(each, 0.999) + 1} from above",
    )
    yield from goals(rounds)
    for arm in ARMS:
        windows = [found[arm] for found in rounds]
        answers = sum((window.answers for window in windows), Counter[str]())
        errors = {status: count for status, count in answers.most_common() if status != "200"}
        said = ", ".join(f"{count:,} x {status}" for status, count in errors.items()) or "none"
        yield bool(errors), f"{arm}: {answers.total():,} requests, errors: {said}"
    for arm in ARMS:
        windows = [found[arm] for found in rounds]
        half, most = (spread([window.lateness(part) for window in windows]) for part in PARTS)
        took = [spread([window.latency(part) for window in windows]) for part in PARTS]
        last = max(window.lateness(1) for window in windows)
        yield (
            half.median > LATE * took[0].median or most.median > LATE * took[1].median,
            f"{arm}: the generator sent late by {_spread(half, 3)} ms (p50), {_spread(most, 3)} ms (p99), at most "
            f"{last:.2f} ms; that is in the latencies, since they count from the intended time",
        )
        busy = over_rounds(windows, lambda w: max(w.machine, w.bed) / w.seconds)
        yield (
            busy.median > BUSY * (os.cpu_count() or 1),
            f"{arm}: the machine worked on {_spread(busy, 2)} of its {os.cpu_count()} cores, for all its processes",
        )
    everything = [window for found in rounds for window in found.values()]
    others = over_rounds(everything, lambda w: w.others / w.seconds)
    stolen = over_rounds(everything, lambda w: w.stolen / w.seconds)
    yield (
        others.median > OTHERS,
        f"CPU of neither proxies nor application nor generator: {_spread(others, 2)} cores; the kernel's work on the "
        f"bed's packets is in it, and so are all other processes of the machine",
    )
    yield stolen.median > OTHERS / 10, f"CPU that the machine was not given: {_spread(stolen, 3)} cores"


def _spread(value: Spread, digits: int) -> str:
    median, low, high = (f"{each:,.{digits}f}" for each in (value.median, value.low, value.high))
    return f"{median} ({low} .. {high})" if value.runs > 1 else median
