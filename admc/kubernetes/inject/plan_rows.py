"""What a plan says of each service, to compare manifests with it.

    program, placement --plan_rows--> PlanRows

`admc inject --plan` reads it from a plan. A server compares the objects of its cluster with the plan by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from admc.kubernetes.inject.needs import Place, needs_of_index
from admc.serve.compiling.address_deps import AddressIndex
from dsl.program import Side, Verb
from emitters.kubernetes import kubernetes_name, pod_labels

if TYPE_CHECKING:
    from admc.kubernetes.inject.needs import Needs
    from dsl.program import Port, Program
    from emitters.hops import Hop
    from solver.placement import Placement


class PortRow(NamedTuple):
    """A port of a service, with the names of the policies that the plan enforces on connections to it."""

    number: int
    target: int
    ingress: tuple[str, ...]
    """The policies that the ADM of the service enforces."""
    egress: tuple[str, ...]
    """The policies that the ADMs of its callers enforce."""


class ServiceRow(NamedTuple):
    namespace: str
    object: str
    """The name of its Kubernetes Service."""
    labels: Mapping[str, str]
    """The labels of its pods, for manifests without its Service."""
    needs: Needs
    ports: tuple[PortRow, ...]
    """Sorted by number."""
    guards: tuple[str, ...]
    """The guards that its ADM enforces on its outgoing calls, sorted. They hold only if no container of its pods
    bypasses the ADM (rule R7)."""
    rejecting: tuple[str, ...]
    """The other policies on its outgoing calls that reject requests, sorted. A call that bypasses the ADM bypasses
    them."""
    selected: tuple[str, ...]
    """The closed destinations whose NetworkPolicies select its pods by their labels, sorted. A closed destination is in
    its own row, too."""
    host_network: bool
    """Whether the program declares that its pods are on the network of their nodes."""


class PlanRows(NamedTuple):
    app: str
    services: Mapping[str, ServiceRow]


def plan_rows(program: Program, placement: Placement) -> PlanRows:
    index = AddressIndex(program, placement)
    needs = needs_of_index(program, index)
    enforced = _enforced(hop for hops in index.hops.values() for hop in hops)
    selected = _selected(program, placement)
    return PlanRows(
        program.app,
        {
            name: ServiceRow(
                service.namespace,
                kubernetes_name(name),
                pod_labels(service),
                needs[Place(service.namespace, name)],
                tuple(_port(name, port, enforced) for port in sorted(service.ports, key=lambda port: port.number)),
                tuple(sorted(enforced.guards.get(name, ()))),
                tuple(sorted(enforced.rejecting.get(name, ()))),
                tuple(sorted(selected.get(name, ()))),
                service.host_network,
            )
            for name, service in sorted(program.services.items())
        },
    )


class _Enforced(NamedTuple):
    at_ports: Mapping[tuple[str, int, Side], set[str]]
    """Destination, number and side -> policies."""
    guards: Mapping[str, set[str]]
    """Sender -> the guards at its egress."""
    rejecting: Mapping[str, set[str]]
    """Sender -> the other policies at its egress that reject requests."""


def _enforced(hops: Iterable[Hop]) -> _Enforced:
    at_ports: defaultdict[tuple[str, int, Side], set[str]] = defaultdict(set)
    guards: defaultdict[str, set[str]] = defaultdict(set)
    rejecting: defaultdict[str, set[str]] = defaultdict(set)
    for hop in hops:
        at_ports[hop.destination, hop.port.number, hop.side].update(policy.name for policy in hop.policies)
        if hop.side is Side.EGRESS:
            for policy in hop.policies:
                if policy.kind.guard:
                    guards[hop.service].add(policy.name)
                elif any(effect.verb is Verb.REJECTS for effect in policy.effects or ()):
                    rejecting[hop.service].add(policy.name)
    return _Enforced(at_ports, guards, rejecting)


def _port(name: str, port: Port, enforced: _Enforced) -> PortRow:
    ingress, egress = (
        tuple(sorted(enforced.at_ports.get((name, port.number, side), ()))) for side in (Side.INGRESS, Side.EGRESS)
    )
    return PortRow(port.number, port.target, ingress, egress)


def _selected(program: Program, placement: Placement) -> Mapping[str, set[str]]:
    """Service -> the closed destinations whose NetworkPolicies select its pods, as the destination or as a sender."""
    closed_by_service: defaultdict[str, set[str]] = defaultdict(set)
    targets = placement.closed_targets(program)
    for name in targets:
        closed_by_service[name].add(name)
    for call in program.calls:
        if call.port.target in targets.get(call.destination, ()):
            closed_by_service[call.source].add(call.destination)
    return closed_by_service
