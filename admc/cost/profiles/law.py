"""Computes the value of a law at a rate and a size, in floats.

    Law -> [Function] -> Estimate at a rate and a size

A proxy that waits longer between two requests is colder, so a request costs more at a low rate. Between two knots the
figure of a request is linear in the logarithm of the rate. Beyond the outer knots the figure of the nearest knot holds,
and the estimate is marked as extrapolated. `docs/adr/0019-law-of-a-hop.md` compares this with other forms, and
`docs/adr/0038-costs-are-floats.md` gives the reasons for floats.

Estimates are the same on every machine: additions have a fixed order or use `fsum`, roots use `sqrt`, and logarithms
use `decimal`. All of these round correctly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from math import fsum, sqrt
from typing import Final, NamedTuple

from admc.cost.profiles.profile import CPU, Curve, Figure, Law, Sizes

ROUNDING: Final = 2.0**-48
"""The relative difference that rounding alone may make: 16 times the distance of two neighbouring floats."""
_LOGARITHM: Final = Context(prec=20, rounding=ROUND_HALF_EVEN)


class Amount(NamedTuple):
    """A value and its interval; `low` and `high` are None if a figure in it has no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def scaled(self, factor: float) -> Amount:
        """The amount times a factor, which is not negative."""
        value, low, high = self
        return Amount(value * factor, None if low is None else low * factor, None if high is None else high * factor)


