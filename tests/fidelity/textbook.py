"""The textbook's mesh: a sidecar at every service, every policy at the usual side of its kind.

    program -> placement, without a solver; None where no such placement exists

What limits, admits or looks inside stands at the receiver; what concerns the caller's patience and choice, and what it
is made to suffer for a test, stands at the sender. A policy leaves its side only where rules R3 to R6 demand it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import dsl
from dsl.program import Place, Policy, Program, Side
from solver.placement import Adm, Decision, Placement, Status
from tests.fidelity.order import in_order
from tests.fidelity.selecting import called

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

AT_SENDER = frozenset(
    {"fault_delay", "fault_abort", "rewrite_path"}
    | {f"{verb}_{what}_header" for verb in ("set", "add", "remove") for what in ("request", "response")}
)
MOST_SEARCHED = 12
"""Policies of one destination that are moved to keep order; more than that have no reference here."""


class _Case(NamedTuple):
    policy: Policy
    destination: str
    calls: tuple[int, ...]
    sides: tuple[Side, ...]
    """The possible sides, the textbook's first."""


def textbook(policy: Policy) -> Side:
    """Where a policy stands where nothing is against it."""
    if policy.kind.sides.keys() == {Side.EGRESS} or policy.kind.name in AT_SENDER:
        return Side.EGRESS
    return Side.INGRESS


def everywhere(text: str, read: Callable[[str], bytes]) -> Program:
    """The same program with an observer at both ends of every call, so that every call passes two sidecars.

    What an ADM calls itself (the target of a `mirror` or `split`) has one at its receiver only.
    """
    program = dsl.load_text(text, "test.adm", read)
    inside = {name for policy in program.policies for name in called(policy)}
    lines: list[str] = []
    for name in sorted({call.destination for call in program.calls} & set(program.services)):
        senders = sorted({call.source for call in program.calls if call.destination == name} & set(program.services))
        lines.append(f"@ingress\npolicy mesh_in_{name} = access_log() on * -> {name}")
        if senders and name not in inside:
            lines.append(f"@egress\npolicy mesh_out_{name} = access_log() on {{{', '.join(senders)}}} -> {name}")
    return dsl.load_text("\n".join([text, *lines, ""]), "test.adm", read)


def reference(program: Program, *, closing: bool = False) -> Placement | None:
    """The full mesh's placement of a program; None where the textbook has none.

    With `closing`, what is about every caller may stand at the senders of a closed destination where order demands it.
    """
    decisions: list[Decision] = []
    positions = {policy.name: index for index, policy in enumerate(program.policies)}
    for destination in sorted({name for policy in program.policies for name in policy.destinations}):
        cases = [
            _Case(policy, destination, calls, _possible(program, policy, destination, calls, closing=closing))
            for policy in program.policies
            if destination in policy.destinations and (calls := _calls(program, policy, destination))
        ]
        chosen = _chosen([case for case in cases if not case.policy.name.startswith("mesh_")])
        if chosen is None:
            return None
        places = {case.policy.name: Place(side) for case, side in chosen}
        for case in cases:
            place = places.get(case.policy.name, Place(case.sides[0]))
            decisions.append(_decision(program, case, place))
    decisions.sort(key=lambda each: (positions[each.policy], each.destination))
    closed = tuple(sorted({each.destination for each in decisions if each.closes}))
    return Placement(tuple(decisions), tuple(adms(program, decisions)), closed, Status.FEASIBLE, ())


def _calls(program: Program, policy: Policy, destination: str) -> tuple[int, ...]:
    return tuple(index for index in policy.calls if program.calls[index].destination == destination)


def _possible(
    program: Program, policy: Policy, destination: str, calls: Sequence[int], *, closing: bool
) -> tuple[Side, ...]:
    senders = {program.calls[index].source for index in calls}
    allowed = set(policy.sides)
    if (
        destination in program.externals
        or not program.services[destination].hosts_adm
        or _callers_are_hidden(program, policy, destination)
    ):
        allowed.discard(Side.INGRESS)
    unable = any(name in program.externals or not program.services[name].hosts_adm for name in senders)
    if (
        unable
        or (policy.open_sources and not closing)
        or (policy.kind.state and len(senders) > 1)
        or _called_inside(program, destination)
    ):
        allowed.discard(Side.EGRESS)
    usual = textbook(policy)
    return tuple(side for side in (usual, usual.other) if side in allowed)


