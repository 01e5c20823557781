"""Declared order (rule R6) as constraints between the decisions of one destination.

Let `p` be declared before `q`, and let the two not commute. Then `p` at ingress with `q` at egress is never in order. A
second forbidden pair decides one of the two at once: if both at ingress is forbidden, `p` cannot be at ingress; if both
at egress is forbidden, `q` cannot be at egress. So after propagation only implications remain: `q` at egress needs `p`
at egress. The undecided decisions of a destination may then all be at ingress, or all at egress.
`docs/adr/0002-solver.md` proves this, and the reductions rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from dsl.checks.disjoint import disjoint
from dsl.program import Effect, Place, Policy, Program
from solver.rules.effects import commute, in_order
from solver.rules.network import spared
from solver.rules.options import DecisionPoint

Domain = frozenset[Place]
"""The places that are left for a decision. A decision with more than one is undecided."""


class Statement(NamedTuple):
    """An undecided decision is at `place`, or further out on the way of a request.

    A decision is at a place if the statement of that place holds, and that of its next place further out does not.
    """

    decision: int
    place: Place


def inwards(left: Domain) -> tuple[Place, ...]:
    """Places, the innermost first. Each but the first has a statement."""
    return tuple(sorted(left, key=lambda place: -place.position))


class Clash(NamedTuple):
    """The indices of two decisions of one destination. A request has to meet their policies in this order."""

    first: int
    second: int


def domain(point: DecisionPoint) -> Domain:
    """Places that the rules on one decision allow."""
    return _domain(tuple(place for place in point.offered if point.blocked(place) is None))


@cache
def _domain(places: tuple[Place, ...]) -> Domain:
    """One object for equal domains: a large program has hundreds of thousands of decisions."""
    return frozenset(places)


def clashes(program: Program, points: Sequence[DecisionPoint]) -> dict[str, list[Clash]]:
    """Pairs that must keep their declared order, by destination."""
    by_destination: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        if point.calls:
            by_destination.setdefault(point.destination, []).append(index)
    signature = _signatures(program.policies)
    commuting: dict[tuple[int, int], bool] = {}
    separate: dict[tuple[int, int], bool] = {}
    guards = _Guards(program)
    clashing_by_destination: dict[str, list[Clash]] = {}
    for destination, members in by_destination.items():
        if len(members) < 2:
            continue
        signatures = [signature[points[index].policy] for index in members]
        clashing: list[Clash] = []
        for at, first in enumerate(members):
            for beyond in range(at + 1, len(members)):
                pair = signatures[at], signatures[beyond]
                swappable = commuting.get(pair)
                second = members[beyond]
                if swappable is None:
                    one, other = program.policies[points[first].policy], program.policies[points[second].policy]
                    swappable = commuting[pair] = commute(one.effects, other.effects)
                if not swappable and not set(points[first].calls).isdisjoint(points[second].calls):
                    positions = points[first].policy, points[second].policy
                    apart = separate.get(positions)
                    if apart is None:
                        one, other = program.policies[positions[0]], program.policies[positions[1]]
                        apart = separate[positions] = never_meet(one, other)
                    if not apart and not guards.spare(points[first], points[second]):
                        clashing.append(Clash(first, second))
        if clashing:
            clashing_by_destination[destination] = clashing
    return clashing_by_destination


class _Guards:
    """The guards that a NetworkPolicy can enforce, each with the callers that it admits.

    Such a guard does nothing to a request of a caller that it admits, so the order of guard and policy makes no
    difference to that request. It makes a difference to undeclared callers if these meet both at the destination: a
    policy that is declared first has to be met first.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._admitted: dict[int, frozenset[str] | None] = {}

    def spare(self, first: DecisionPoint, second: DecisionPoint) -> bool:
        """Whether one of two decisions is such a guard, and its place makes no difference to the other."""
        return self._spares(first, first, second) or self._spares(second, first, second)

    def _spares(self, guard: DecisionPoint, first: DecisionPoint, second: DecisionPoint) -> bool:
        policies, calls = self.program.policies, self.program.calls
        if guard.policy not in self._admitted:
            self._admitted[guard.policy] = spared(policies[guard.policy], self.program)
        admitted = self._admitted[guard.policy]
        if admitted is None:
            return False
        shared = set(first.calls).intersection(second.calls)
        if any(calls[index].source not in admitted for index in shared):
            return False
        other = second if guard is first else first
        one, two = policies[first.policy], policies[second.policy]
        at_ingress = Place.INGRESS in one.kind.places and Place.INGRESS in two.kind.places
        return not other.open or not at_ingress or in_order(one, Place.INGRESS, two, Place.INGRESS)


def _signatures(policies: Iterable[Policy]) -> list[int]:
    """A number for each policy, the same for policies with the same effects."""
    known: dict[tuple[Effect, ...] | None, int] = {}
    return [known.setdefault(policy.effects, len(known)) for policy in policies]


def never_meet(one: Policy, other: Policy) -> bool:
    """Whether the matches of two policies are proven to exclude each other.

    One of the two may write what the other's match reads. Writes of a third policy do not matter: every order that
    keeps all clashes follows from the declared order by swaps of neighbours, and no policy is between neighbours.
    """
    if one.match is None or other.match is None:
        return False
    return disjoint(one.match, other.match, (one, other))


def holds(program: Program, points: Sequence[DecisionPoint], clash: Clash, first: Place, second: Place) -> bool:
    """Whether the policies of a clash keep their order at two places."""
    one, other = program.policies[points[clash.first].policy], program.policies[points[clash.second].policy]
    return in_order(one, first, other, second)


def propagate(
    program: Program, points: Sequence[DecisionPoint], clashing: Mapping[str, Sequence[Clash]]
) -> tuple[list[Domain], list[str]]:
    """The domains of all decisions without the places that order excludes, and destinations with an empty domain."""
    domains = [domain(point) for point in points]
    for members in clashing.values():
        _settle(program, points, members, domains)
    return domains, sorted({point.destination for point, left in zip(points, domains, strict=True) if not left})


def _settle(program: Program, points: Sequence[DecisionPoint], members: Sequence[Clash], domains: list[Domain]) -> None:
    """Arc consistency on one destination; complete, since only implications remain."""
    touching: dict[int, list[Clash]] = {}
    for clash in members:
        touching.setdefault(clash.first, []).append(clash)
        touching.setdefault(clash.second, []).append(clash)
    waiting = list(members)
    while waiting:
        clash = waiting.pop()
        first, second = domains[clash.first], domains[clash.second]
        pairs = [(one, other) for one in first for other in second if holds(program, points, clash, one, other)]
        left, right = frozenset(one for one, _ in pairs), frozenset(other for _, other in pairs)
        for index, before, after in ((clash.first, first, left), (clash.second, second, right)):
            if before != after:
                domains[index] = after
                waiting.extend(touching[index])
