"""Makes a profile from raw runs: differences within a turn, medians over turns, intervals by order statistics.

A hop is what a bare hop adds to no proxy; a component is what one policy adds to the bare hop, to that of its own side
where hops have a side. Both are compared within one turn, so that slow changes of the machine cancel out. In each turn
a straight line over the sizes gives the figure at the smallest size and the cost of a byte. The interval of a median
holds for any distribution, and needs no random draws: the same runs give the same profile.

Measured values are whole numbers of `1 / UNIT`, which is exact and many times faster than `Fraction` where a table has
100,000 runs. A figure becomes a `Fraction` when it is a median over turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Final, NamedTuple, TypeVar

from admc.overhead.profile_import.runs import HOP, IDLE, NONE, OWN, Arm, Run
from admc.overhead.profiles.profile import (
    CPU,
    LATENCY,
    ComponentCost,
    Curve,
    Figure,
    HopCost,
    Knot,
    Law,
    Method,
    Part,
    Platform,
    Profile,
    Proxy,
    SidecarCost,
    Sizes,
    component_order,
)
from dsl.program import Protocol, Side

CONFIDENCE: Final = 0.90
PART: Final = "whole"
SHOWN_TURNS: Final = 8
UNIT: Final = 4 * 10**12
"""A run has at most 12 digits after the point; a median over slices halves that, and so does the median of idle CPU."""
_PLACES: Final[Mapping[str, int]] = {LATENCY: 6, CPU: 12}
_BYTE_PLACES: Final[Mapping[str, int]] = {LATENCY: 12, CPU: 15}


class Fitted(NamedTuple):
    profile: Profile
    notes: tuple[str, ...]
    """What was left out or merged."""


class Estimate(NamedTuple):
    """A median over turns, in the unit of one request, with its interval."""

    value: Fraction
    low: Fraction | None
    high: Fraction | None
    weight: int


_Cell = tuple[Decimal, Decimal]
"""Rate and size."""
_Differences = Mapping[str, Mapping[_Cell, int]]
"""By turn and cell, in units."""
_Number = TypeVar("_Number", int, Fraction)


class _Runs:
    """Runs by arm and protocol; several slices of one arm in a turn are one median."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._values: dict[tuple[Arm, Protocol | None, str], dict[str, dict[_Cell, list[int]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        self._medians: dict[tuple[Arm, Protocol | None, str], _Differences] = {}
        for run in runs:
            cell = (run.rate or Decimal(0), run.size or Decimal(0))
            for quantity, value in ((LATENCY, run.latency), (CPU, run.cpu), ("memory", run.memory)):
                if value is not None:
                    self._values[run.arm, run.protocol, quantity][run.turn][cell].append(_units(value))

    def of(self, arm: Arm, protocol: Protocol | None, quantity: str) -> _Differences:
        key = arm, protocol, quantity
        found = self._medians.get(key)
        if found is None:
            turns = self._values.get(key, {})
            found = self._medians[key] = {
                turn: {cell: _middles(values) // 2 for cell, values in cells.items()} for turn, cells in turns.items()
            }
        return found


def _units(value: Decimal) -> int:
    part, over = value.as_integer_ratio()
    return part * UNIT // over


def _middles(values: Sequence[int]) -> int:
    """Twice the median."""
    if len(values) == 1:
        return 2 * values[0]
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]


def fit(runs: Sequence[Run], name: str, platform: Platform, proxy: Proxy, saturation: Decimal | None) -> Fitted:
    """The profile of a measurement. Runs that cannot be compared are named in the notes."""
    maker = _Maker(runs)
    arms = sorted({(run.protocol, run.arm) for run in runs if run.protocol is not None}, key=_order)
    hops = [hop for protocol in Protocol if (hop := maker.hop(protocol)) is not None]
    components = [
        cost
        for protocol, arm in arms
        if arm.name not in (NONE, HOP, IDLE) and (cost := maker.component(protocol, arm)) is not None
    ]
    found = Profile(
        name=name,
        source="runs of this platform",
        platform=platform,
        proxy=proxy,
        method=Method(
            "median",
            "differences within a turn, the median over turns; intervals of 90% by order statistics; a straight line "
            "over sizes",
        ),
        saturation=saturation,
        parts={PART: "all parts together"},
        own_components=tuple(sorted({cost.component for cost in components if cost.component in maker.own})),
        sidecar=maker.sidecar(),
        hops=tuple(hops),
        components=tuple(sorted(components, key=component_order)),
    )
    return Fitted(found, tuple(maker.notes))


