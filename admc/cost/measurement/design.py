"""Which slices are measured, and in which order: a pure plan.

    ceiling -> rates -> [SliceGroup]: all slices at one rate that are compared with each other -> turns

A group ends before time is up or is not begun, so no turn lacks a size that others have. Its arms come in another order
in each turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from admc.cost.profile_import.calm import UNDISTURBED, calmest
from dsl.program import Protocol, Side

SIZES: Final = (100, 4096, 16384, 65536)
LOWEST_RATE: Final = 5.0
WORKER_SHARE: Final = 0.7
"""The part of a worker's core up to which is measured."""
HIGHEST_RATE: Final = 8000.0


class Grid(NamedTuple):
    """How much is measured. `rates` is a number of rates; slices are in seconds."""

    sizes: tuple[int, ...]
    rates: int
    lowest: float
    slow_seconds: float
    """The length of a slice at low rates."""
    fast_seconds: float
    requests: int
    """Requests that make a slice shorter than `slow_seconds`."""
    warm: float
    idle: int
    """Seconds without requests."""
    strict: bool = False
    """Whether the budget ends the first turn, too, once each protocol has a bare hop."""


FULL: Final = Grid(SIZES, 5, LOWEST_RATE, 2.0, 0.4, 40, 0.1, 8)
QUICK: Final = Grid((100, 16384), 3, 20.0, 0.5, 0.25, 60, 0.06, 4, strict=True)


class Cell(NamedTuple):
    rate: float
    size: int


class SliceGroup(NamedTuple):
    """The arms (by name, in any order) and cells that are measured together. The rate is the same in all cells."""

    name: str
    protocol: Protocol
    side: Side
    arms: tuple[str, ...]
    cells: tuple[Cell, ...]
    sampled: tuple[Cell, ...] = ()
    """Cells in which stacks of the hop are sampled, in slices of their own: taking them takes CPU."""
    alternate: bool = False
    """Whether the requests of its two arms alternate in one slice: those through a bare hop, and those past it."""

    def slices(self, turn: int) -> tuple[tuple[str, ...], ...]:
        """The arms of each slice of one turn."""
        order = self.order(turn)
        return (order,) if self.alternate else tuple((name,) for name in order)

    def order(self, turn: int) -> tuple[str, ...]:
        """The arms of one turn. The first one, which the others are compared with, comes again after some others."""
        first, *others = self.arms
        if len(others) <= 1:
            return in_turn(self.arms, turn)
        turned = in_turn(others, turn)
        parts = [turned[at : at + _BETWEEN_FIRST] for at in range(0, len(turned), _BETWEEN_FIRST)]
        return (*(name for part in parts for name in (first, *part)), first)

    def seconds(self, grid: Grid) -> float:
        """An estimate of the time that it takes."""
        cells = (*self.cells * len(self.slices(0)), *self.sampled)
        return sum(slice_seconds(cell.rate, grid) + warm_seconds(cell.rate, grid) + _OVERHEAD for cell in cells)


ALTERNATE_RATE: Final = 120.0
"""Requests/s up to which those through a bare hop and those past it alternate: a slice has so few that their difference
from one slice to the next would be chance. At higher rates both together are too much for a small machine."""
_BETWEEN_FIRST: Final = 5
_OVERHEAD: Final = 0.02
"""Seconds of a slice beside the load."""


def slice_seconds(rate: float, grid: Grid) -> float:
    """Long enough for a number of requests, within bounds."""
    return min(grid.slow_seconds, max(grid.fast_seconds, grid.requests / rate))


def warm_seconds(rate: float, grid: Grid) -> float:
    """Before a slice: a request at low rates, and a tenth of a second of them at high ones."""
    return max(grid.warm, 1 / rate)


def rates(ceiling: float, grid: Grid) -> tuple[float, ...]:
    """From the lowest rate to the ceiling, by one factor, with two digits each.

    >>> rates(1600, FULL)
    (5.0, 21.0, 89.0, 380.0, 1600.0)
    """
    factor = (max(ceiling, 2 * grid.lowest) / grid.lowest) ** (1 / (grid.rates - 1))
    return tuple(dict.fromkeys(two_digits(grid.lowest * factor**index) for index in range(grid.rates)))


def two_digits(value: float) -> float:
    return float(Decimal(f"{value:.1e}"))


