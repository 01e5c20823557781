"""Estimates costs: medians over the turns of a measurement with their intervals, and straight lines over sizes.

    values of turns -> [estimate, weighted] -> Estimate

Measured values are whole numbers of `1 / UNIT`: they are exact, and many times faster than `Fraction` for a table of
100,000 runs. Only an `Estimate` has fractions. The interval of a median holds for any distribution, and needs no random
draws, so the same runs give the same profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Final, NamedTuple, TypeVar

CONFIDENCE: Final = 0.90
UNIT: Final = 4 * 10**12
"""A run has at most 12 digits after the point. A median over slices halves a value, and so does that of idle CPU."""
_Number = TypeVar("_Number", int, Fraction)


_OF_A_MEDIAN: Final = Fraction(345, 100)
"""The variance of the median of n values is this factor times MAD^2 / n, where MAD is the median distance from the
median: normally distributed values have the variance (1.483 MAD)^2, and their median has pi/2 of it, divided by n."""
_LEAST_FOR_SPREAD: Final = 3


class Estimate(NamedTuple):
    """A median over turns, or the mean of several (`merged`), in the unit of one request, with its interval. `weight`
    is the number of turns."""

    median: Fraction
    """The median of a cost near zero may be below zero by chance."""
    low: Fraction | None
    high: Fraction | None
    weight: int
    variance: Fraction | None = None
    """The variance of the median; None if there are too few turns."""

    @property
    def value(self) -> Fraction:
        """The median, or zero if the median is below zero: a negative cost is noise."""
        return max(Fraction(0), self.median)

    def moved(self, median: Fraction) -> Estimate:
        """The estimate with another median; its interval is widened to the new value."""
        moved = self._replace(median=median)
        if self.low is None or self.high is None:
            return moved
        return moved._replace(low=min(self.low, moved.value), high=max(self.high, moved.value))


def units(value: Decimal) -> int:
    part, over = value.as_integer_ratio()
    return part * UNIT // over


def middles(values: Sequence[int]) -> int:
    """Twice the median, which is a whole number."""
    if len(values) == 1:
        return 2 * values[0]
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]


class Line:
    """The line of least squares through a figure at each size. Its slope and its value at zero are weighted sums.

    `certain` has a whole number for each size: how much its figure counts. The weights in `slope` and `base` are whole
    numbers, to be divided by `over`.
    """

    def __init__(self, sizes: Sequence[Decimal], certain: Sequence[int]) -> None:
        shares = [Fraction(certainty, sum(certain)) for certainty in certain]
        mean = sum((share * Fraction(size) for share, size in zip(shares, sizes, strict=True)), Fraction(0))
        away = [Fraction(size) - mean for size in sizes]
        spread = sum((share * distance**2 for share, distance in zip(shares, away, strict=True)), Fraction(0))
        slopes = [
            share * distance / spread if spread else Fraction(0) for share, distance in zip(shares, away, strict=True)
        ]
        bases = [share - mean * slope for share, slope in zip(shares, slopes, strict=True)]
        self.over = lcm(*(weight.denominator for weight in (*slopes, *bases)))
        self.slope = tuple(int(weight * self.over) for weight in slopes)
        """The weights of the slope; zero for a single size."""
        self.base = tuple(int(weight * self.over) for weight in bases)
        """The weights of the value at zero."""


def certainties(figures: Sequence[int]) -> list[int]:
    """How much each figure of a line counts: the inverse of its square, since errors grow with figures. A figure near
    zero may be noise, so none counts more than 100 times as much as another."""
    most = max((abs(figure) for figure in figures), default=0)
    return [(10 * most // max(abs(figure), most // 10 + 1)) ** 2 if most else 1 for figure in figures]


def estimate(values: Sequence[int], over: Fraction | int = 1) -> Estimate | None:
    """The median of the values, divided by `over`, with its interval; None without values."""
    turns = [(value,) for value in values]
    return weighted((1,), turns, turns, over) if values else None


def weighted(
    weights: Sequence[int], calm: Sequence[Sequence[int]], turns: Sequence[Sequence[int]], over: Fraction | int
) -> Estimate:
    """The weighted sum of the medians over the calm turns, divided by `over`. Each turn has a value for each weight.

    The interval is that of the weighted sums of single turns, since all values of a slow turn are high. It is widened
    to the interval of the calm turns, and to the value. If the calm turns are too few for an interval, it is widened
    to all of them."""
    unit = 1 / Fraction(over * UNIT)
    twice = sum(weight * middles(column) for weight, column in zip(weights, zip(*calm, strict=True), strict=True))
    sums = _sums(weights, turns)
    low, high = interval(sums)
    of_median = _variance(sums, len(calm), unit)
    if low is None or high is None:
        return Estimate(twice * unit / 2, None, None, len(turns), of_median)
    of_calm = _sums(weights, calm)
    lowest, highest = (one if end is None else end for one, end in zip(_ends(of_calm), interval(of_calm), strict=True))
    ends = min(low, lowest) * unit, max(high, highest) * unit
    return Estimate(Fraction(0), *ends, len(turns), of_median).moved(twice * unit / 2)


def _variance(values: Sequence[int], number: int, unit: Fraction) -> Fraction | None:
    """The variance of a median over `number` of the values, by the median distance of all values from their median."""
    if len(values) < _LEAST_FOR_SPREAD:
        return None
    middle = middles(values)
    away = Fraction(middles([abs(2 * value - middle) for value in values]), 4) * unit
    return _OF_A_MEDIAN * away**2 / number


def _sums(weights: Sequence[int], turns: Sequence[Sequence[int]]) -> list[int]:
    return [sum(weight * value for weight, value in zip(weights, turn, strict=True)) for turn in turns]


def _ends(values: Sequence[int]) -> tuple[int, int]:
    return min(values), max(values)


def interval(values: Sequence[_Number]) -> tuple[_Number | None, _Number | None]:
    """Two of the values between which the median lies with at least `CONFIDENCE`; None if there are too few values."""
    rank = _rank(len(values))
    if rank == 0:
        return None, None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[len(ordered) - rank]


@cache
def _rank(number: int) -> int:
    """The highest rank for which the median lies between the values of this rank from both ends, with at least
    `CONFIDENCE`; zero if there are too few values.

    The number of values below the median is binomial, whatever the distribution of the values is.
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


def mean(group: Sequence[Estimate]) -> Fraction:
    return sum((member.value * member.weight for member in group), Fraction(0)) / sum(member.weight for member in group)


def merged(group: Sequence[Estimate]) -> Estimate:
    lows = [member.low for member in group if member.low is not None]
    highs = [member.high for member in group if member.high is not None]
    known = len(lows) == len(group) and len(highs) == len(group)
    weight = sum(member.weight for member in group)
    return Estimate(mean(group), min(lows) if known else None, max(highs) if known else None, weight)


def rounded(value: Fraction, places: int) -> Decimal:
    """Round half to even.

    >>> rounded(Fraction(1, 3), 4), rounded(Fraction(-1, 8), 2)
    (Decimal('0.3333'), Decimal('-0.12'))
    """
    return Decimal(round(value * 10**places)).scaleb(-places)