def _order(item: tuple[Protocol, Arm]) -> tuple[object, ...]:
    protocol, arm = item
    return list(Protocol).index(protocol), arm.name, arm.side or "", arm.kind or "", arm.arguments


class _Maker:
    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = _Runs(runs)
        self.notes: list[str] = []
        self.own: set[str] = set()
        idle = self.runs.of(Arm(IDLE), None, CPU)
        self.idle = _estimate([value for cells in idle.values() for value in cells.values()])

    def sidecar(self) -> SidecarCost:
        memory = self.runs.of(Arm(IDLE), None, "memory")
        idle = _estimate([value for cells in memory.values() for value in cells.values()])
        return SidecarCost(_figure(self.idle, 9), _figure(idle, 0), None, None, None)

    def hop(self, protocol: Protocol) -> HopCost | None:
        what = f"hop {protocol}"
        turns = _turns(self.runs.of(Arm(HOP), protocol, LATENCY), self.runs.of(Arm(HOP), protocol, CPU))
        if not turns:
            return None
        latency = self._law(LATENCY, what, self._latency(protocol, Arm(HOP), Arm(NONE)))
        cpu = self._law(CPU, what, self._idle_less(self.runs.of(Arm(HOP), protocol, CPU)))
        sizes = _sizes(self.runs.of(Arm(HOP), protocol, LATENCY), self.runs.of(Arm(HOP), protocol, CPU))
        if (latency is None and cpu is None) or sizes is None:
            self.notes.append(f"{what}: no turn has both `{HOP}` and `{NONE}`")
            return None
        return HopCost(protocol, sizes, len(turns), (Part(PART, latency, cpu),))

    def component(self, protocol: Protocol, arm: Arm) -> ComponentCost | None:
        name = arm.name.removeprefix(OWN)
        if arm.name.startswith(OWN):
            self.own.add(name)
        what = f"component {name} ({protocol})"
        base = self._base(protocol, arm)
        latency = self._law(LATENCY, what, self._latency(protocol, arm, base))
        cpu = self._law(CPU, what, self._difference(protocol, arm, base, CPU))
        sizes = _sizes(self.runs.of(arm, protocol, LATENCY), self.runs.of(arm, protocol, CPU))
        if latency is None and cpu is None:
            self.notes.append(f"{what}: no turn has both it and `{HOP}`")
            return None
        memory = self._difference(protocol, arm, base, "memory")
        bytes_ = _estimate([value for cells in memory.values() for value in cells.values()])
        turns = _turns(self.runs.of(arm, protocol, LATENCY), self.runs.of(arm, protocol, CPU))
        return ComponentCost(
            name,
            protocol,
            arm.side,
            arm.kind,
            arm.arguments,
            False,
            sizes,
            len(turns),
            latency,
            cpu,
            _figure(bytes_, 0),
        )

    def _base(self, protocol: Protocol, arm: Arm) -> Arm:
        """The bare hop that a component is compared with. Without a side it was measured at ingress."""
        sided = Arm(HOP, arm.side or Side.INGRESS)
        return sided if self.runs.of(sided, protocol, LATENCY) or self.runs.of(sided, protocol, CPU) else Arm(HOP)

    def _latency(self, protocol: Protocol, arm: Arm, base: Arm) -> _Differences:
        return self._difference(protocol, arm, base, LATENCY)

    def _difference(self, protocol: Protocol, arm: Arm, base: Arm, quantity: str) -> _Differences:
        ours, theirs = (self.runs.of(each, protocol, quantity) for each in (arm, base))
        return {
            turn: {cell: value - theirs[turn][cell] for cell, value in cells.items() if cell in theirs[turn]}
            for turn, cells in ours.items()
            if turn in theirs
        }

    def _idle_less(self, turns: _Differences) -> _Differences:
        """CPU of a hop without that of an idle sidecar, which the profile has as a figure of its own."""
        idle = 0 if self.idle is None else int(self.idle.value * UNIT)
        return {turn: {cell: value - idle for cell, value in cells.items()} for turn, cells in turns.items()}

    def _law(self, quantity: str, what: str, turns: _Differences) -> Law | None:
        by_rate: dict[Decimal, dict[str, dict[Decimal, int]]] = {}
        for turn, cells in turns.items():
            for (rate, size), value in cells.items():
                by_rate.setdefault(rate, {}).setdefault(turn, {})[size] = value
        rates = sorted(by_rate)
        smallest = min((size for cells in turns.values() for _, size in cells), default=Decimal(0))
        bases: list[Estimate] = []
        slopes: list[Estimate] = []
        kept: list[Decimal] = []
        sloped: list[Decimal] = []
        for rate in rates:
            there = {turn: by_rate[rate].get(turn, {}) for turn in turns}
            base, slope = self._lines(quantity, what, rate, smallest, there)
            if base is None:
                continue
            kept.append(rate)
            bases.append(base)
            if slope is not None:
                sloped.append(rate)
                slopes.append(slope)
        if not kept:
            return None
        if quantity == CPU:
            bases = self._falling(f"{what}: CPU of a request", kept, bases)
            slopes = self._falling(f"{what}: CPU of a byte", sloped, slopes)
        per_byte = _curve(quantity, sloped, slopes, _BYTE_PLACES[quantity]) if slopes else None
        return Law(_curve(quantity, kept, bases, _PLACES[quantity]), per_byte)

    def _lines(
        self, quantity: str, what: str, rate: Decimal, smallest: Decimal, turns: Mapping[str, Mapping[Decimal, int]]
    ) -> tuple[Estimate | None, Estimate | None]:
        """The figure of one request at the smallest size, and that of a byte, at one rate.

        `turns` has the values of that rate by turn and size."""
        sizes = sorted({size for values in turns.values() for size in values})
        line = _Line([size - smallest for size in sizes])
        bases: list[int] = []
        slopes: list[int] = []
        incomplete: list[str] = []
        for turn, found in turns.items():
            if len(found) < len(sizes):
                incomplete.append(turn)
                continue
            values = [found[size] for size in sizes]
            bases.append(line.base(values))
            slopes.append(line.slope(values))
        self.notes += [
            f"{what}: turn {turn} lacks a size at {rate}/s, and is left out there" for turn in incomplete[:SHOWN_TURNS]
        ]
        if len(incomplete) > SHOWN_TURNS:
            self.notes.append(f"{what}: {len(incomplete) - SHOWN_TURNS} more turns lack a size at {rate}/s")
        over = line.over * (Fraction(rate) if quantity == CPU else 1)
        return _estimate(bases, over), _estimate(slopes, over) if len(sizes) > 1 else None

    def _falling(self, what: str, rates: Sequence[Decimal], found: Sequence[Estimate]) -> list[Estimate]:
        """The nearest figures that do not rise with the rate: neighbours that rise become their mean."""
        groups: list[list[Estimate]] = []
        for each in found:
            groups.append([each])
            while len(groups) > 1 and _mean(groups[-1]) > _mean(groups[-2]):
                last = groups.pop()
                groups[-1] += last
        at = 0
        result: list[Estimate] = []
        for group in groups:
            if len(group) > 1:
                merged = ", ".join(f"{rate}/s" for rate in rates[at : at + len(group)])
                self.notes.append(f"{what} rises with the rate at {merged}: these are merged into their mean")
            at += len(group)
            result += [_merged(group)] * len(group)
        return result


