"""The arithmetic of a law: its value at a rate and a size, exactly.

Between two knots the figure of a request is linear in the logarithm of the rate: a proxy that waits longer is colder.
Beyond the outer knots the figure of the nearest one stands, and the result says that it is extrapolated.
`docs/adr/0019-law-of-a-hop.md` compares this with other forms.

Amounts are whole numbers over one divisor. `Fraction` would reduce after every step, which takes most of the time where
a large application has 100,000 figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt, lcm
from typing import Final, NamedTuple

from admc.overhead.profiles.profile import CPU, Curve, Figure, Law, Sizes

ZERO: Final = Fraction(0)
ONE: Final = Fraction(1)
_FINE: Final = 10**9
"""Least divisor of an amount with a rounded end."""
_LOGARITHM: Final = Context(prec=30, rounding=ROUND_HALF_EVEN)
_PLACES_OF_LOGARITHM: Final = 9


class Amount(NamedTuple):
    """A value and its interval, each divided by `over`; `low_part` and `high_part` are None where a figure has none."""

    part: int
    low_part: int | None
    high_part: int | None
    over: int = 1

    @staticmethod
    def of(value: Fraction | int, low: Fraction | int | None = None, high: Fraction | int | None = None) -> Amount:
        over = lcm(*(end.denominator for end in (value, low, high) if end is not None))
        return Amount(
            int(value * over),
            None if low is None else int(low * over),
            None if high is None else int(high * over),
            over,
        )

    @property
    def value(self) -> Fraction:
        return Fraction(self.part, self.over)

    @property
    def low(self) -> Fraction | None:
        return None if self.low_part is None else Fraction(self.low_part, self.over)

    @property
    def high(self) -> Fraction | None:
        return None if self.high_part is None else Fraction(self.high_part, self.over)

    def scaled(self, factor: Fraction | int) -> Amount:
        """`factor` is not negative."""
        return self.times(factor.numerator, self.over * factor.denominator)

    def times(self, times: int, over: int) -> Amount:
        """All parts times a whole number, over another divisor."""
        low, high = self.low_part, self.high_part
        return Amount(
            self.part * times, None if low is None else low * times, None if high is None else high * times, over
        )

    def over_common(self, over: int) -> Amount:
        """The same over a multiple of `over`."""
        return self if over == self.over else self.times(over // self.over, over)


NOTHING: Final = Amount(0, 0, 0)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum of amounts that share their errors: ends of intervals add up."""
    found = tuple(amounts)
    if len(found) == 1:
        return found[0]
    over = lcm(*{amount.over for amount in found})
    found = tuple(amount.over_common(over) for amount in found)
    lows = [amount.low_part for amount in found if amount.low_part is not None]
    highs = [amount.high_part for amount in found if amount.high_part is not None]
    return Amount(
        sum(amount.part for amount in found),
        sum(lows) if len(lows) == len(found) else None,
        sum(highs) if len(highs) == len(found) else None,
        over,
    )


def independent(plus: Iterable[Amount], minus: Iterable[Amount] = ()) -> Amount:
    """The sum of amounts, less others, whose errors are independent: squares of their errors add up.

    Ends are rounded outwards.
    """
    signed = [*((1, amount) for amount in plus), *((-1, amount) for amount in minus)]
    over = lcm(*{amount.over for _, amount in signed})
    over *= 1 if over >= _FINE else _FINE
    value = 0
    downs: list[int | None] = []
    ups: list[int | None] = []
    for sign, amount in signed:
        part, low, high, _ = amount.over_common(over)
        value += sign * part
        down, up = None if low is None else part - low, None if high is None else high - part
        downs.append(down if sign > 0 else up)
        ups.append(up if sign > 0 else down)
    down, up = root_of_squares(downs), root_of_squares(ups)
    return Amount(value, None if down is None else value - down, None if up is None else value + up, over)


