"""Splits the CPU of a hop into parts, by sampled stacks.

    Runs -> _Slices by rate -> weights of the parts -> costs of one request that add up -> [split] -> Law of each part

Taking stacks takes CPU, so stacks are sampled in slices of their own. They give the proportion in which the parts share
a total that other slices have measured:

    total                 proportion of the parts
    CPU of one request    stacks at the smallest sampled size
    CPU of one byte       growth of the part from the smallest to the largest sampled size

The parts add up to the total, to the last digit. The cost of a part never rises with the rate, as that of the hop.

The interval of a part comes from turns that are drawn anew, always in the same way. The error of the total is
independent of it, so the squares of both add up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from admc.cost.profile_import.run_medians import Cell, Differences, Runs
from admc.cost.profile_import.runs import PART, PARTS, Arm
from admc.cost.profiles.amounts import hypotenuse
from admc.cost.profiles.profile import CPU, Curve, Figure, Knot, Law
from dsl.program import Protocol

DRAWS: Final = 400
LEAST_TURNS: Final = 5
"""With fewer turns there is no interval."""
MOST_BLOCKS: Final = 100
"""If there are more turns, they are put into this many groups, and groups are drawn."""
_TAIL: Final = DRAWS // 20

_Seen = Sequence[int]
"""CPU of each part by sampled stacks, less that of an idle sidecar; it may be below zero by chance."""
_Weights = Sequence[int]
"""The proportion in which the parts share a total."""


class CannotSplitError(Exception):
    """Stacks are missing; the message says which."""


class _Slices(NamedTuple):
    """The slices of one rate by turn, at the smallest and at the largest sampled size."""

    small: Sequence[_Seen]
    large: Sequence[_Seen]
    growth: Decimal
    """The difference of the two sizes, in bytes."""


_Weigh = Callable[[_Seen, _Seen], _Weights | None]
"""Computes weights from the stacks at the smallest and at the largest size; None if there is no stack."""


class _Total(NamedTuple):
    """One figure of the hop that the parts share."""

    knot: Knot
    places: int
    slices: _Slices
    weigh: _Weigh

    def units(self, value: Decimal) -> Fraction:
        """The cost of one request, in units of the last of `places` digits after the point."""
        return Fraction(value) * Fraction(10**self.places) / Fraction(self.knot.rate or 1)

    def cores(self, units: int) -> Decimal:
        return Decimal(units).scaleb(-self.places) * (self.knot.rate or 1)


def split(runs: Runs, protocol: Protocol, whole: Law, reference: Decimal, places: tuple[int, int]) -> Mapping[str, Law]:
    """The laws of the parts; empty without sampled stacks. Raises `CannotSplitError`.

    `places` are the numbers of digits after the point in `whole`: those of a request, and those of a byte.
    """
    by_name = {name: runs.of(Arm(PART + name), protocol, CPU) for name in PARTS}
    seen = {name: differences for name, differences in by_name.items() if differences}
    if not seen:
        return {}
    cells = _cells(list(seen.values()), [_idle(runs, name) for name in seen])
    slopes = {knot.rate: knot for knot in whole.per_byte or ()}
    bases: list[_Total] = []
    bytes_: list[_Total] = []
    for knot in whole.base:
        slope = slopes.get(knot.rate)
        slices = _slices(cells, knot.rate or Decimal(0), reference, sloped=slope is not None)
        bases.append(_Total(knot, places[0], slices, _weights_of_small))
        if slope is not None:
            grown = _weights_of_growth(knot.figure.value, slope.figure.value * slices.growth)
            bytes_.append(_Total(slope, places[1], slices, grown))
    base, per_byte = _curves(bases), None if whole.per_byte is None else _curves(bytes_)
    return {name: Law(base[at], None if per_byte is None else per_byte[at]) for at, name in enumerate(seen)}


# ---- sampled stacks ----


def _idle(runs: Runs, name: str) -> int:
    """The CPU of a part in an idle sidecar, which belongs to no hop: the mean over all turns."""
    amounts = [value.amount for cells in runs.of(Arm(PART + name), None, CPU).values() for value in cells.values()]
    return sum(amounts) // len(amounts) if amounts else 0


def _cells(seen: Sequence[Differences], idle: _Seen) -> Mapping[Cell, Mapping[str, Sequence[int]]]:
    """The CPU of each part by cell and turn, less its CPU in an idle sidecar."""
    cells: dict[Cell, dict[str, list[int]]] = {}
    for at, by_turn in enumerate(seen):
        for turn, values in by_turn.items():
            for cell, value in values.items():
                cells.setdefault(cell, {}).setdefault(turn, [0] * len(seen))[at] = value.amount - idle[at]
    return cells


def _slices(
    cells: Mapping[Cell, Mapping[str, Sequence[int]]], rate: Decimal, reference: Decimal, *, sloped: bool
) -> _Slices:
    sizes = sorted(size for at, size in cells if at == rate)
    if not sizes or sizes[0] != reference or not any(_weights(_sum(list(cells[rate, reference].values())))):
        raise CannotSplitError(f"no stack was sampled at {rate}/s with messages of {reference} bytes")
    if sloped and (len(sizes) == 1 or not any(_weights(_sum(list(cells[rate, sizes[-1]].values()))))):
        raise CannotSplitError(f"no stack was sampled at {rate}/s with larger messages than {reference} bytes")
    one, other = cells[rate, sizes[0]], cells[rate, sizes[-1]]
    nothing = [0] * len(next(iter(one.values())))
    turns = sorted({*one, *other})
    return _Slices(
        _blocks([one.get(turn, nothing) for turn in turns]),
        _blocks([other.get(turn, nothing) for turn in turns]),
        sizes[-1] - sizes[0],
    )


def _blocks(turns: Sequence[_Seen]) -> Sequence[_Seen]:
    return [_sum(turns[at::MOST_BLOCKS]) for at in range(min(MOST_BLOCKS, len(turns)))]


def _sum(seen: Sequence[_Seen]) -> _Seen:
    return [sum(column) for column in zip(*seen, strict=True)]


# ---- proportions of the parts ----


def _weights(seen: _Seen) -> _Weights:
    return [max(0, count) for count in seen]


def _weights_of_small(small: _Seen, _: _Seen) -> _Weights | None:
    weights = _weights(small)
    return weights if any(weights) else None


def _weights_of_growth(base: Decimal, growth: Decimal) -> _Weigh:
    """Weights by the growth of the parts between the two sizes. A part that shrinks has no share.

    `base` is the CPU of the hop at the smallest size, and `growth` is the additional CPU at the largest.
    """
    over = Fraction(growth) / Fraction(base) if base else Fraction(1)

    def weigh(small: _Seen, large: _Seen) -> _Weights | None:
        one, other = _weights(small), _weights(large)
        before, after = sum(one) * over.denominator, sum(other) * over.denominator
        if not before or not after:
            return None
        # The share of `base + growth` at the largest size, less that of `base` at the smallest, without the divisors.
        together = over.numerator + over.denominator
        weights = [max(0, b * together * sum(one) - a * after) for a, b in zip(one, other, strict=True)]
        return weights if any(weights) else other

    return weigh


# ---- figures that add up ----


def _curves(totals: Sequence[_Total]) -> Sequence[Curve]:
    """A curve for each part."""
    values = _shared(totals, [(_sum(total.slices.small), _sum(total.slices.large)) for total in totals])
    drawn = _drawn(totals)
    rows = []
    for at, total in enumerate(totals):
        ends = [_ends([draw[at][part] for draw in drawn], value) for part, value in enumerate(values[at])]
        figures = [_figure(total, value, part_ends) for value, part_ends in zip(values[at], ends, strict=True)]
        rows.append([Knot.of(total.knot.rate, figure) for figure in figures])
    return [tuple(knots) for knots in zip(*rows, strict=True)]


def _shared(totals: Sequence[_Total], seen: Sequence[tuple[_Seen, _Seen]]) -> Sequence[Sequence[int]]:
    """The cost of one request in each part, by rate, in units. Neither this cost nor the total rises with the rate.

    At the highest rate, which has the most stacks, the parts share the total. At each lower rate a part costs at least
    as much as at the rate above, and the parts share the rest of the total."""
    costs: list[Sequence[int]] = []
    least: Sequence[int] = [0] * len(seen[0][0])
    for total, (small, large) in zip(reversed(totals), reversed(seen), strict=True):
        whole = int(total.units(total.knot.figure.value))
        # Turns that were drawn anew may have no stack at all.
        weights = total.weigh(small, large) or [1] * len(least)
        over = sum(weights)
        wanted = [max(0, whole * weight - minimum * over) for weight, minimum in zip(weights, least, strict=True)]
        more = _in_proportion(whole - sum(least), wanted if any(wanted) else weights)
        least = [one + other for one, other in zip(least, more, strict=True)]
        costs.append(least)
    return costs[::-1]


def _in_proportion(total: int, weights: _Weights) -> Sequence[int]:
    """Whole numbers that add up to the total exactly, as parts in a profile must. Largest remainders are rounded up."""
    over = sum(weights)
    parts = [total * weight // over for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: (-(total * weights[at] % over), at))
    for at in order[: total - sum(parts)]:
        parts[at] += 1
    return parts


def _drawn(totals: Sequence[_Total]) -> Sequence[Sequence[Sequence[int]]]:
    """The costs as by `_shared`, for each draw of turns; empty if there are too few turns."""
    if any(len(total.slices.small) < LEAST_TURNS for total in totals):
        return []
    draw = random.Random(1)  # noqa: S311 - the same turns give the same interval
    draws = []
    for _ in range(DRAWS):
        seen = []
        for total in totals:
            small, large, _ = total.slices
            turns = draw.choices(range(len(small)), k=len(small))
            seen.append((_sum([small[at] for at in turns]), _sum([large[at] for at in turns])))
        draws.append(_shared(totals, seen))
    return draws


def _ends(drawn: Sequence[int], value: int) -> tuple[int, int] | None:
    """The interval of a part. A part without any stack has none, since its cost is not surely zero."""
    if not drawn or not max(drawn):
        return None
    ordered = sorted(drawn)
    return min(ordered[_TAIL], value), max(ordered[-1 - _TAIL], value)


def _figure(total: _Total, value: int, ends: tuple[int, int] | None) -> Figure:
    whole, interval = total.knot.value, total.knot.interval
    if ends is None or interval is None:
        return Figure(total.cores(value), None)
    low, high = interval
    share = Fraction(value) / (total.units(whole) or 1)
    down = hypotenuse((ceil(share * total.units(whole - low)), value - ends[0]))
    up = hypotenuse((ceil(share * total.units(high - whole)), ends[1] - value))
    return Figure(total.cores(value), (total.cores(value - down), total.cores(value + up)))
