"""Whole amounts of results: each figure is rounded once, and then only added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Final, NamedTuple

from admc.overhead.profiles.law import Amount, root_of_squares

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


def whole(amount: Amount, factor: int = 1, *, at_least: bool = False) -> Whole:
    """An exact amount times a factor, rounded once: the value to the nearest whole, its interval outwards."""
    part, low, high, over = amount
    return Whole(
        (2 * part * factor + over) // (2 * over),
        None if low is None else low * factor // over,
        None if high is None or at_least else -(-high * factor // over),
        at_least,
    )


def nearest(value: Fraction) -> int:
    """The nearest whole number; a half goes up, so that a larger value never becomes a smaller number.

    >>> [nearest(Fraction(value, 2)) for value in (1, 2, 3, 5)]
    [1, 1, 2, 3]
    """
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


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


def independently_added(amounts: Iterable[Whole | None]) -> Whole:
    """The same sum, of figures whose errors are independent: squares of their errors add up."""
    found = tuple(amounts)
    known = [amount for amount in found if amount is not None]
    value, low, high, at_least = added(found)
    down = root_of_squares(None if each.low is None else each.value - each.low for each in known)
    up = root_of_squares(None if each.high is None else each.high - each.value for each in known)
    return Whole(
        value,
        None if low is None or down is None else value - down,
        None if high is None or up is None else value + up,
        at_least,
    )


def shares(total: int, parts: Sequence[Amount], factor: int = 1) -> list[int]:
    """The parts times a factor in whole numbers that add up to `total`, their rounded sum.

    The largest remainders are rounded up.

    >>> shares(10, [Amount(10, None, None, 3)] * 3)
    [4, 3, 3]
    """
    over = lcm(*(part.over for part in parts))
    exact = [part.part * (over // part.over) * factor for part in parts]
    found = [each // over for each in exact]
    order = sorted(range(len(parts)), key=lambda at: (-(exact[at] % over), at))
    for at in order[: total - sum(found)]:
        found[at] += 1
    return found


def mean(values: Sequence[int], weights: Sequence[int]) -> int:
    """The nearest whole number to the weighted mean."""
    return (2 * sum(w * v for w, v in zip(weights, values, strict=True)) + sum(weights)) // (2 * sum(weights))


def mean_whole(values: Sequence[Whole | None], weights: Sequence[int]) -> Whole | None:
    """The weighted mean; None if one of the values is not known. Zero if there is none."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if not known:
        return ZERO
    if all(value == known[0] for value in known):
        return known[0]
    lows = [value.low for value in known if value.low is not None]
    highs = [value.high for value in known if value.high is not None]
    full = sum(weights)
    return Whole(
        mean([value.value for value in known], weights),
        sum(w * v for w, v in zip(weights, lows, strict=True)) // full if len(lows) == len(known) else None,
        -(-sum(w * v for w, v in zip(weights, highs, strict=True)) // full) if len(highs) == len(known) else None,
        any(value.at_least for value in known),
    )
