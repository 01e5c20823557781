"""Whole amounts of results: each figure is rounded once, and then only added."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from admc.overhead.law import Amount

NANO: Final = 1_000_000_000


class Whole(NamedTuple):
    """A whole number of nano-cores, nanoseconds or bytes, with its interval; None where a figure in it has none.

    `at_least`: something that belongs to it is not known, and is not in it.
    """

    value: int
    low: int | None
    high: int | None
    at_least: bool = False


ZERO: Final = Whole(0, 0, 0)


def whole(amount: Amount, factor: Fraction | int = 1, *, at_least: bool = False) -> Whole:
    """An exact amount times a factor, rounded once: the value to the nearest whole, its interval outwards."""
    low = None if amount.low is None else math.floor(amount.low * factor)
    high = None if amount.high is None else math.ceil(amount.high * factor)
    return Whole(nearest(amount.value * factor), low, None if at_least else high, at_least)


def nearest(value: Fraction) -> int:
    """The nearest whole number; a half goes up, so that a larger value never becomes a smaller number.

    >>> [nearest(Fraction(value, 2)) for value in (1, 2, 3, 5)]
    [1, 1, 2, 3]
    """
    return math.floor(value + Fraction(1, 2))


def added(amounts: Iterable[Whole | None]) -> Whole:
    """The sum; what is not known (None) is not in it, and then the sum is `at_least`."""
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


def shares(total: int, parts: Sequence[Fraction]) -> list[int]:
    """The parts in whole numbers that add up to `total`, their rounded sum: the largest remainders are rounded up.

    >>> shares(10, [Fraction(10, 3)] * 3)
    [4, 3, 3]
    """
    found = [math.floor(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda at: (found[at] - parts[at], at))
    for at in order[: total - sum(found)]:
        found[at] += 1
    return found