def root_of_squares(errors: Iterable[int | None]) -> int | None:
    """Rounded up; None if an error is not known.

    >>> root_of_squares([3, 4]), root_of_squares([1, 1]), root_of_squares([0]), root_of_squares([3, None])
    (5, 2, 0, None)
    """
    known = []
    for error in errors:
        if error is None:
            return None
        known.append(error)
    return hypotenuse(*known)


def hypotenuse(*sides: int) -> int:
    """The root of the sum of squares, rounded up."""
    squares = sum(side * side for side in sides)
    return isqrt(squares - 1) + 1 if squares else 0


class Estimate(NamedTuple):
    """The cost of one request, or of some traffic, by a law, and what the law lacks for it."""

    amount: Amount
    rate_outside: bool = False
    """The rate is not among those that were measured."""
    size_outside: bool = False
    """The size is not among those that were measured."""
    no_slope: bool = False
    """The size differs from the reference, or is not known, and the law has no cost of a byte."""


class Line(NamedTuple):
    """A curve, prepared for arithmetic: the figure of one request by the rate."""

    rates: tuple[Fraction, ...] | None
    """None for a single figure whose rate is not stated."""
    unit: int
    steps: tuple[int, ...]
    """The rates in units of 1 / `unit`: to compare whole numbers takes a fifth of the time."""
    logarithms: tuple[int, ...]
    knots: tuple[Amount, ...]
    """The figures at the rates, all over one divisor."""

    def at(self, rate: Fraction | None) -> tuple[Amount, bool]:
        """The figure at a rate, and whether the rate lies outside of the knots."""
        if self.rates is None or rate is None:
            return self.knots[0], True
        numerator, denominator = rate.numerator, rate.denominator
        here = numerator * self.unit
        after = 0
        for step in self.steps:
            if step * denominator >= here:
                break
            after += 1
        if after == len(self.steps):
            return self.knots[after - 1], True
        met = self.steps[after] * denominator == here
        if met or after == 0:
            return self.knots[after], not met
        place = logarithm(numerator, denominator)
        near, far = self.logarithms[after] - place, place - self.logarithms[after - 1]
        return self._between(self.knots[after - 1], self.knots[after], near, far), False

    @staticmethod
    def _between(one: Amount, other: Amount, near: int, far: int) -> Amount:
        """Two knots were measured by other runs, so squares of their errors add up."""
        over = near + far
        if over == 0:
            return one
        value = one.part * near + other.part * far
        low = high = None
        if one.low_part is not None and other.low_part is not None:
            low = value - hypotenuse((one.part - one.low_part) * near, (other.part - other.low_part) * far)
        if one.high_part is not None and other.high_part is not None:
            high = value + hypotenuse((one.high_part - one.part) * near, (other.high_part - other.part) * far)
        return Amount(value, low, high, one.over * over)


@lru_cache(maxsize=1 << 16)
def logarithm(numerator: int, denominator: int) -> int:
    """The natural logarithm of a positive rate, in units of the ninth digit after the point.

    It never falls as the rate rises. `decimal` rounds it correctly, so it is the same on every machine."""
    value = _LOGARITHM.ln(_LOGARITHM.divide(Decimal(numerator), Decimal(denominator)))
    return int(value.scaleb(_PLACES_OF_LOGARITHM, _LOGARITHM).to_integral_value(ROUND_HALF_EVEN))


class MeasuredSizes(NamedTuple):
    """The smallest and largest measured size and the reference, in units of 1 / `unit` bytes."""

    low: int
    high: int
    reference: int
    unit: int