def _callers_are_hidden(program: Program, policy: Policy, destination: str) -> bool:
    """Whether a policy has to tell callers apart at ingress, and one of them has its node's address (rule R7).

    Such a caller is on the host's network, or it is the destination itself: a pod that dials the service address of its
    own service leaves through the node, and the node puts its own address in place of the pod's.
    """
    parties = len(program.services) + len(program.externals)
    names_callers = any(
        (parameter.type.element or parameter.type).name == "caller" for parameter in policy.kind.parameters
    )
    if policy.open_sources and len(policy.sources) == parties and not names_callers:
        return False
    callers = {call.source for call in program.calls if call.destination == destination}
    if policy.kind.guard and not policy.open_sources:
        callers |= policy.sources & {destination}  # a guard judges undeclared calls, too
    return any(
        name == destination or (name in program.services and program.services[name].host_network) for name in callers
    )


def _called_inside(program: Program, destination: str) -> bool:
    return any(destination in called(policy) for policy in program.policies)


def _chosen(cases: Sequence[_Case]) -> tuple[tuple[_Case, Side], ...] | None:
    """Sides in declared order with as few policies away from their textbook side as possible.

    Each port of a destination is a call of its own, so policies that share none are chosen apart.
    """
    chosen: list[tuple[_Case, Side]] = []
    for group in _sharing(cases):
        if len(group) > MOST_SEARCHED:
            return None
        found = min(
            (sides for sides in product(*(case.sides for case in group)) if _in_order(group, sides)),
            key=lambda sides: sum(side is not case.sides[0] for side, case in zip(sides, group, strict=True)),
            default=None,
        )
        if found is None:
            return None
        chosen += zip(group, found, strict=True)
    return tuple(chosen)


def _in_order(group: Sequence[_Case], sides: Sequence[Side]) -> bool:
    return in_order((case.policy, side) for case, side in zip(group, sides, strict=True))


def _sharing(cases: Sequence[_Case]) -> Iterator[list[_Case]]:
    """Cases in groups that share calls, directly or through others."""
    groups: list[tuple[set[int], list[_Case]]] = []
    for case in cases:
        touching = [group for group in groups if group[0] & set(case.calls)]
        merged = (set(case.calls).union(*(calls for calls, _ in touching)), [c for _, g in touching for c in g])
        groups = [group for group in groups if group not in touching]
        groups.append((merged[0], [*merged[1], case]))
    for _, group in groups:
        yield sorted(group, key=cases.index)


def _decision(program: Program, case: _Case, place: Place) -> Decision:
    policy = case.policy
    ports = {program.calls[index].port.number for index in case.calls}
    if policy.open_sources and case.destination in program.services:
        ports |= {
            port.number
            for port in program.services[case.destination].ports
            if port.protocol in policy.kind.protocols and (policy.ports is None or port.number in policy.ports)
        }
    network = policy.kind.network and program.network_policies is not None
    offered = (Place.INGRESS, Place.EGRESS, *([Place.NETWORK] if network else []))
    ruled_out = {other: None for other in offered if other is not place}
    closes = policy.open_sources and Side.EGRESS in place.sides and case.destination in program.services
    return Decision(
        policy.name, case.destination, place, case.calls, ruled_out, policy.open_sources, tuple(sorted(ports)), closes
    )


def adms(program: Program, decisions: Sequence[Decision]) -> Iterator[Adm]:
    """The middleboxes that decisions make necessary."""
    work: dict[str, dict[Side, list[str]]] = {name: {side: [] for side in Side} for name in program.services}
    for decision in decisions:
        for side in decision.place.sides:
            senders = {program.calls[index].source for index in decision.calls}
            for host in [decision.destination] if side is Side.INGRESS else sorted(senders):
                if decision.policy not in work[host][side]:
                    work[host][side].append(decision.policy)
    for name, sides in sorted(work.items()):
        if any(sides.values()):
            yield Adm(name, tuple(sides[Side.INGRESS]), tuple(sides[Side.EGRESS]))
