"""The facts that a test leaves open, tried in all combinations: an answer counts only if all combinations give it.

    a function of a Way -> (the facts that it asked for, its result) for each combination

Comparisons that exclude each other (`path == "/a"` and `path == "/b"`) are never both true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from dsl.checks.disjoint import disjoint
from dsl.match import And, Comparison, Field, Match, Not
from dsl.program import Policy

MAX_WAYS = 1024

T = TypeVar("T")


class Fact(NamedTuple):
    """An open property of a request: it may hold or not."""

    policy: Policy
    """The policy whose effect depends on the fact."""
    what: str
    hint: str
    comparison: Comparison | None = None
    """The open comparison, if the fact is one. The name of its field has the version of the compared value."""


class Flip(NamedTuple):
    fact: Fact
    holds: bool


class TooManyWaysError(Exception):
    """There are more than `MAX_WAYS` combinations of open facts."""


class Way:
    """One combination of open facts, which are decided one by one as the evaluation of a request asks for them."""

    def __init__(self, given: tuple[bool, ...] = ()) -> None:
        self._given = given
        self._known: dict[object, bool] = {}
        self._literals: dict[Field, tuple[Match, ...]] = {}
        self.flips: list[Flip] = []

    def holds(self, fact: Fact) -> bool:
        key = fact.comparison or (fact.policy.name, fact.what)
        if key not in self._known:
            self._known[key] = self._decide(fact)
        return self._known[key]

    def _decide(self, fact: Fact) -> bool:
        comparison = fact.comparison
        if comparison is not None:
            # Only a comparison of the same field can exclude this one.
            literals = self._literals.get(comparison.field, ())
            if literals and disjoint(And((*literals, comparison)), None):
                return False
            if literals and disjoint(And((*literals, Not(comparison))), None):
                return True
        at = len(self.flips)
        holds = self._given[at] if at < len(self._given) else False
        self.flips.append(Flip(fact, holds))
        if comparison is not None:
            literals = self._literals.get(comparison.field, ())
            self._literals[comparison.field] = (*literals, comparison if holds else Not(comparison))
        return holds


def every_way(follow: Callable[[Way], T]) -> Iterator[tuple[tuple[Flip, ...], T]]:
    """The facts that `follow` asks for, and its result, in every combination. Raises `TooManyWaysError`."""
    waiting: list[tuple[bool, ...]] = [()]
    tried = 0
    while waiting:
        if tried == MAX_WAYS:
            raise TooManyWaysError
        tried += 1
        given = waiting.pop()
        way = Way(given)
        result = follow(way)
        answers = tuple(flip.holds for flip in way.flips)
        waiting += [(*answers[:at], not answers[at]) for at in range(len(given), len(answers))]
        yield tuple(way.flips), result


def deciding(outcomes: list[tuple[tuple[Flip, ...], bool]]) -> Fact:
    """The last fact before which both results are possible: after it, the result is certain.

    `outcomes` has the facts and the result of every way, and both results occur.
    """
    results: dict[tuple[bool, ...], set[bool]] = {}
    facts: dict[tuple[bool, ...], Fact] = {}
    for flips, result in outcomes:
        for at, flip in enumerate(flips):
            before = tuple(earlier.holds for earlier in flips[:at])
            results.setdefault(before, set()).add(result)
            facts[before] = flip.fact
    last = max((before for before, possible in results.items() if len(possible) > 1), key=len)
    return facts[last]


def versioned(of: Field, version: str) -> Field:
    return Field(f"{of.name} {version}", of.header)
