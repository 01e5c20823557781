"""The arithmetic of a law: its value at a rate and a size, exactly.

Between two knots a figure is linear in the mean time between two requests, 1/rate: a proxy that waits longer is colder.
For CPU this is the same as: cores are linear in the rate. Beyond the outer knots the figure of the nearest one stands,
and the result says that it is extrapolated. `docs/adr/0018-law-of-a-hop.md` compares this with other forms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from admc.overhead.profile import CPU, Curve, Figure, Law, Sizes

ZERO = Fraction(0)


class Amount(NamedTuple):
    """A value and its interval; `low` and `high` are None where a figure in it has none."""

    value: Fraction
    low: Fraction | None
    high: Fraction | None

    def scaled(self, factor: Fraction) -> Amount:
        """`factor` is not negative."""
        low = None if self.low is None else self.low * factor
        return Amount(self.value * factor, low, None if self.high is None else self.high * factor)


NOTHING = Amount(ZERO, ZERO, ZERO)


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum. Ends of intervals add up, since figures of one profile share their errors: no error cancels another."""
    found = NOTHING
    for amount in amounts:
        low = None if found.low is None or amount.low is None else found.low + amount.low
        high = None if found.high is None or amount.high is None else found.high + amount.high
        found = Amount(found.value + amount.value, low, high)
    return found


class Estimate(NamedTuple):
    """The cost of one request by a law, and what the law lacks for it."""

    amount: Amount
    rate_outside: bool = False
    """The rate is not among those that were measured."""
    size_outside: bool = False
    """The size is not among those that were measured."""
    no_slope: bool = False
    """The size differs from the reference, or is not known, and the law has no cost of a byte."""


class Point(NamedTuple):
    """A knot as exact fractions; the figure is that of one request."""

    rate: Fraction | None
    amount: Amount


class Function(NamedTuple):
    """A law, prepared for arithmetic: the cost of one request and its answer by the rate of the sidecar and the size.

    Latency is in microseconds, CPU in seconds.
    """

    base: tuple[Point, ...]
    slope: tuple[Point, ...] | None
    sizes: Sizes | None

    @property
    def depends_on_rate(self) -> bool:
        return len(self.base) > 1

    def estimate(self, rate: Fraction | None, size: int | None) -> Estimate:
        """Without a rate the first knot stands; without a size the reference size does."""
        found, outside = _at(self.base, rate)
        if size is None:
            return Estimate(found, outside)
        if self.sizes is None:
            return Estimate(found, outside, size_outside=True, no_slope=self.slope is None)
        size_outside = not self.sizes.low <= size <= self.sizes.high
        # Below the smallest measured size, a request costs as much as one of that size.
        beyond = max(Fraction(size), Fraction(self.sizes.low)) - Fraction(self.sizes.reference)
        if self.slope is None:
            return Estimate(found, outside, size_outside, beyond != 0)
        slope, slope_outside = _at(self.slope, rate)
        return Estimate(_with_bytes(found, slope, beyond), outside or slope_outside, size_outside)


def function(quantity: str, law: Law, sizes: Sizes | None) -> Function:
    slope = None if law.per_byte is None else _points(quantity, law.per_byte)
    return Function(_points(quantity, law.base), slope, sizes)


def _points(quantity: str, curve: Curve) -> tuple[Point, ...]:
    found = []
    for knot in curve:
        rate = None if knot.rate is None else Fraction(knot.rate)
        figure = amount(knot.figure)
        # CPU is measured as cores at a rate: cores / rate are the seconds of each request.
        found.append(Point(rate, figure.scaled(1 / rate) if quantity == CPU and rate is not None else figure))
    return tuple(found)


def amount(figure: Figure) -> Amount:
    low = None if figure.low is None else Fraction(figure.low)
    return Amount(Fraction(figure.value), low, None if figure.high is None else Fraction(figure.high))


def _with_bytes(base: Amount, slope: Amount, beyond: Fraction) -> Amount:
    if beyond >= 0:
        return total((base, slope.scaled(beyond)))
    # The message is smaller than the reference, so the low end of the slope gives the high end of the result.
    saved = slope.scaled(-beyond)
    low = None if base.low is None or saved.high is None else base.low - saved.high
    high = None if base.high is None or saved.low is None else base.high - saved.low
    return Amount(base.value - saved.value, low, high)


def _at(points: Sequence[Point], rate: Fraction | None) -> tuple[Amount, bool]:
    """The figure at a rate, and whether the rate lies outside of the knots."""
    first, last = points[0], points[-1]
    if rate is None or first.rate is None or last.rate is None:
        return first.amount, True
    if rate <= first.rate:
        return first.amount, rate != first.rate
    if rate >= last.rate:
        return last.amount, rate != last.rate
    after = bisect_left(points, rate, key=lambda point: point.rate or ZERO)
    return _between(points[after - 1], points[after], rate), False


def _between(one: Point, other: Point, rate: Fraction) -> Amount:
    """Linear in 1/rate."""
    if one.rate is None or other.rate is None:
        raise ValueError("a knot without a rate has no neighbour")
    share = one.rate * (other.rate - rate) / (rate * (other.rate - one.rate))
    return total((one.amount.scaled(share), other.amount.scaled(1 - share)))
