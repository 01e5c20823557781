"""Which policies may be swapped, and which assignments of sides keep declared order. From docs/rules.md, R6.

A third reading of that page, beside the solver's and the verifier's, so that a mistake in either shows.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from dsl.program import Effect, Element, Policy, Side, Stage, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable

V = Verb
_BLOCKING: Final = frozenset(
    frozenset(pair)
    for pair in (
        *((V.REJECTS, other) for other in (V.REJECTS, V.DELAYS, V.REPEATS, V.COUNTS, V.ROUTES, V.COPIES)),
        *((V.DELAYS, other) for other in (V.REPEATS, V.TIMES_OUT, V.ROUTES, V.COPIES)),
        *((V.REPEATS, other) for other in (V.REPEATS, V.COUNTS, V.TIMES_OUT, V.ROUTES, V.COPIES)),
        (V.COUNTS, V.ROUTES),
        (V.TIMES_OUT, V.TIMES_OUT),
        (V.TIMES_OUT, V.ROUTES),
        (V.ROUTES, V.ROUTES),
        (V.ROUTES, V.COPIES),
    )
)
"""Pairs of effects without an element that may not be swapped."""
_RANKS: Final = {V.COPIES: 0, V.REPEATS: 1, V.TIMES_OUT: 1, V.ROUTES: 2}


def commute(one: Policy, other: Policy) -> bool:
    """Whether two policies around a call have the same result in both orders."""
    if one.effects is None or other.effects is None:
        return False
    return all(_commute(a, b) for a, b in product(one.effects, other.effects))


def _commute(one: Effect, other: Effect) -> bool:
    about = [effect for effect in (one, other) if effect.element is not None]
    if len(about) == 2:
        return one.verb is V.READS is other.verb or _disjoint(one, other)
    if not about:
        return frozenset({one.verb, other.verb}) not in _BLOCKING
    plain = (other if one.element is not None else one).verb
    element = about[0].element
    assert element is not None
    if element.on_response:
        return plain in (V.DELAYS, V.COUNTS, V.COPIES)
    return about[0].verb is V.READS or plain not in (V.ROUTES, V.COPIES)


def _disjoint(one: Effect, other: Effect) -> bool:
    if one.element is not other.element:
        return True
    if one.element not in (Element.HEADER, Element.RESPONSE_HEADER):
        return False
    return one.names is not None and other.names is not None and not one.names & other.names


def held(first: Policy, first_side: Side, second: Policy, second_side: Side) -> bool:
    """Whether the sides of two policies on a call let a request meet `first` before `second`."""
    if first_side is not second_side:
        return first_side is Side.EGRESS
    stages = first.kind.sides[first_side], second.kind.sides[second_side]
    if stages[0] is not stages[1] or stages[0] is not Stage.ROUTING:
        return stages[0] <= stages[1]
    return _rank(first) <= _rank(second)


def _rank(policy: Policy) -> int:
    return max((_RANKS[effect.verb] for effect in policy.effects or () if effect.verb in _RANKS), default=0)


def in_order(policies: Iterable[tuple[Policy, Side]]) -> bool:
    """Whether policies in declared order, each with its side, have the results of that order."""
    placed = list(policies)
    return all(
        commute(one, other) or held(one, side, other, its)
        for index, (one, side) in enumerate(placed)
        for other, its in placed[index + 1 :]
    )
