"""Why no correct placement exists: an irreducible set of constraints, each confirmed by solving without it.

CP-SAT's own infeasible cores may name too many constraints, or after presolve too few. So the search starts with all
constraints around the destinations that failed, relaxes those that the conflict does not need, and checks the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsl.program import Program
from solver.conflict.remedies import Remedies
from solver.conflict.subprogram import Constraint, Subprogram, irreducible_subset
from solver.placement import Costs, PlacementError, Reason, Rule
from solver.rules.options import SIDES, DecisionPoint, decision_points
from solver.rules.order import Clash, clashes

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


def explain(program: Program, costs: Costs, destinations: Sequence[str], overloaded: Sequence[str]) -> PlacementError:
    """The conflict at some destinations, or around hosts whose capacity cannot be kept."""
    subprogram = Subprogram(program, costs, destinations, overloaded)
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
    return PlacementError(parts, _reasons(subprogram, subprogram.without(relaxed), policies))


def _swaps(subprogram: Subprogram, relaxed: Sequence[Constraint], policies: Sequence[str]) -> dict[str, str]:
    """Pairs of policies whose swap resolves the conflict: later -> earlier in declared order."""
    return {
        later: earlier
        for at, earlier in enumerate(policies)
        for later in policies[at + 1 :]
        if not subprogram.impossible_without(relaxed, first=later)
    }


def _reasons(subprogram: Subprogram, program: Program, policies: Sequence[str]) -> tuple[Reason, ...]:
    """The rules that leave the policies of a conflict no side, the most specific rule first.

    `program` holds only the constraints of the conflict, so reasons name no other line.
    """
    found = decision_points(program)
    clashing = clashes(program, found)
    involved = [
        index
        for index, point in enumerate(found)
        if program.policies[point.policy].name in policies and point.destination in subprogram.destinations
    ]
    reasons: list[Reason] = [subprogram.overload] if subprogram.overload is not None else []
    for index in involved:
        reasons.extend(reason for side in SIDES if (reason := found[index].blocked(side)) is not None)
    members = set(involved)
    for destination in sorted(subprogram.destinations):
        own = clashing.get(destination, ())
        reasons.extend(_ordered(program, found, c) for c in own if c.first in members and c.second in members)
    return tuple(sorted(dict.fromkeys(reasons), key=lambda reason: _PRECEDENCE.index(reason.rule)))


def _ordered(program: Program, found: Sequence[DecisionPoint], clash: Clash) -> Reason:
    one, other = program.policies[found[clash.first].policy], program.policies[found[clash.second].policy]
    message = f"`{one.name}` is declared before `{other.name}`, and the two may not be swapped"
    return Reason(Rule.ORDER, message, (other.span, one.span))