def component_cells(of: Sequence[float], grid: Grid) -> tuple[tuple[Cell, ...], ...]:
    """Components are measured at the middle rate with both ends of the sizes, and at higher ones with the smallest.

    At lower rates a slice has too few requests to see a small cost beside that of the hop. At the highest one, a
    component that works on each byte of a large message takes more than a worker.
    """
    slow, small, large = of[len(of) // 2], grid.sizes[0], grid.sizes[-1]
    faster = [(Cell(rate, small),) for rate in of if rate > slow]
    return ((Cell(slow, small), Cell(slow, large)), *faster)


def in_turn(items: Sequence[str], turn: int) -> tuple[str, ...]:
    """Another one first in each turn, and backwards in every second one."""
    at = (turn // 2) % len(items)
    order = (*items[at:], *items[:at])
    return order if turn % 2 == 0 else tuple(reversed(order))


class Tried(NamedTuple):
    """What one rate of the search did. `cores` is the CPU of the sidecar."""

    cores: float
    latency: float
    """Microseconds, the median."""
    failed: int
    late: float
    """Microseconds, the median."""
    stolen: float = 0.0
    """The part of the time of all cores that the host took away meanwhile."""


_LATER: Final = 2.0
"""Requests may be sent so many times later than at a low rate, or by `_MOST_LATE` microseconds."""
_MOST_LATE: Final = 1_000.0
_SLOWER: Final = 1.25
"""Latencies of two slices differ by chance, also where a sidecar is not cold at a low rate."""


class Highest(NamedTuple):
    """What the search found: a rate that holds, and why a higher one does not."""

    rate: float
    why: str


def limit(tried: Tried, first: Tried) -> str | None:
    """What is saturated: the sidecar or the machine; None if neither is.

    At a low rate a sidecar is cold, and so its latency is high. Where it is well above that at a high rate, requests
    wait for each other.
    """
    if tried.failed:
        return "requests failed"
    if tried.cores > WORKER_SHARE:
        return f"the sidecar took {tried.cores:.2f} cores"
    if tried.late > max(_MOST_LATE, _LATER * first.late):
        return f"requests were sent {tried.late:,.0f} us late"
    if tried.latency > _SLOWER * first.latency:
        return f"latency was {tried.latency:,.0f} us, after {first.latency:,.0f} us at a low rate"
    return None


_FIRST_TRIES: Final = 5
_ENOUGH: Final = 2
"""Of three: a burst of other work on the machine may spoil one, and one may pass by luck where most do not."""
_MOST_TRIES: Final = 20
"""With those that fail while the host takes time away: they do not say what the machine takes. A burst goes on for
seconds."""


def ceiling(run: Callable[[float], Tried], start: float = 50.0, refinements: int = 2) -> Highest:
    """The highest rate that a sidecar takes here: doubled until one does not hold, then searched for in between."""
    calm_first = calmest([run(start) for _ in range(_FIRST_TRIES)], lambda tried: tried.stolen)
    first = sorted(calm_first, key=lambda tried: tried.latency)[len(calm_first) // 2]

    def limit_at(rate: float) -> str | None:
        passed = failed = 0
        why = None
        for _ in range(_MOST_TRIES):
            tried = run(rate)
            if (reason := limit(tried, first)) is None:
                passed += 1
            else:
                why = reason
                failed += tried.stolen <= UNDISTURBED
            if passed == _ENOUGH:
                return None
            if failed == _ENOUGH:
                break
        return why

    good, bad, why = start, math.inf, "no higher one was tried"
    while bad == math.inf and good < HIGHEST_RATE:
        rate = min(2 * good, HIGHEST_RATE)
        if (reason := limit_at(rate)) is None:
            good = rate
        else:
            bad, why = rate, reason
    for _ in range(refinements if bad < math.inf else 0):
        middle = math.sqrt(good * bad)
        if (reason := limit_at(middle)) is None:
            good = middle
        else:
            bad, why = middle, reason
    return Highest(good, why if bad == math.inf else f"at {bad:,.0f}/s {why}")


class Sample(NamedTuple):
    """One slice: CPU in cores and latency in microseconds."""

    cores: float
    latency: float


LEAST_TURNS: Final = 5
"""With fewer there is no interval."""
NARROW: Final = 0.05
"""Half an interval, as a part of what the whole arm takes."""


def is_narrow(ours: Sequence[Sample], theirs: Sequence[Sample]) -> bool:
    """Whether the differences of two arms, turn by turn, are known well enough."""
    from fractions import Fraction
    from statistics import median

    from admc.cost.profile_import.estimates import interval

    for quantity in ("cores", "latency"):
        values = [(getattr(a, quantity), getattr(b, quantity)) for a, b in zip(ours, theirs, strict=True)]
        low, high = interval([Fraction(a) - Fraction(b) for a, b in values])
        if low is None or high is None:
            return False
        if float(high - low) / 2 > NARROW * median(a for a, _ in values):
            return False
    return True


def unreached(turns: Mapping[str, int], narrow: Mapping[str, bool]) -> tuple[str, ...]:
    """What the budget was too short for, by the names of groups."""
    none = [name for name in narrow if not turns[name]]
    few = [name for name, done in narrow.items() if not done and 0 < turns[name] < LEAST_TURNS]
    wide = [f"{name} ({turns[name]} turns)" for name, done in narrow.items() if not done and turns[name] >= LEAST_TURNS]
    notes = []
    if none:
        notes.append(f"not measured, since the budget ended before: {'; '.join(none)}; a larger `--budget` has them")
    if few:
        notes.append(f"no intervals, since the budget ended before {LEAST_TURNS} turns: {'; '.join(few)}")
    if wide:
        notes.append(f"intervals wider than {NARROW:.0%} of what the sidecar takes, to each side: {'; '.join(wide)}")
    return tuple(notes)
