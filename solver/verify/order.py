"""Rule R6, checked from the table in docs/rules.md: policies that do not commute are met in declared order.

If each decision of a destination sits further in than the decision declared before it, the order is kept, and one pass
shows that. Pairs are compared only at destinations where a decision sits further out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dsl.match import Field
from dsl.program import Effect, Element, Place, Policy, Program, Stage, Verb
from solver.placement import Rule, Violation
from solver.verify.matches import can_both_hold, fields
from solver.verify.scope import Requirement, admitted_callers

Depth = tuple[int, int, int]
"""Position of a policy on the way of a request: place, stage, and rank within the routing stage."""

# Pairs of effects other than `reads` and `writes` that commute. All other pairs do not.
_COMMUTING = frozenset(
    frozenset(pair)
    for pair in (
        (Verb.REJECTS, Verb.TIMES_OUT),
        (Verb.DELAYS,),
        (Verb.DELAYS, Verb.COUNTS),
        (Verb.COUNTS,),
        (Verb.COUNTS, Verb.TIMES_OUT),
        (Verb.COUNTS, Verb.COPIES),
        (Verb.TIMES_OUT, Verb.COPIES),
        (Verb.COPIES,),
    )
)

# (`reads` or `writes`, whether of the response) -> effects that do not commute with it, besides reads and writes.
_DISTURBED_BY = {
    (Verb.READS, False): frozenset[Verb](),
    (Verb.READS, True): frozenset({Verb.REJECTS, Verb.REPEATS, Verb.TIMES_OUT, Verb.ROUTES}),
    (Verb.WRITES, False): frozenset({Verb.ROUTES, Verb.COPIES}),
    (Verb.WRITES, True): frozenset({Verb.REJECTS, Verb.REPEATS, Verb.TIMES_OUT, Verb.ROUTES}),
}

# At the routing stage Envoy's router decides the order, not the configuration.
_RANKS = {Verb.COPIES: 0, Verb.TIMES_OUT: 1, Verb.REPEATS: 1, Verb.ROUTES: 2}
_NO_RANK = (-1, 9)

_FIELDS = {Element.HEADER: "header", Element.PATH: "path", Element.METHOD: "method"}
_ELEMENTS = {name: element for element, name in _FIELDS.items()}


class _Seat(NamedTuple):
    required: Requirement
    outermost: Depth
    innermost: Depth


def order(program: Program, placed: Iterable[tuple[Requirement, Place]]) -> Iterator[Violation]:
    """Policies that some request meets in the wrong order, each with one of the policies that it had to meet first.

    `placed` is in declared order.
    """
    judge = _Judge(program)
    by_destination: dict[str, list[_Seat]] = defaultdict(list)
    for required, place in placed:
        if required.calls and place in required.policy.kind.places:
            by_destination[required.destination].append(_seat(required, place))
    for seats in by_destination.values():
        if len(seats) > 1:
            yield from _destination(seats, judge)


def _destination(seats: list[_Seat], judge: _Judge) -> Iterator[Violation]:
    earlier: dict[tuple[Depth, int], list[_Seat]] = defaultdict(list)
    deepest: Depth = (-1, -1, -1)
    for seat in seats:
        signature = judge.signature(seat.required.policy)
        if seat.outermost < deepest:
            outside = (
                before
                for (depth, other), group in earlier.items()
                if depth > seat.outermost and not judge.commute(other, signature)
                for before in group
            )
            for before in outside:
                if judge.meet(before.required, seat.required):
                    yield _violation(before.required, seat.required)
                    break
        earlier[(seat.innermost, signature)].append(seat)
        deepest = max(deepest, seat.innermost)


def _seat(required: Requirement, place: Place) -> _Seat:
    depths: list[Depth] = []
    if place is Place.NETWORK:  # one NetworkPolicy has no stages
        depths.append((place.position, 0, 0))
    for end in place.ends:
        for side in end.sides:
            stage = required.policy.kind.sides[side]
            low, high = _ranks(required.policy) if stage is Stage.ROUTING else (0, 0)
            depths += [(end.position, stage, low), (end.position, stage, high)]
    return _Seat(required, min(depths), max(depths))


def _ranks(policy: Policy) -> tuple[int, int]:
    """Lowest and highest rank at the routing stage. A policy without a rank has no known position there."""
    ranks = [_RANKS[effect.verb] for effect in policy.effects or () if effect.verb in _RANKS]
    return (min(ranks), max(ranks)) if ranks else _NO_RANK


def _in_order_at_ingress(before: Requirement, after: Requirement) -> bool:
    """Whether the policies keep their order with both at ingress, or cannot both be there."""
    if not all(Place.INGRESS in one.policy.kind.places for one in (before, after)):
        return True
    return _seat(before, Place.INGRESS).innermost <= _seat(after, Place.INGRESS).outermost


def _violation(before: Requirement, after: Requirement) -> Violation:
    return Violation(
        Rule.ORDER,
        f"`{before.policy.name}` is declared before `{after.policy.name}`, and the two do not commute, "
        f"but requests to `{after.destination}` meet it after",
        after.policy.name,
        after.destination,
    )


class _Judge:
    """Caches answers by policies and by sets of effects, of which a program has few."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.everyone = program.services.keys() | program.externals.keys()
        self.signatures: dict[frozenset[Effect] | None, int] = {}
        self.effects: list[frozenset[Effect] | None] = []
        self.by_policy: dict[str, int] = {}
        self.commuting: dict[tuple[int, int], bool] = {}
        self.overlapping: dict[tuple[str, str], bool] = {}

    def signature(self, policy: Policy) -> int:
        known = self.by_policy.get(policy.name)
        if known is None:
            effects = _effects(policy)
            known = self.signatures.setdefault(effects, len(self.effects))
            if known == len(self.effects):
                self.effects.append(effects)
            self.by_policy[policy.name] = known
        return known

    def commute(self, one: int, other: int) -> bool:
        key = (one, other)
        if key not in self.commuting:
            first, second = self.effects[one], self.effects[other]
            self.commuting[key] = (
                first is not None and second is not None and all(effects_commute(a, b) for a in first for b in second)
            )
        return self.commuting[key]

    def meet(self, before: Requirement, after: Requirement) -> bool:
        """Whether some request may meet both policies, and would notice their order."""
        shared = set(before.calls).intersection(after.calls)
        if not shared or not self.overlap(before.policy, after.policy):
            return False
        senders = {self.program.calls[index].source for index in shared}
        return not any(
            self._admits_all(guard.policy, senders) and (not other.open or _in_order_at_ingress(before, after))
            for guard, other in ((before, after), (after, before))
        )

    def _admits_all(self, policy: Policy, senders: set[str]) -> bool:
        """Whether the policy is a guard that may be in the network, and does nothing to requests of these senders."""
        return (
            policy.kind.network
            and self.program.network_policies is not None
            and policy.match is None
            and policy.narrowing is None
            and policy.open_sources
            and policy.sources == self.everyone
            and senders <= admitted_callers(policy)
        )

    def overlap(self, one: Policy, other: Policy) -> bool:
        if one.match is None or other.match is None:
            return True
        key = (one.name, other.name)
        if key not in self.overlapping:
            self.overlapping[key] = can_both_hold(one.match, other.match, _written(one) | _written(other))
        return self.overlapping[key]


