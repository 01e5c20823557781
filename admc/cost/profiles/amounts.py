"""Rounds the figures of an estimate to whole numbers: each is rounded once, and sums add whole numbers. Only a mean is
rounded again, and the error of a sum of independent amounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, fsum, isqrt
from typing import Final, NamedTuple

from admc.cost.profiles.law import Amount

NANO: Final = 1_000_000_000
_MILLIONTH: Final = 1e-6


class Whole(NamedTuple):
    """A whole number of nano-cores, nanoseconds or bytes, with its interval.

    `low` and `high` are None if a figure in the sum has no interval. With `at_least`, the sum lacks a figure that is
    not known, and `high` is None.
    """

    value: int
    low: int | None
    high: int | None
    at_least: bool = False


ZERO: Final = Whole(0, 0, 0)


def whole(amount: Amount, factor: float = 1, *, at_least: bool = False) -> Whole:
    """An amount times a factor, rounded once: the value to the nearest whole number, and its interval outwards. A lower
    bound (`at_least`) has no `high`."""
    value, low, high = amount
    return Whole(
        nearest(value * factor),
        None if low is None else rounded_down(low * factor),
        None if high is None or at_least else rounded_up(high * factor),
        at_least,
    )


def nearest(value: float) -> int:
    """The nearest whole number; a half goes up, so that a larger value never becomes a smaller number.

    >>> [nearest(value) for value in (0.5, 1.0, 1.5, 2.5, -0.5)]
    [1, 1, 2, 3, 0]
    """
    return floor(value + 0.5)


def rounded_down(value: float) -> int:
    """Round down. A float that is less than a millionth below a whole number counts as that number.

    >>> rounded_down(2.9), rounded_down(0.1 * 3 * 10), rounded_down(2.9999999999)
    (2, 3, 3)
    """
    return floor(value + _MILLIONTH)


def rounded_up(value: float) -> int:
    """Round up. A float that is less than a millionth above a whole number counts as that number.

    >>> rounded_up(2.1), rounded_up(0.1 * 3 * 10)
    (3, 3)
    """
    return ceil(value - _MILLIONTH)


def added(amounts: Iterable[Whole | None]) -> Whole:
    """The sum of the known amounts. It is `at_least` if an amount is, or is not known (None)."""
    value = low = high = 0
    known_low = known_high = True
    at_least = False
    for amount in amounts:
        if amount is None:
            at_least = True
            continue
        value += amount.value
        at_least = at_least or amount.at_least
        known_low = known_low and amount.low is not None
        known_high = known_high and amount.high is not None
        low += amount.low or 0
        high += amount.high or 0
    return Whole(value, low if known_low else None, high if known_high and not at_least else None, at_least)


def independently_added(amounts: Iterable[Whole | None]) -> Whole:
    """The sum of `added` for amounts whose errors are independent: the squares of the errors add up, and the root of
    their sum is rounded up."""
    summands = tuple(amounts)
    known = [amount for amount in summands if amount is not None]
    value, low, high, at_least = added(summands)
    if len(known) < 2:
        return Whole(value, low, high, at_least)
    down = None if low is None else hypotenuse([one.value - one.low for one in known if one.low is not None])
    up = None if high is None else hypotenuse([one.high - one.value for one in known if one.high is not None])
    return Whole(value, None if down is None else value - down, None if up is None else value + up, at_least)


def hypotenuse(sides: Iterable[int]) -> int:
    """The root of the sum of squares, rounded up.

    >>> hypotenuse([3, 4]), hypotenuse([1, 1]), hypotenuse([0]), hypotenuse([])
    (5, 2, 0, 0)
    """
    squares = sum(side * side for side in sides)
    return isqrt(squares - 1) + 1 if squares else 0


def shares(total: int, parts: Sequence[float]) -> list[int]:
    """Round parts to whole numbers that add up to `total`, which is the rounded sum of the parts.

    The parts with the largest remainders are rounded up.

    >>> shares(10, [10 / 3] * 3)
    [4, 3, 3]
    """
    rounded = [floor(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda at: (rounded[at] - parts[at], at))
    missing = total - sum(rounded)
    for at in order[: max(0, missing)]:
        rounded[at] += 1
    if order:
        rounded[order[0]] += total - sum(rounded)  # floats above 2^53 have no remainders
    return rounded


def mean(values: Sequence[int], weights: Sequence[float]) -> float:
    """The weighted mean."""
    return fsum([w * v for w, v in zip(weights, values, strict=True)]) / fsum(weights)


def mean_whole(values: Sequence[Whole | None], weights: Sequence[float]) -> Whole | None:
    """The weighted mean: None if a value is not known, and zero without any value."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if not known:
        return ZERO
    if all(value == known[0] for value in known):
        return known[0]
    lows = [value.low for value in known if value.low is not None]
    highs = [value.high for value in known if value.high is not None]
    return Whole(
        nearest(mean([value.value for value in known], weights)),
        rounded_down(mean(lows, weights)) if len(lows) == len(known) else None,
        rounded_up(mean(highs, weights)) if len(highs) == len(known) else None,
        any(value.at_least for value in known),
    )