class Function(NamedTuple):
    """A law, prepared for arithmetic: the cost of one request and its answer by the rate of the sidecar and the size.

    Latency is in microseconds, CPU in seconds.
    """

    base: Line
    slope: Line | None
    sizes: MeasuredSizes | None

    @property
    def depends_on_rate(self) -> bool:
        return any(len(line.steps) > 1 for line in (self.base, self.slope) if line is not None)

    def estimate(self, rate: Fraction | None, size: int | None) -> Estimate:
        """One request. Without a rate the first knot stands; without a size the reference size does."""
        return self.of_traffic(rate, {size: ONE}, ONE)

    def of_traffic(self, rate: Fraction | None, by_size: Mapping[int | None, Fraction], requests: Fraction) -> Estimate:
        """All requests of some traffic, given by size: a cost is linear in the size, so sizes are summed up first.

        `requests` is the sum of all sizes.
        """
        base, outside = self.base.at(rate)
        found = base.scaled(requests)
        if not any(size is not None for size in by_size):
            return Estimate(found, outside)
        if self.sizes is None:
            return Estimate(found, outside, size_outside=True, no_slope=self.slope is None)
        low, high, reference, unit = self.sizes
        size_outside = False
        beyond: list[tuple[int, Fraction]] = []
        for size, share in by_size.items():
            if size is not None:
                there = size * unit
                size_outside = size_outside or not low <= there <= high
                # Below the smallest measured size, a request costs as much as one of that size.
                over = max(there, low) - reference
                if over:
                    beyond.append((over, share))
        if self.slope is None:
            return Estimate(found, outside, size_outside, bool(beyond))
        slope, slope_outside = self.slope.at(rate)
        more = sum((over * share for over, share in beyond), ZERO) / unit
        if more:
            slopes = (slope.scaled(abs(more)),)
            found = independent((found, *slopes)) if more > 0 else independent((found,), slopes)
        return Estimate(found, outside or slope_outside, size_outside)


def function(quantity: str, law: Law, sizes: Sizes | None) -> Function:
    slope = None if law.per_byte is None else line(quantity, law.per_byte)
    return Function(line(quantity, law.base), slope, None if sizes is None else _measured_sizes(sizes))


def _measured_sizes(sizes: Sizes) -> MeasuredSizes:
    exact = [Fraction(size) for size in (sizes.low, sizes.high, sizes.reference)]
    unit = lcm(*(size.denominator for size in exact))
    low, high, reference = (int(size * unit) for size in exact)
    return MeasuredSizes(low, high, reference, unit)


def line(quantity: str, curve: Curve) -> Line:
    figures = [amount(knot.figure) for knot in curve]
    rates = tuple(Fraction(knot.rate) for knot in curve if knot.rate is not None)
    if len(rates) < len(figures):
        return Line(None, 1, (1,), (0,), tuple(figures[:1]))
    if quantity == CPU:  # given as cores
        figures = [each.scaled(1 / rate) for each, rate in zip(figures, rates, strict=True)]
    return of_knots(rates, figures)


def of_knots(rates: Sequence[Fraction], figures: Sequence[Amount]) -> Line:
    unit = lcm(*(rate.denominator for rate in rates))
    over = lcm(*(each.over for each in figures))
    return Line(
        tuple(rates),
        unit,
        tuple(int(rate * unit) for rate in rates),
        tuple(logarithm(rate.numerator, rate.denominator) for rate in rates),
        tuple(each.over_common(over) for each in figures),
    )


def together(functions: Sequence[Function]) -> Function:
    """The sum of the functions of one hop. Between all their knots each is linear in the logarithm; so is the sum."""
    slopes = [each.slope for each in functions if each.slope is not None]
    slope = _sum_of_lines(slopes) if slopes else None
    return Function(_sum_of_lines([each.base for each in functions]), slope, functions[0].sizes)


def _sum_of_lines(lines: Sequence[Line]) -> Line:
    rates = sorted({rate for each in lines for rate in each.rates or ()})
    if not rates:
        figure = total(each.knots[0] for each in lines)
        return Line(None, 1, (1,), (0,), (figure,))
    return of_knots(rates, [total(each.at(rate)[0] for each in lines) for rate in rates])


@lru_cache(maxsize=4096)
def amount(figure: Figure) -> Amount:
    low = None if figure.low is None else Fraction(figure.low)
    return Amount.of(Fraction(figure.value), low, None if figure.high is None else Fraction(figure.high))