def _mean(group: Sequence[Estimate]) -> Fraction:
    return sum((each.value * each.weight for each in group), Fraction(0)) / sum(each.weight for each in group)


def _merged(group: Sequence[Estimate]) -> Estimate:
    lows = [each.low for each in group if each.low is not None]
    highs = [each.high for each in group if each.high is not None]
    known = len(lows) == len(group) and len(highs) == len(group)
    weight = sum(each.weight for each in group)
    return Estimate(_mean(group), min(lows) if known else None, max(highs) if known else None, weight)


class _Line:
    """The line of least squares through a figure at each size: each of its two figures is a weighted sum.

    The weights depend on the sizes alone, so they are the same in each turn. All are whole numbers, over `over`.
    """

    def __init__(self, sizes: Sequence[Decimal]) -> None:
        number = len(sizes)
        mean = sum((Fraction(size) for size in sizes), Fraction(0)) / (number or 1)
        away = [Fraction(size) - mean for size in sizes]
        spread = sum((each**2 for each in away), Fraction(0))
        slopes = [each / spread if spread else Fraction(0) for each in away]
        bases = [Fraction(1, number) - mean * each for each in slopes]
        self.over = lcm(*(each.denominator for each in (*slopes, *bases)))
        self._slopes = [int(each * self.over) for each in slopes]
        self._bases = [int(each * self.over) for each in bases]

    def base(self, values: Sequence[int]) -> int:
        """The value at zero."""
        return sum(weight * value for weight, value in zip(self._bases, values, strict=True))

    def slope(self, values: Sequence[int]) -> int:
        """Zero for a single size."""
        return sum(weight * value for weight, value in zip(self._slopes, values, strict=True))


