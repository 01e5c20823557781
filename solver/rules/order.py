"""Declared order (rule R6) as constraints between the decisions of one destination.

For `p` declared before `q` that do not commute, `p` at ingress with `q` at egress is never in order. What else is
forbidden then settles one of them at once: if both at ingress is forbidden too, `p` cannot be at ingress at all; if
both at egress is, `q` cannot be at egress. So after propagation only implications remain, `q` at egress needs `p` at
egress, and the undecided decisions of a destination may all go to ingress, or all to egress. `docs/adr/0002-solver.md`
shows why, and the reductions stand on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dsl.checks.disjoint import disjoint
from dsl.program import Effect, Policy, Program, Side
from solver.rules.effects import commute, in_order
from solver.rules.options import Case

INGRESS = 1
EGRESS = 2
BOTH_ENDS = 4
"""Choices of a case, as bits of a domain. A kind that needs both ends has the last alone."""

_SIDES = {INGRESS: (Side.INGRESS,), EGRESS: (Side.EGRESS,), BOTH_ENDS: (Side.INGRESS, Side.EGRESS)}


class Clash(NamedTuple):
    """Two cases of one destination that must be met in this order."""

    first: int
    second: int


def sides_of(choice: int) -> tuple[Side, ...]:
    return _SIDES[choice]


def domain(case: Case) -> int:
    """Choices that the rules on one decision leave open."""
    if case.both:
        return 0 if case.ingress or case.egress else BOTH_ENDS
    return (0 if case.ingress else INGRESS) | (0 if case.egress else EGRESS)


def clashes(program: Program, cases: Sequence[Case]) -> dict[str, list[Clash]]:
    """Pairs that must keep their order, by destination."""
    by_destination: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        if case.calls:
            by_destination.setdefault(case.destination, []).append(index)
    signature = _signatures(program.policies)
    commuting: dict[tuple[int, int], bool] = {}
    separate: dict[tuple[int, int], bool] = {}
    found: dict[str, list[Clash]] = {}
    for destination, members in by_destination.items():
        if len(members) < 2:
            continue
        signatures = [signature[cases[index].policy] for index in members]
        clashing: list[Clash] = []
        for at, first in enumerate(members):
            for beyond in range(at + 1, len(members)):
                pair = signatures[at], signatures[beyond]
                swappable = commuting.get(pair)
                second = members[beyond]
                if swappable is None:
                    one, other = program.policies[cases[first].policy], program.policies[cases[second].policy]
                    swappable = commuting[pair] = commute(one.effects, other.effects)
                if not swappable and not set(cases[first].calls).isdisjoint(cases[second].calls):
                    positions = cases[first].policy, cases[second].policy
                    apart = separate.get(positions)
                    if apart is None:
                        one, other = program.policies[positions[0]], program.policies[positions[1]]
                        apart = separate[positions] = never_meet(one, other)
                    if not apart:
                        clashing.append(Clash(first, second))
        if clashing:
            found[destination] = clashing
    return found


def _signatures(policies: Iterable[Policy]) -> list[int]:
    """A number for each policy, the same for policies with the same effects."""
    known: dict[tuple[Effect, ...] | None, int] = {}
    return [known.setdefault(policy.effects, len(known)) for policy in policies]


def never_meet(one: Policy, other: Policy) -> bool:
    """Whether the matches of two policies are proven to exclude each other.

    What one of the two writes, the other may see changed. What a third policy writes needs no care: an order that
    keeps every clash is reached from the declared one by swapping neighbours, and nothing writes between neighbours.
    """
    if one.match is None or other.match is None:
        return False
    return disjoint(one.match, other.match, (one, other))


def holds(program: Program, cases: Sequence[Case], clash: Clash, first: int, second: int) -> bool:
    """Whether a clash is in order under two choices."""
    one, other = program.policies[cases[clash.first].policy], program.policies[cases[clash.second].policy]
    return all(
        at in one.kind.sides and then in other.kind.sides and in_order(one, at, other, then)
        for at in _SIDES[first]
        for then in _SIDES[second]
    )


def propagate(
    program: Program, cases: Sequence[Case], clashing: Mapping[str, Sequence[Clash]]
) -> tuple[list[int], list[str]]:
    """Domains of all cases with every choice removed that order rules out, and the destinations left without any."""
    domains = [domain(case) for case in cases]
    for members in clashing.values():
        _settle(program, cases, members, domains)
    return domains, sorted({case.destination for case, left in zip(cases, domains, strict=True) if not left})


def _settle(program: Program, cases: Sequence[Case], members: Sequence[Clash], domains: list[int]) -> None:
    """Arc consistency on one destination; complete, since only implications remain."""
    touching: dict[int, list[Clash]] = {}
    for clash in members:
        touching.setdefault(clash.first, []).append(clash)
        touching.setdefault(clash.second, []).append(clash)
    waiting = list(members)
    while waiting:
        clash = waiting.pop()
        first, second = domains[clash.first], domains[clash.second]
        pairs = [
            (one, other)
            for one in _SIDES
            if first & one
            for other in _SIDES
            if second & other and holds(program, cases, clash, one, other)
        ]
        left, right = 0, 0
        for one, other in pairs:
            left |= one
            right |= other
        for index, before, after in ((clash.first, first, left), (clash.second, second, right)):
            if before != after:
                domains[index] = after
                waiting.extend(touching[index])
