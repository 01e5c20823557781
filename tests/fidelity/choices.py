"""Chance as an enumeration: a run with random decisions is repeated until each combination occurred once.

The judge is plain code that asks `flip`. The first run takes the first option everywhere; each later run replays a
prefix of an earlier one and then goes the other way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = TypeVar("Result")
MOST_WAYS = 4096


class Flip(NamedTuple):
    """One random decision: its subject, its result, and the probability of yes (None: unknown)."""

    about: str
    yes: bool
    chance: float | None


class Choices:
    def __init__(self, prefix: tuple[bool, ...] = ()) -> None:
        self._prefix = prefix
        self.flips: list[Flip] = []

    def flip(self, about: str, chance: float | None) -> bool:
        """Yes with a probability; 0 and 1 are no decision."""
        if chance is not None and chance <= 0:
            return False
        if chance is not None and chance >= 1:
            return True
        index = len(self.flips)
        yes = self._prefix[index] if index < len(self._prefix) else True
        self.flips.append(Flip(about, yes, chance))
        return yes


def every_way(run: Callable[[Choices], Result]) -> Iterator[Result]:
    """`run` once for each combination of its random decisions."""
    waiting: list[tuple[bool, ...]] = [()]
    ways = 0
    while waiting:
        prefix = waiting.pop()
        choices = Choices(prefix)
        yield run(choices)
        ways += 1
        if ways > MOST_WAYS:
            raise ValueError(f"more than {MOST_WAYS} ways to go")
        taken = tuple(flip.yes for flip in choices.flips)
        waiting += [(*taken[:index], not taken[index]) for index in range(len(prefix), len(taken))]
