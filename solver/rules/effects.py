"""Decides which policies a request may meet in any order (rule R6), by their effects, and which places keep order.

Two policies commute only if every pair of their effects does. A kind that declares no effects commutes with no kind.
The table is that of `docs/rules.md`.
"""

from __future__ import annotations

from itertools import product

from dsl.program import Effect, Place, Policy, Stage, Verb

_REJECTS, _DELAYS, _REPEATS = Verb.REJECTS, Verb.DELAYS, Verb.REPEATS
_COUNTS, _TIMES_OUT, _ROUTES, _COPIES = Verb.COUNTS, Verb.TIMES_OUT, Verb.ROUTES, Verb.COPIES

# Pairs of verbs without an element that commute; each pair stands for both directions.
_COMMUTING = {
    frozenset(pair)
    for pair in (
        (_REJECTS, _TIMES_OUT),
        (_DELAYS, _DELAYS),
        (_DELAYS, _COUNTS),
        (_COUNTS, _COUNTS),
        (_COUNTS, _TIMES_OUT),
        (_COUNTS, _COPIES),
        (_TIMES_OUT, _COPIES),
        (_COPIES, _COPIES),
    )
}
# The verbs that commute with an access, by (verb of the access, whether its element is of the response).
_ACCESS = {
    (Verb.READS, False): {_REJECTS, _DELAYS, _REPEATS, _COUNTS, _TIMES_OUT, _ROUTES, _COPIES},
    (Verb.READS, True): {_DELAYS, _COUNTS, _COPIES},
    (Verb.WRITES, False): {_REJECTS, _DELAYS, _REPEATS, _COUNTS, _TIMES_OUT},
    (Verb.WRITES, True): {_DELAYS, _COUNTS, _COPIES},
}
# Rank inside Envoy's routing stage. Envoy mirrors a request once; retries and timeouts surround the choice of a split,
# which Envoy makes once for all attempts; a timeout may limit all attempts or each of them.
_RANK = {_COPIES: 0, _REPEATS: 1, _TIMES_OUT: 1, _ROUTES: 2}


def disjoint(one: Effect, other: Effect) -> bool:
    """Whether two reads or writes never concern the same element."""
    if one.element is not other.element:
        return True
    return one.names is not None and other.names is not None and one.names.isdisjoint(other.names)


def _effects_commute(one: Effect, other: Effect) -> bool:
    if one.element is not None and other.element is not None:
        return (one.verb is Verb.READS and other.verb is Verb.READS) or disjoint(one, other)
    if one.element is not None:
        return other.verb in _ACCESS[one.verb, one.element.on_response]
    if other.element is not None:
        return one.verb in _ACCESS[other.verb, other.element.on_response]
    return frozenset((one.verb, other.verb)) in _COMMUTING


def commute(one: tuple[Effect, ...] | None, other: tuple[Effect, ...] | None) -> bool:
    """Whether a request may meet policies with these effects in either order."""
    if one is None or other is None:
        return False
    return all(_effects_commute(a, b) for a, b in product(one, other))


def _ranks(policy: Policy) -> list[int]:
    return [_RANK[effect.verb] for effect in policy.effects or () if effect.verb in _RANK]


def in_order(first: Policy, at: Place, second: Policy, then: Place) -> bool:
    """Whether a request meets `first` before `second`, which is declared after it, at these places.

    A policy at both ends is in order if each of its ends is.
    """
    return all(_ends_in_order(first, one, second, other) for one in at.ends for other in then.ends)


def _ends_in_order(first: Policy, at: Place, second: Policy, then: Place) -> bool:
    if at is not then:
        return at.position < then.position
    if at is Place.NETWORK:
        return True  # one NetworkPolicy holds all guards there, and a caller that one of them refuses gets no answer
    (side,) = at.sides
    stage, other = first.kind.sides[side], second.kind.sides[side]
    if stage is other and stage is Stage.ROUTING:
        before, after = _ranks(first), _ranks(second)
        return bool(before) and bool(after) and max(before) <= min(after)
    return stage <= other
