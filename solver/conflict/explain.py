"""Explains why no correct placement exists: an irreducible set of constraints, each confirmed by solving without it.

CP-SAT's own infeasible cores may name too many constraints, or after presolve too few. So the search starts with all
constraints around the destinations that failed, relaxes those that the conflict does not need, and checks the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from dsl.program import Place, Program
from solver.conflict.order_facts import order_fact
from solver.conflict.remedies import Remedies
from solver.conflict.subprogram import Constraint, Pair, Subprogram, irreducible_subset, ordered_pairs
from solver.placement import Conflict, Costs, PlacementError, Reason, Rule
from solver.rules.options import ONE_END, ONE_PLACE, DecisionPoint, decision_points
from solver.rules.order import Clash, propagate

_PRECEDENCE = (
    Rule.ORDER,
    Rule.PIN,
    Rule.CAPACITY,
    Rule.HOST,
    Rule.CLOSED,
    Rule.STATE,
    Rule.OUTSIDE,
    Rule.CAPABILITY,
)

MOST: Final = 20
"""The most conflicts in one error."""
MOST_WORK: Final = 1_000_000
"""The search for another conflict begins only while at most this many calls and policies were examined."""
SOLVED: Final = 100
"""The approximate number of times that a policy of a subprogram is examined until its conflict is irreducible."""


def explain(program: Program, costs: Costs, destinations: Sequence[str]) -> PlacementError:
    """Return an error with the conflicts at these destinations, none of which has a placement, in their order.

    After each conflict, the search continues as if a user had resolved it. A conflict over the order of policies is
    resolved by ignoring the order of these policies, and any other conflict by removing its last policy. So the next
    conflict has another line, or another pair of policies. The search is bounded, and always finds the first conflict.
    """
    conflicts: list[Conflict] = []
    free_pairs: set[Pair] = set()
    rest = program
    work = 0
    for destination in destinations:
        while True:
            if conflicts and (len(conflicts) == MOST or work > MOST_WORK):
                return PlacementError(tuple(conflicts), more=_has_more(rest, free_pairs))
            subprogram = Subprogram(rest, costs, [destination], [], free_pairs)
            work += len(rest.calls) + len(rest.policies)
            if conflicts and not subprogram.impossible_without([]):
                break
            conflict, policies, pairs = _conflict(subprogram)
            conflicts.append(conflict)
            work += SOLVED * len(subprogram.program.policies)
            free_pairs |= pairs
            if not pairs:
                rest = _without(rest, policies[-1])
    return PlacementError(tuple(conflicts))


def explain_overload(
    program: Program, costs: Costs, destinations: Sequence[str], overloaded: Sequence[str]
) -> PlacementError:
    """Return an error with the one conflict around hosts whose capacity cannot be kept."""
    return PlacementError((_conflict(Subprogram(program, costs, destinations, overloaded))[0],))


def _has_more(program: Program, free_pairs: Collection[Pair]) -> bool:
    points = decision_points(program)
    _, dead = propagate(program, points, ordered_pairs(program, points, free_pairs))
    return bool(dead)


def _without(program: Program, name: str) -> Program:
    return replace(
        program,
        policies=tuple(policy for policy in program.policies if policy.name != name),
        pins=tuple(pin for pin in program.pins if pin.policy != name),
    )


def _conflict(subprogram: Subprogram) -> tuple[Conflict, Sequence[str], set[Pair]]:
    """One conflict, its policies in declared order, and the pairs of these that have to keep their order."""
    constraints = subprogram.constraints()
    kept = irreducible_subset(constraints, subprogram.impossible_without)
    relaxed = [constraint for constraint in constraints if constraint not in kept]
    policies = [constraint.policy for constraint in kept if constraint.policy is not None]
    calls = subprogram.calls(policies, guarded=False)
    kept = irreducible_subset([*calls, *kept], lambda more: subprogram.impossible_without([*relaxed, *more]))
    if not kept:
        raise ArithmeticError("a conflict without any constraint")
    relaxed = [constraint for constraint in (*constraints, *calls) if constraint not in kept]
    policies = [constraint.policy for constraint in kept if constraint.policy is not None]
    guarded = subprogram.calls(policies, guarded=True)
    also = [call for call in guarded if not subprogram.impossible_without([*relaxed, call])]
    remedies = Remedies(subprogram, policies, relaxed, guarded, _swaps(subprogram, relaxed, policies))
    parts = tuple(constraint.part._replace(remedy=remedies.of(constraint)) for constraint in (*kept, *also))
    reasons, pairs = _reasons(subprogram, subprogram.without(relaxed), policies)
    return Conflict(parts, reasons), policies, pairs


def _swaps(subprogram: Subprogram, relaxed: Sequence[Constraint], policies: Sequence[str]) -> dict[str, str]:
    """Pairs of policies whose swap resolves the conflict: later -> earlier in declared order."""
    return {
        later: earlier
        for at, earlier in enumerate(policies)
        for later in policies[at + 1 :]
        if not subprogram.impossible_without(relaxed, first=later)
    }


def _reasons(subprogram: Subprogram, program: Program, policies: Sequence[str]) -> tuple[tuple[Reason, ...], set[Pair]]:
    """Return the rules that exclude all places of the policies of a conflict, the most specific rule first, and the
    pairs of policies that have to keep their order.

    `program` holds only the constraints of the conflict, so reasons name no other line.
    """
    points = decision_points(program)
    clashing = ordered_pairs(program, points, subprogram.free_pairs)
    involved = [
        index
        for index, point in enumerate(points)
        if program.policies[point.policy].name in policies and point.destination in subprogram.destinations
    ]
    reasons: list[Reason] = [subprogram.overload] if subprogram.overload is not None else []
    for index in involved:
        reasons.extend(reason for place in ONE_PLACE if (reason := points[index].blocked(place)) is not None)
    members = set(involved)
    pairs = set()
    for destination in sorted(subprogram.destinations):
        for clash in clashing.get(destination, ()):
            if clash.first in members and clash.second in members:
                reasons.append(_ordered(program, points, clash))
                pairs.add(frozenset(program.policies[points[index].policy].name for index in clash))
    return tuple(sorted(dict.fromkeys(reasons), key=lambda reason: _PRECEDENCE.index(reason.rule))), pairs


def _ordered(program: Program, points: Sequence[DecisionPoint], clash: Clash) -> Reason:
    one, other = program.policies[points[clash.first].policy], program.policies[points[clash.second].policy]
    firsts, seconds = (_free_places(points[index]) for index in clash)
    fact = order_fact(one, firsts, other, seconds)
    message = f"`{one.name}` is declared before `{other.name}`, and the two may not be swapped"
    return Reason(Rule.ORDER, f"{message}: {fact}" if fact else message, (other.span, one.span))


def _free_places(point: DecisionPoint) -> list[Place]:
    return [place for place in ONE_END if point.blocked(place) is None]
