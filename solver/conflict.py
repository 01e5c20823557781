"""Why no correct placement exists: an irreducible set of lines, each confirmed by solving again without it.

CP-SAT's own cores may name too much, or after presolve too little. So this takes everything that could be freed around
the place that failed, takes lines away while it still fails, and then checks each line that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dsl.program import Program
from solver.freeing import Line, Near
from solver.options import SIDES, Case, cases
from solver.order import Clash, clashes
from solver.placement import ConflictPart, Costs, PlacementError, Reason, Rule

_TELLING = (Rule.ORDER, Rule.PIN, Rule.CAPACITY, Rule.HOST, Rule.CLOSED, Rule.STATE, Rule.OUTSIDE, Rule.CAPABILITY)


def explain(program: Program, costs: Costs, destinations: Sequence[str], overloaded: Sequence[str]) -> PlacementError:
    """The conflict at some destinations, or around some hosts whose capacity cannot be kept."""
    near = Near(program, costs, destinations, overloaded)
    lines = near.lines()
    kept = _irreducible(lines, near.impossible_without)
    freed = [line for line in lines if line not in kept]
    calls = near.calls([line.policy for line in kept if line.policy is not None])
    kept = _irreducible([*calls, *kept], lambda more: near.impossible_without([*freed, *more]))
    if not kept:
        raise ArithmeticError("a conflict without any line")
    policies = [line.policy for line in kept if line.policy is not None]
    swaps = _swaps(near, [line for line in (*lines, *calls) if line not in kept], policies)
    parts = tuple(_part(line, swaps) for line in kept)
    return PlacementError(parts, _reasons(near, policies))


def _part(line: Line, swaps: dict[str, str]) -> ConflictPart:
    if line.policy in swaps:
        return line.part._replace(remedy=f"declare `{line.policy}` before `{swaps[line.policy]}`, or remove it")
    return line.part


def _irreducible(lines: Sequence[Line], impossible: Callable[[Sequence[Line]], bool]) -> list[Line]:
    """Lines of which none can be left out: with the others freed it fails, and freeing any one more mends it."""
    kept = list(lines)
    dropped: list[Line] = []
    size = max(1, len(kept) // 2)
    while True:
        at = 0
        progress = False
        while at < len(kept):
            chunk = kept[at : at + size]
            if impossible([*dropped, *chunk]):
                dropped.extend(chunk)
                del kept[at : at + size]
                progress = True
            else:
                at += size
        if size == 1 and not progress:
            return kept
        size = max(1, size // 2)


def _swaps(near: Near, freed: Sequence[Line], policies: Sequence[str]) -> dict[str, str]:
    """Policies that would do if they were declared before another one: later -> earlier."""
    return {
        later: earlier
        for at, earlier in enumerate(policies)
        for later in policies[at + 1 :]
        if not near.impossible_without(freed, first=later)
    }


def _reasons(near: Near, policies: Sequence[str]) -> tuple[Reason, ...]:
    """The rules that leave the policies of a conflict no side, the most telling first."""
    program = near.program
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
