"""The calmest turns of a measurement: those in which the host of a virtual machine took the least time away.

What it takes away makes requests wait, so it explains most of the differences between turns (docs/profiles.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

UNDISTURBED: Final = 0.02
"""The part of the time of all cores up to which a turn is calm in any case. In a quarter of a second, two cores have 50
ticks of the clock, so it is one of them."""
LEAST: Final = 3
"""Turns that are kept at least: the median of fewer is no better than one of them."""
_Value = TypeVar("_Value")


def calmest(values: Sequence[_Value], stolen: Callable[[_Value], float | None]) -> list[_Value]:
    """The half with the least time taken away, and all that were not disturbed.

    `stolen` is the part of the time of all cores that was taken away. Where it is not known for one of them, all are
    kept. Equal ones are kept or left out together, so that their order means nothing."""
    shares = [share for value in values if (share := stolen(value)) is not None]
    if len(shares) < len(values) or len(values) <= LEAST:
        return list(values)
    ordered = sorted(shares)
    most = ordered[max(LEAST, (len(values) + 1) // 2) - 1]
    calmer = [share for share in ordered if share < most]
    if ordered.count(most) > 1 and len(calmer) >= LEAST:
        most = calmer[-1]
    most = max(most, UNDISTURBED)
    return [value for value, share in zip(values, shares, strict=True) if share <= most]