def effects_commute(one: Effect, other: Effect) -> bool:
    """The table of docs/rules.md for one pair of effects."""
    on_element = (Verb.READS, Verb.WRITES)
    if one.verb not in on_element and other.verb not in on_element:
        return frozenset((one.verb, other.verb)) in _COMMUTING
    if one.verb in on_element and other.verb in on_element:
        return (one.verb is Verb.READS and other.verb is Verb.READS) or _disjoint(one, other)
    access, verb = (one, other.verb) if one.verb in on_element else (other, one.verb)
    if access.element is None:
        return False
    return verb not in _DISTURBED_BY[(access.verb, access.element.on_response)]


def _disjoint(one: Effect, other: Effect) -> bool:
    if one.element is None or other.element is None:
        return False
    if one.element is not other.element:
        return True
    return one.names is not None and other.names is not None and one.names.isdisjoint(other.names)


def _effects(policy: Policy) -> frozenset[Effect] | None:
    """The policy's effects; its match reads what it compares."""
    if policy.effects is None:
        return None
    read = (
        Effect(Verb.READS, _ELEMENTS[field.name], None if field.header is None else frozenset({field.header}))
        for field in fields(policy.match)
    )
    return frozenset(policy.effects) | frozenset(read)


def _written(policy: Policy) -> frozenset[Field | None]:
    """The fields of a match that the policy itself changes; None for every field."""
    if policy.effects is None:
        return frozenset({None})
    changed: set[Field | None] = set()
    for effect in policy.effects:
        if effect.verb is not Verb.WRITES:
            continue
        if effect.element is None:
            changed.add(None)
        elif effect.element is Element.HEADER:
            changed.update([Field("header")] if effect.names is None else (Field("header", n) for n in effect.names))
        elif effect.element in _FIELDS:
            changed.add(Field(_FIELDS[effect.element]))
    return frozenset(changed)