NOTHING: Final = Amount(0.0, 0.0, 0.0)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum of amounts that share their errors: the ends of the intervals add up."""
    summands = tuple(amounts)
    if len(summands) == 1:
        return summands[0]
    lows = [low for _, low, _ in summands if low is not None]
    highs = [high for _, _, high in summands if high is not None]
    return Amount(
        fsum([value for value, _, _ in summands]),
        fsum(lows) if len(lows) == len(summands) else None,
        fsum(highs) if len(highs) == len(summands) else None,
    )


def independent(plus: Iterable[Amount], minus: Iterable[Amount] = ()) -> Amount:
    """The sum of `plus` less the sum of `minus`. All errors are independent, so their squares add up."""
    values: list[float] = []
    downs: list[float | None] = []
    ups: list[float | None] = []
    for value, low, high in plus:
        values.append(value)
        downs.append(None if low is None else value - low)
        ups.append(None if high is None else high - value)
    for value, low, high in minus:
        values.append(-value)
        downs.append(None if high is None else high - value)
        ups.append(None if low is None else value - low)
    value = fsum(values)
    down, up = root_of_squares(downs), root_of_squares(ups)
    return Amount(value, None if down is None else value - down, None if up is None else value + up)


def root_of_squares(errors: Iterable[float | None]) -> float | None:
    """The root of the sum of the squares; None if an error is not known.

    >>> root_of_squares([3, 4]), root_of_squares([0]), root_of_squares([3, None])
    (5.0, 0.0, None)
    """
    squares = []
    for error in errors:
        if error is None:
            return None
        squares.append(error * error)
    return sqrt(fsum(squares))


class Estimate(NamedTuple):
    """The cost of one request, or of some traffic, by a law. The flags tell what the law lacks for it."""

    amount: Amount
    rate_outside: bool = False
    """The rate is beyond those that were measured, or is not known, or the source states none."""
    size_outside: bool = False
    """The size is beyond those that were measured, or the source states no sizes."""
    no_slope: bool = False
    """The law has no cost of a byte, and the size differs from the reference, or the source states no sizes. False for
    a size that is not known."""


class Line(NamedTuple):
    """A curve, prepared for arithmetic: the figure of one request by the rate."""

    rates: tuple[float, ...] | None
    """None for a single figure whose rate is not stated."""
    logarithms: tuple[float, ...]
    knots: tuple[Amount, ...]
    """The figures at the rates."""

    def at(self, rate: float | None) -> tuple[Amount, bool]:
        """The figure at a rate, and whether the rate is outside of the knots, or it or theirs are not known."""
        rates = self.rates
        if rates is None or rate is None:
            return self.knots[0], True
        after = bisect_left(rates, rate)
        if after == len(rates):
            return self.knots[-1], rate > rates[-1] * (1 + ROUNDING)
        if after == 0 or rates[after] == rate:
            return self.knots[after], rate < rates[after] * (1 - ROUNDING)
        place = logarithm(rate)
        near, far = self.logarithms[after] - place, place - self.logarithms[after - 1]
        return self._between(self.knots[after - 1], self.knots[after], near, far), False

    @staticmethod
    def _between(one: Amount, other: Amount, near: float, far: float) -> Amount:
        """Interpolate between two knots. Each has runs of its own, so the squares of their errors add up."""
        over = near + far
        if over == 0:
            return one
        near, far = near / over, far / over
        value = one.value * near + other.value * far
        low = high = None
        if one.low is not None and other.low is not None:
            low = value - _hypotenuse((one.value - one.low) * near, (other.value - other.low) * far)
        if one.high is not None and other.high is not None:
            high = value + _hypotenuse((one.high - one.value) * near, (other.high - other.value) * far)
        return Amount(value, low, high)


def _hypotenuse(one: float, other: float) -> float:
    return sqrt(one * one + other * other)


@lru_cache(maxsize=1 << 16)
def logarithm(rate: float) -> float:
    """The natural logarithm of a positive rate.

    It never falls as the rate rises. `decimal` rounds it correctly, so it is the same on every machine."""
    return float(_LOGARITHM.ln(Decimal(rate)))


class MeasuredSizes(NamedTuple):
    """The smallest and largest measured size and the reference, in bytes."""

    low: float
    high: float
    reference: float


class Function(NamedTuple):
    """A law, prepared for arithmetic: the cost of one request and its answer by the rate of the sidecar and the size.

    Latency is in microseconds, CPU in seconds.
    """

    base: Line
    slope: Line | None
    sizes: MeasuredSizes | None

    @property
    def depends_on_rate(self) -> bool:
        return any(len(line.knots) > 1 for line in (self.base, self.slope) if line is not None)

    def estimate(self, rate: float | None, size: int | None) -> Estimate:
        """The cost of one request. If `rate` is None, it is that of the first knot; if `size` is None, that of the
        reference size."""
        return self.of_traffic(rate, {size: 1.0}, 1.0)

    def of_traffic(self, rate: float | None, by_size: Mapping[int | None, float], requests: float) -> Estimate:
        """The cost of all requests of some traffic. `by_size` has the number of requests of each size, or their
        rate: the cost is that of one second then. `requests` is the sum of these numbers."""
        return self.of_load(rate, load_of(self.sizes, by_size, requests))

    def of_load(self, rate: float | None, load: Load) -> Estimate:
        """The cost of a load that `load_of` has computed for the sizes of this function."""
        base, outside = self.base.at(rate)
        cost = base.scaled(load.requests)
        if self.slope is None:
            return Estimate(cost, outside, load.size_outside, load.differs)
        if self.sizes is None or not load.sized:
            return Estimate(cost, outside, load.size_outside)
        slope, slope_outside = self.slope.at(rate)
        if load.beyond > 0:
            cost = independent((cost, slope.scaled(load.beyond)))
        elif load.beyond < 0:
            cost = independent((cost,), (slope.scaled(-load.beyond),))
        return Estimate(cost, outside or slope_outside, load.size_outside)


class Load(NamedTuple):
    """Some traffic with its bytes added up: the sum determines the cost, which is linear in the size."""

    requests: float
    beyond: float
    """Bytes beyond the reference of all requests together."""
    sized: bool
    """The size of some request is known."""
    size_outside: bool
    differs: bool
    """The size of some request differs from the reference, or the source states no sizes."""


def load_of(sizes: MeasuredSizes | None, by_size: Mapping[int | None, float], requests: float) -> Load:
    sized = size_outside = differs = False
    beyond: list[float] = []
    for size, share in by_size.items():
        if size is None:
            continue
        sized = True
        if sizes is None:
            size_outside = differs = True
            continue
        low, high, reference = sizes
        size_outside = size_outside or not low <= size <= high
        # Below the smallest measured size, a request costs as much as one of that size.
        over = (size if size > low else low) - reference
        if over:
            differs = True
            beyond.append(over * share)
    return Load(requests, fsum(beyond), sized, size_outside, differs)


def function(quantity: str, law: Law, sizes: Sizes | None) -> Function:
    slope = None if law.per_byte is None else line(quantity, law.per_byte)
    measured = None if sizes is None else MeasuredSizes(float(sizes.low), float(sizes.high), float(sizes.reference))
    return Function(line(quantity, law.base), slope, measured)


def line(quantity: str, curve: Curve) -> Line:
    figures = [amount(knot.figure) for knot in curve]
    rates = [float(knot.rate) for knot in curve if knot.rate is not None]
    if len(rates) < len(figures):
        return Line(None, (), tuple(figures[:1]))
    if quantity == CPU:  # a profile gives CPU as cores
        figures = [_divided(figure, rate) for figure, rate in zip(figures, rates, strict=True)]
    return of_knots(rates, figures)


def _divided(cores: Amount, rate: float) -> Amount:
    value, low, high = cores
    return Amount(value / rate, None if low is None else low / rate, None if high is None else high / rate)


def of_knots(rates: Sequence[float], figures: Sequence[Amount]) -> Line:
    return Line(tuple(rates), tuple(map(logarithm, rates)), tuple(figures))


def together(functions: Sequence[Function]) -> Function:
    """The sum of the functions of one hop. Its knots are those of all functions, and it is linear in the logarithm
    between two neighbouring knots, as each function is. Only beyond the outermost of these knots is an estimate marked
    as extrapolated. No caller reads this mark: the solver and the totals of a full mesh have no marks, and an estimate
    takes its marks from the single functions (`Prices.sum_of`)."""
    slopes = [function_of_part.slope for function_of_part in functions if function_of_part.slope is not None]
    slope = _sum_of_lines(slopes) if slopes else None
    return Function(_sum_of_lines([function_of_part.base for function_of_part in functions]), slope, functions[0].sizes)


def _sum_of_lines(lines: Sequence[Line]) -> Line:
    rates = sorted({rate for term in lines for rate in term.rates or ()})
    if not rates:
        return Line(None, (), (total(term.knots[0] for term in lines),))
    return of_knots(rates, [total(term.at(rate)[0] for term in lines) for rate in rates])


@lru_cache(maxsize=4096)
def amount(figure: Figure) -> Amount:
    low, high = figure.low, figure.high
    return Amount(float(figure.value), None if low is None else float(low), None if high is None else float(high))