def _estimate(values: Sequence[int], over: Fraction | int = 1) -> Estimate | None:
    """The median with its interval. A cost below zero is noise: its value is zero, and its interval stays."""
    if not values:
        return None
    unit = 1 / Fraction(over * UNIT)
    value = max(Fraction(0), _middles(values) * unit / 2)
    low, high = (None if end is None else end * unit for end in interval(values))
    return Estimate(
        value, low if low is None else min(low, value), high if high is None else max(high, value), len(values)
    )


def interval(values: Sequence[_Number]) -> tuple[_Number | None, _Number | None]:
    """Two of the values between which the median lies with at least `CONFIDENCE`; None if there are too few."""
    rank = _rank(len(values))
    if rank == 0:
        return None, None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[len(ordered) - rank]


@cache
def _rank(number: int) -> int:
    """The highest rank from both ends between which the median of so many values lies with at least `CONFIDENCE`.

    The number of values below the median is binomial, whatever their distribution is. Zero if there are too few.
    """
    samples = 2**number
    ways = outside = rank = 0
    while rank < number // 2:
        ways = ways * (number - rank + 1) // rank if rank else 1
        outside += ways
        if 2 * outside / samples > 1 - CONFIDENCE:
            break
        rank += 1
    return rank


def _turns(*found: _Differences) -> set[str]:
    return {turn for each in found for turn in each}


def _sizes(*found: _Differences) -> Sizes | None:
    sizes = [size for each in found for cells in each.values() for _, size in cells]
    return Sizes(min(sizes), max(sizes), min(sizes)) if sizes else None


def _curve(quantity: str, rates: Sequence[Decimal], found: Sequence[Estimate], places: int) -> Curve:
    return tuple(
        Knot(rate, _scaled(each, rate if quantity == CPU else Decimal(1), places))
        for rate, each in zip(rates, found, strict=True)
    )


def _scaled(each: Estimate, factor: Decimal, places: int) -> Figure:
    """The figure of one request, rounded once, times a factor. Rounding before keeps the order of figures by rate."""
    low = None if each.low is None else rounded(each.low, places) * factor
    return Figure(
        rounded(each.value, places) * factor, low, None if each.high is None else rounded(each.high, places) * factor
    )


def _figure(each: Estimate | None, places: int) -> Figure | None:
    return None if each is None else _scaled(each, Decimal(1), places)


def rounded(value: Fraction, places: int) -> Decimal:
    """Half to even.

    >>> rounded(Fraction(1, 3), 4), rounded(Fraction(-1, 8), 2)
    (Decimal('0.3333'), Decimal('-0.12'))
    """
    return Decimal(round(value * 10**places)).scaleb(-places)
