"""Searches an irreducible set of changes with an effect, by leaving changes out and testing the others.

    changes, a test -> an irreducible set

The method is from Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002), section 3: it
leaves out halves first, and single changes last. All subsets of a small set are then tested, too, since two changes may
together undo a third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final, TypeVar

SMALL: Final = 4
"""All subsets of a set of this many changes or fewer are tested."""

T = TypeVar("T")


class BudgetSpentError(Exception):
    """The effort is spent, so the test was not made."""


def irreducible(changes: Sequence[T], has_effect: Callable[[tuple[T, ...]], bool]) -> tuple[tuple[T, ...], bool]:
    """A set of changes that has the effect, and whether it is complete: no change of the set can be left out.

    `changes` as a whole must have the effect. If `has_effect` raises `BudgetSpentError`, the search ends and the
    smallest set so far is not complete.
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
    """Smaller and smaller sets with the effect. Without any single one of its changes, the last set has no effect."""
    parts = 2
    while len(given) > 1:
        size = -(-len(given) // parts)
        chunks = [given[at : at + size] for at in range(0, len(given), size)]
        # The last chunk is left out first, so that the earliest changes stay: calls come before policies.
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
    """The smallest subset with the effect, if the set is small and such a subset lacks at least two of its changes."""
    if len(given) > SMALL:
        return
    for size in range(1, len(given) - 1):
        for subset in combinations(given, size):
            if has_effect(subset):
                yield subset
                return
