"""The calmest turns of a measurement: those in which the host of a virtual machine took the least time away.

What it takes away makes requests wait, so it explains most of the differences between turns (docs/profiles.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

UNDISTURBED: Final = 0.01
"""The part of the time of all cores up to which a turn is calm in any case."""
LEAST: Final = 3
"""Turns that are kept at least: the median of fewer is no better than one of them."""
_Value = TypeVar("_Value")


def calmest(values: Sequence[_Value], stolen: Callable[[_Value], float]) -> list[_Value]:
    """The half with the least time taken away, and all that were not disturbed.

    `stolen` is the part of the time of all cores that was taken away; zero for all keeps all."""
    shares = [stolen(value) for value in values]
    least = max(LEAST, (len(values) + 1) // 2)
    most = max(UNDISTURBED, sorted(shares)[:least][-1]) if shares else UNDISTURBED
    return [value for value, share in zip(values, shares, strict=True) if share <= most]
