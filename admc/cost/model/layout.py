"""Lists the hops that requests pass in a plan or in a full mesh, with the calls and the policies of each hop.

Program, Placement -> [Layout] -> estimate
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from dsl.program import Policy, Port, Program, Side
from solver.placement import Placement
from solver.rules.options import DecisionPoint


class Enforced(NamedTuple):
    """One policy at a hop."""

    policy: Policy
    calls: tuple[int, ...]
    """Indices into `Program.calls` of the declared calls in its scope that pass the hop."""


class LoadedHop(NamedTuple):
    """A hop with its calls and policies."""

    service: str
    """The service that hosts the ADM."""
    side: Side
    destination: str
    port: Port
    calls: tuple[int, ...]
    """All declared calls that pass the hop: at ingress every call to the port."""
    enforced: tuple[Enforced, ...]
    """In declared order."""


Layout = Mapping[str, tuple[LoadedHop, ...]]
"""The hops of each ADM, by service: ingress before egress, then by destination and port."""

_Key = tuple[str, Side, str, int]


class _Placed(NamedTuple):
    """One policy at one destination, and the sides at which its work is counted."""

    policy: Policy
    destination: str
    sides: Collection[Side]
    calls: tuple[int, ...]
    ports: tuple[int, ...]


def of_placement(program: Program, placement: Placement) -> Layout:
    """The ADMs of a plan."""
    enforced = _enforced(program, _placed(program, placement))
    return _layout(program, enforced, enforced, {adm.service for adm in placement.adms})


def of_full_mesh(program: Program, placement: Placement, *, everywhere: bool = False) -> Layout:
    """A sidecar at every service that can host one, for all calls of the service. Policies are where the plan has them.

    With `everywhere`, the services that cannot host a sidecar have one, too.
    """
    hosts = {service.name for service in program.services.values() if everywhere or service.can_host}
    keys: dict[_Key, None] = {}
    for call in program.calls:
        if call.source in hosts:
            keys[call.source, Side.EGRESS, call.destination, call.port.number] = None
        if call.destination in hosts:
            keys[call.destination, Side.INGRESS, call.destination, call.port.number] = None
    enforced = _enforced(program, _placed(program, placement))
    return _layout(program, {**keys, **dict.fromkeys(enforced)}, enforced, hosts)


def of_every_decision(program: Program, points: Sequence[DecisionPoint]) -> Layout:
    """Every hop that a placement may use, with every policy that may be enforced there: for `coefficients`.

    Sides that lines of the program exclude are included: an explanation needs the costs without such a line.
    """
    policies = program.policies
    placed = (
        _Placed(policies[point.policy], point.destination, policies[point.policy].kind.sides, point.calls, point.ports)
        for point in points
    )
    enforced = _enforced(program, placed)
    return _layout(program, enforced, enforced, {key[0] for key in enforced})


def _placed(program: Program, placement: Placement) -> Iterable[_Placed]:
    policies = program.policy_by_name
    return (
        _Placed(policies[decision.policy], decision.destination, decision.place.sides, decision.calls, decision.ports)
        for decision in placement.decisions
    )


def _enforced(program: Program, placed: Iterable[_Placed]) -> dict[_Key, list[Enforced]]:
    """The policies of each hop, in declared order."""
    by_hop: dict[_Key, list[Enforced]] = {}
    for decision in placed:
        for side in decision.sides:
            calls: dict[_Key, list[int]] = {}
            if side is Side.INGRESS and decision.destination in program.services:
                host = decision.destination
                calls = {(host, side, host, number): [] for number in decision.ports}
                for index in decision.calls:
                    calls.setdefault((host, side, host, program.calls[index].port.number), []).append(index)
            elif side is Side.EGRESS:
                for index in decision.calls:
                    call = program.calls[index]
                    if call.source in program.services:
                        calls.setdefault((call.source, side, call.destination, call.port.number), []).append(index)
            for key, indices in calls.items():
                by_hop.setdefault(key, []).append(Enforced(decision.policy, tuple(indices)))
    return by_hop


def _layout(
    program: Program, keys: Mapping[_Key, object], enforced: Mapping[_Key, list[Enforced]], services: set[str]
) -> Layout:
    passing: dict[_Key, list[int]] = {}
    ports: dict[tuple[str, int], Port] = {
        (service.name, port.number): port for service in program.services.values() for port in service.ports
    }
    for index, call in enumerate(program.calls):
        number = call.port.number
        ports[call.destination, number] = call.port
        passing.setdefault((call.destination, Side.INGRESS, call.destination, number), []).append(index)
        passing.setdefault((call.source, Side.EGRESS, call.destination, number), []).append(index)
    layout: dict[str, list[LoadedHop]] = {name: [] for name in sorted(services)}
    for key in sorted(keys, key=lambda hop_key: (hop_key[0], hop_key[1] is Side.EGRESS, hop_key[2], hop_key[3])):
        service, side, destination, number = key
        hop = LoadedHop(
            service,
            side,
            destination,
            ports[destination, number],
            tuple(passing.get(key, ())),
            tuple(enforced.get(key, ())),
        )
        layout.setdefault(service, []).append(hop)
    return {service: tuple(hops) for service, hops in layout.items()}
