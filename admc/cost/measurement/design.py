"""Plans which slices are measured, and in which order. The plan is pure: it starts no process.

    ceiling -> rates -> SliceGroup: all slices at one rate that are compared with each other -> slices of a turn

The session measures a whole group or none of it, so no turn ends between two sizes. It begins a group only if the group
is expected to end in time, or if the first turn needs it. The order of the arms in a group differs from turn to turn.
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
"""The largest load of a worker, as a part of its core, that is measured."""
HIGHEST_RATE: Final = 8000.0


class Grid(NamedTuple):
    """How much is measured. `rates` is the number of rates, and `lowest` is the lowest of them."""

    sizes: tuple[int, ...]
    rates: int
    lowest: float
    slow_seconds: float
    """The length of a slice at low rates."""
    fast_seconds: float
    requests: int
    """A slice with this many requests may be shorter than `slow_seconds`."""
    warm: float
    """The least number of seconds with load before a slice."""
    idle: int
    """Seconds in which an idle sidecar is measured."""
    strict: bool = False
    """Whether the budget ends the first turn, too, once each protocol has a bare hop."""


FULL: Final = Grid(SIZES, 5, LOWEST_RATE, 2.0, 0.4, 40, 0.1, 8)
QUICK: Final = Grid((100, 16384), 3, 20.0, 0.5, 0.25, 60, 0.06, 4, strict=True)


class Cell(NamedTuple):
    rate: float
    size: int


class SliceGroup(NamedTuple):
    """Arms (by name) and cells that are measured together. The first arm is the one that the others are compared with.
    The rate is the same in all cells."""

    name: str
    protocol: Protocol
    side: Side
    arms: tuple[str, ...]
    cells: tuple[Cell, ...]
    sampled: tuple[Cell, ...] = ()
    """Cells in which stacks of the hop are sampled, in slices of their own, since sampling takes CPU."""
    alternate: bool = False
    """Whether the requests of its two arms alternate in one slice: those through a bare hop, and those past it."""

    def slices(self, turn: int) -> tuple[tuple[str, ...], ...]:
        """The arms of each slice of one turn."""
        order = self.order(turn)
        return (order,) if self.alternate else tuple((name,) for name in order)

    def order(self, turn: int) -> tuple[str, ...]:
        """The arms of one turn. The first arm comes again after every few others, so that all are near it in time."""
        first, *others = self.arms
        if len(others) <= 1:
            return in_turn(self.arms, turn)
        turned = in_turn(others, turn)
        parts = [turned[at : at + _BETWEEN_FIRST] for at in range(0, len(turned), _BETWEEN_FIRST)]
        return (*(name for part in parts for name in (first, *part)), first)

    def seconds(self, grid: Grid) -> float:
        """An estimate of the seconds that one turn of the group takes."""
        cells = (*self.cells * len(self.slices(0)), *self.sampled)
        return sum(slice_seconds(cell.rate, grid) + warm_seconds(cell.rate, grid) + _OVERHEAD for cell in cells)


ALTERNATE_RATE: Final = 120.0
"""Up to this rate, and half of the highest, requests through a bare hop and requests past it alternate in one slice:
two slices have so few requests that their difference would be chance. At higher rates both together are too much for a
small machine."""
_BETWEEN_FIRST: Final = 5
_OVERHEAD: Final = 0.02
"""Seconds of a slice beside the load."""


def slice_seconds(rate: float, grid: Grid) -> float:
    """The length of a slice: long enough for the number of requests of the grid, within its bounds."""
    return min(grid.slow_seconds, max(grid.fast_seconds, grid.requests / rate))


def warm_seconds(rate: float, grid: Grid) -> float:
    """How long the load runs before a slice: for one request at low rates, and for `grid.warm` at high rates."""
    return max(grid.warm, 1 / rate)


def rates(ceiling: float, grid: Grid) -> tuple[float, ...]:
    """The rates from the lowest to the ceiling, each the same factor above the last, rounded to two digits.

    >>> rates(1600, FULL)
    (5.0, 21.0, 89.0, 380.0, 1600.0)
    """
    factor = (max(ceiling, 2 * grid.lowest) / grid.lowest) ** (1 / (grid.rates - 1))
    return tuple(dict.fromkeys(two_digits(grid.lowest * factor**index) for index in range(grid.rates)))


def two_digits(value: float) -> float:
    return float(Decimal(f"{value:.1e}"))


def component_cells(of: Sequence[float], grid: Grid) -> tuple[tuple[Cell, ...], ...]:
    """The cells for components: the middle rate with the smallest and the largest size, higher rates with the smallest.

    At lower rates a slice has too few requests to show a small cost beside that of the hop. At the highest rate, a
    component that works on each byte of a large message takes more than a worker.
    """
    slow, small, large = of[len(of) // 2], grid.sizes[0], grid.sizes[-1]
    faster = [(Cell(rate, small),) for rate in of if rate > slow]
    return ((Cell(slow, small), Cell(slow, large)), *faster)


def in_turn(items: Sequence[str], turn: int) -> tuple[str, ...]:
    """The items in the order of a turn: every second turn another item comes first, and the turn after is backwards."""
    at = (turn // 2) % len(items)
    order = (*items[at:], *items[:at])
    return order if turn % 2 == 0 else tuple(reversed(order))


class Tried(NamedTuple):
    """The figures of one slice of the search for the ceiling. `cores` is the CPU of the sidecar."""

    cores: float
    latency: float
    """Microseconds, the median."""
    failed: int
    late: float
    """Microseconds, the median."""
    stolen: float = 0.0
    """The part of the time of all cores that the host took away during the slice."""


_LATER: Final = 2.0
"""Requests may be sent this many times as late as at a low rate, or `_MOST_LATE` microseconds late."""
_MOST_LATE: Final = 1_000.0
_SLOWER: Final = 1.25
"""Latency may be this many times that at a low rate: latencies of two slices differ by chance."""


class Highest(NamedTuple):
    """The highest rate that holds, and the reason why a higher rate does not."""

    rate: float
    why: str


def limit(tried: Tried, first: Tried) -> str | None:
    """Why a rate does not hold, since the sidecar or the machine is saturated; None if it holds. `first` is a slice at
    a low rate.

    A sidecar is cold at a low rate, and so its latency is high. If the latency at a high rate is well above that,
    requests wait for each other.
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
"""A rate holds after this many tries that pass, and does not hold after this many that fail. Other work on the machine
may spoil one try, and one may pass by luck."""
_MOST_TRIES: Final = 20
"""Most tries at one rate. A try that fails while the host takes time away does not count as failed, and the host may go
on for seconds."""


def ceiling(run: Callable[[float], Tried], start: float = 50.0, refinements: int = 2) -> Highest:
    """A rate near the highest that holds on this machine, at most `HIGHEST_RATE`: rates are doubled until one does not
    hold, and then bisected. The rate `start` is taken to hold. `run` measures a slice at a rate."""
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
"""With fewer turns there is no interval."""
NARROW: Final = 0.05
"""An interval is narrow if half of it is at most this part of the cost of the whole arm."""


def is_narrow(ours: Sequence[Sample], theirs: Sequence[Sample]) -> bool:
    """Whether the differences of two arms, turn by turn, have narrow intervals."""
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
    """Notes about the groups for which the budget was too short."""
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
