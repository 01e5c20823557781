"""Splits the CPU of a hop into parts, by what sampled stacks have seen of each.

Stacks are sampled in slices of their own, since that takes CPU. So they say in which proportion the parts share a total
that other slices have measured: what all parts have adds up to the total, to the last digit. The share of a part is
that of all stacks of one rate and size; what each byte adds is shared as the parts grow from the smallest sampled size
to the largest. As for the total, a request and a byte never take more CPU of a part at a higher rate.

An interval comes of drawing turns anew, always the same way. The error of the total is independent of it, so their
squares add up.

    runs -> [_Slices] by rate -> weights of the parts -> costs of one request that add up -> Law of each part
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
"""With fewer there is no interval."""
MOST_BLOCKS: Final = 100
"""More turns are drawn together, in so many groups."""
_TAIL: Final = DRAWS // 20

_Seen = Sequence[int]
"""What stacks have seen of each part, less what an idle sidecar takes: below zero by chance."""
_Weights = Sequence[int]
"""In proportion to which the parts share something."""


class CannotSplitError(Exception):
    """The message says what is not there."""


class _Slices(NamedTuple):
    """The slices of one rate, by turn: at the smallest sampled size and at the largest."""

    small: Sequence[_Seen]
    large: Sequence[_Seen]
    growth: Decimal
    """Bytes from the one size to the other."""


_Weigh = Callable[[_Seen, _Seen], _Weights | None]
"""The weights by what was seen at the smallest and at the largest size; None if nothing was."""


class _Total(NamedTuple):
    """One figure of the hop that the parts share."""

    knot: Knot
    places: int
    slices: _Slices
    weigh: _Weigh

    def units(self, value: Decimal) -> Fraction:
        """What one request takes, in units of the last of `places`."""
        return Fraction(value) * Fraction(10**self.places) / Fraction(self.knot.rate or 1)

    def cores(self, units: int) -> Decimal:
        return Decimal(units).scaleb(-self.places) * (self.knot.rate or 1)


def split(runs: Runs, protocol: Protocol, whole: Law, reference: Decimal, places: tuple[int, int]) -> Mapping[str, Law]:
    """The laws of the parts; empty without sampled stacks. Raises `CannotSplitError`.

    `places` are the digits after the point that a request, and a byte of it, have in `whole`.
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


# ---- what was sampled ----


def _idle(runs: Runs, name: str) -> int:
    """What a part has without requests, as a sidecar's own CPU: it belongs to no hop."""
    amounts = [value.amount for cells in runs.of(Arm(PART + name), None, CPU).values() for value in cells.values()]
    return sum(amounts) // len(amounts) if amounts else 0


def _cells(seen: Sequence[Differences], idle: _Seen) -> Mapping[Cell, Mapping[str, Sequence[int]]]:
    """What each part has in a cell, by turn, less what it has without requests."""
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


# ---- in which proportion the parts share ----


def _weights(seen: _Seen) -> _Weights:
    return [max(0, count) for count in seen]


def _weights_of_small(small: _Seen, _: _Seen) -> _Weights | None:
    weights = _weights(small)
    return weights if any(weights) else None


def _weights_of_growth(base: Decimal, growth: Decimal) -> _Weigh:
    """`growth` is what the bytes between the two sizes take, beside the base. A part that shrinks has no share."""
    over = Fraction(growth) / Fraction(base) if base else Fraction(1)

    def weigh(small: _Seen, large: _Seen) -> _Weights | None:
        one, other = _weights(small), _weights(large)
        before, after = sum(one) * over.denominator, sum(other) * over.denominator
        if not before or not after:
            return None
        # Each part of `base + growth` at the largest size, less its part of `base` at the smallest, times what divides.
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
    """What one request takes of each part, by rate, in units. It falls with the rate, as the total does.

    At the highest rate, where most stacks are, the parts share the total. At each lower one they have at least as much,
    and share what the total has more."""
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
    """Whole numbers that add up to the total, exactly: a profile's parts do. The largest remainders are rounded up."""
    over = sum(weights)
    parts = [total * weight // over for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: (-(total * weights[at] % over), at))
    for at in order[: total - sum(parts)]:
        parts[at] += 1
    return parts


def _drawn(totals: Sequence[_Total]) -> Sequence[Sequence[Sequence[int]]]:
    """The same for turns that were drawn anew; nothing where turns are too few."""
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
    """None also for a part that no stack was in: it is not zero for sure."""
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
