"""An irreducible set of changes that still has an effect, found by leaving changes out and trying again.

Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002), section 3: from halves to single
changes. A small set is then compared with all its subsets, since two changes may together undo a third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final, TypeVar

SMALL: Final = 4
"""Sets of up to this many changes are compared with all their subsets."""

T = TypeVar("T")


class BudgetSpentError(Exception):
    """The test was not made: no effort is left for it."""


def irreducible(changes: Sequence[T], has_effect: Callable[[tuple[T, ...]], bool]) -> tuple[tuple[T, ...], bool]:
    """A set of changes that has the effect, and whether it is certain that none of them can be left out.

    It is not where `has_effect` raises `BudgetSpentError`. All `changes` together have the effect.
    """
    best = tuple(changes)
    try:
        for smaller in _smaller(best, has_effect):
            best = smaller
        for subset in _subsets(best, has_effect):
            best = subset
    except BudgetSpentError:
        return best, False
    return best, True


def _smaller(given: tuple[T, ...], has_effect: Callable[[tuple[T, ...]], bool]) -> Iterator[tuple[T, ...]]:
    """Smaller and smaller sets with the effect; the last one loses it with any of its changes."""
    parts = 2
    while len(given) > 1:
        size = -(-len(given) // parts)
        chunks = [given[at : at + size] for at in range(0, len(given), size)]
        # Of several such sets, the one with the earliest changes: calls come before policies.
        rests = (tuple(change for change in given if change not in chunk) for chunk in reversed(chunks))
        smaller = next((rest for rest in rests if has_effect(rest)), None)
        if smaller is not None:
            given = smaller
            parts = max(parts - 1, 2)
            yield given
        elif parts >= len(given):
            return
        else:
            parts = min(2 * parts, len(given))


def _subsets(given: tuple[T, ...], has_effect: Callable[[tuple[T, ...]], bool]) -> Iterator[tuple[T, ...]]:
    """A subset with the effect that is smaller by more than one change, if a small set has one."""
    if len(given) > SMALL:
        return
    for size in range(1, len(given) - 1):
        for subset in combinations(given, size):
            if has_effect(subset):
                yield subset
                return
