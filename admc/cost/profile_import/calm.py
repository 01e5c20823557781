"""Chooses the calmest turns of a measurement: the host of the virtual machine took the least time away in them.

A turn measures each arm once. Requests wait while the host takes time away, and this explains most of the differences
between turns (docs/profiles.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

UNDISTURBED: Final = 0.02
"""A turn is calm in any case if the host took at most this part of the time of all cores: one tick of the clock, of the
50 ticks that two cores have in a quarter of a second."""
LEAST: Final = 3
"""The least number of turns that are kept: the median of fewer is no better than a single turn."""
_Value = TypeVar("_Value")


def calmest(values: Sequence[_Value], stolen: Callable[[_Value], float | None]) -> list[_Value]:
    """About half of the values, those with the least stolen time (at least `LEAST`), and all that were not disturbed.

    `stolen` returns the part of the time of all cores that the host took away. If it is None for one value, all values
    are kept. Values with equal parts are kept or left out together, so that their order has no influence."""
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
