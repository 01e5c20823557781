"""Why no correct placement exists: an irreducible set of lines, each confirmed by solving again without it.

CP-SAT's own cores may name too much, or after presolve too little. So this takes everything that could be freed around
the place that failed, takes lines away while it still fails, and then checks each line that is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsl.program import Program
from solver.conflict.freeing import Line, Near, irreducible
from solver.conflict.remedies import Remedies
from solver.placement import Costs, PlacementError, Reason, Rule
from solver.rules.options import SIDES, Case, cases
from solver.rules.order import Clash, clashes

_TELLING = (Rule.ORDER, Rule.PIN, Rule.CAPACITY, Rule.HOST, Rule.CLOSED, Rule.STATE, Rule.OUTSIDE, Rule.CAPABILITY)


def explain(program: Program, costs: Costs, destinations: Sequence[str], overloaded: Sequence[str]) -> PlacementError:
    """The conflict at some destinations, or around some hosts whose capacity cannot be kept."""
    near = Near(program, costs, destinations, overloaded)
    lines = near.lines()
    kept = irreducible(lines, near.impossible_without)
    freed = [line for line in lines if line not in kept]
    policies = [line.policy for line in kept if line.policy is not None]
    calls = near.calls(policies, guarded=False)
    kept = irreducible([*calls, *kept], lambda more: near.impossible_without([*freed, *more]))
    if not kept:
        raise ArithmeticError("a conflict without any line")
    freed = [line for line in (*lines, *calls) if line not in kept]
    policies = [line.policy for line in kept if line.policy is not None]
    guarded = near.calls(policies, guarded=True)
    also = [call for call in guarded if not near.impossible_without([*freed, call])]
    remedies = Remedies(near, policies, freed, guarded, _swaps(near, freed, policies))
    parts = tuple(line.part._replace(remedy=remedies.of(line)) for line in (*kept, *also))
    return PlacementError(parts, _reasons(near, near.without(freed), policies))


def _swaps(near: Near, freed: Sequence[Line], policies: Sequence[str]) -> dict[str, str]:
    """Policies that would do if they were declared before another one: later -> earlier."""
    return {
        later: earlier
        for at, earlier in enumerate(policies)
        for later in policies[at + 1 :]
        if not near.impossible_without(freed, first=later)
    }


def _reasons(near: Near, program: Program, policies: Sequence[str]) -> tuple[Reason, ...]:
    """The rules that leave the policies of a conflict no side, the most telling first.

    `program` has nothing but the lines of the conflict, so that no reason names another.
    """
    found = cases(program)
    clashing = clashes(program, found)
    involved = [
        index
        for index, case in enumerate(found)
        if program.policies[case.policy].name in policies and case.destination in near.destinations
    ]
    reasons: list[Reason] = [near.overload] if near.overload is not None else []
    for index in involved:
        reasons.extend(reason for side in SIDES if (reason := found[index].blocked(side)) is not None)
    members = set(involved)
    for destination in sorted(near.destinations):
        own = clashing.get(destination, ())
        reasons.extend(_ordered(program, found, c) for c in own if c.first in members and c.second in members)
    return tuple(sorted(dict.fromkeys(reasons), key=lambda reason: _TELLING.index(reason.rule)))


def _ordered(program: Program, found: Sequence[Case], clash: Clash) -> Reason:
    one, other = program.policies[found[clash.first].policy], program.policies[found[clash.second].policy]
    message = f"`{one.name}` is declared before `{other.name}`, and the two may not be swapped"
    return Reason(Rule.ORDER, message, (other.span, one.span))
