"""The injection document: for each service, the redirection, labels and policies of its pods.

    plans --injection_document--> InjectionDocument --to_json--> /injection.json --from_json--> admc inject

`admc inject` makes the document from a plan, or requests it from a server.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from admc.serve.compiling.address_deps import AddressIndex
from dsl.documents import Count, DocumentError, plain, read, record
from dsl.program import Side, Verb
from emitters.interception.pod import pod_captures
from emitters.kubernetes import kubernetes_name, pod_labels

if TYPE_CHECKING:
    from dsl.program import Port, Program
    from emitters.hops import Hop
    from solver.placement import Placement


@record
class Captured:
    """The ports whose connections the rules of a pod redirect, sorted."""

    ingress: tuple[Count, ...]
    egress: tuple[Count, ...]


@record
class PortRow:
    """A port of a service, with the names of the policies that the plans enforce on connections to it."""

    number: Count
    target: Count
    ingress: tuple[str, ...]
    """The policies that the ADM of the service enforces."""
    egress: tuple[str, ...]
    """The policies that the ADMs of its callers enforce."""


@record
class ServiceRow:
    namespace: str
    object: str
    """The name of its Kubernetes Service."""
    labels: Mapping[str, str]
    """The labels of its pods, for manifests without its Service."""
    captures: Captured | None
    """None for a service without an ADM."""
    awaited: bool
    """Whether some ADM needs the addresses of its pods. Then a pod waits at its start until the ADM has its address."""
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


@record
class InjectionDocument:
    schema_version: Literal[2]
    app: str
    installation: str
    """Empty where the server follows files."""
    server: str
    """`HOST:PORT` of its xDS port, as pods dial it; empty where the server follows files."""
    services: Mapping[str, ServiceRow]


class InjectionFormatError(Exception):
    """The text is not an injection document that this admc can read."""


def injection_document(
    plans: Iterable[tuple[Program, Placement]],
    *,
    installation: str = "",
    server: str = "",
    objects: Mapping[str, str] | None = None,
) -> InjectionDocument:
    """The document for these plans. Its services are those of the last plan, which is the newest.

    In the middle of a rollout a pod needs the redirection of the old and of the new plan. `objects` is service -> the
    name of its Kubernetes Service, for services where this is not the usual name.
    """
    placed = tuple(plans)
    newest = placed[-1][0]
    indexes = [AddressIndex(program, placement) for program, placement in placed]
    needed = [index.needed_by() for index in indexes]
    enforced = _enforced(hop for index in indexes for hops in index.hops.values() for hop in hops)
    selected = _selected(placed)
    rows = {}
    for name, service in sorted(newest.services.items()):
        own_hops = [index.hops[name] for index in indexes if name in index.hops]
        rows[name] = ServiceRow(
            service.namespace,
            (objects or {}).get(name) or kubernetes_name(name),
            pod_labels(service),
            _captured([hop for hops in own_hops for hop in hops]) if own_hops else None,
            any(needed_in_plan.get(name) for needed_in_plan in needed),
            tuple(_port(name, port, enforced) for port in sorted(service.ports, key=lambda port: port.number)),
            tuple(sorted(enforced.guards.get(name, ()))),
            tuple(sorted(enforced.rejecting.get(name, ()))),
            tuple(sorted(selected.get(name, ()))),
            service.host_network,
        )
    return InjectionDocument(2, newest.app, installation, server, rows)


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


def _selected(plans: Iterable[tuple[Program, Placement]]) -> Mapping[str, set[str]]:
    """Service -> the closed destinations whose NetworkPolicies select its pods, as the destination or as a sender."""
    closed_by_service: defaultdict[str, set[str]] = defaultdict(set)
    for program, placement in plans:
        targets = placement.closed_targets(program)
        for name in targets:
            closed_by_service[name].add(name)
        for call in program.calls:
            if call.port.target in targets.get(call.destination, ()):
                closed_by_service[call.source].add(call.destination)
    return closed_by_service


def _captured(hops: list[Hop]) -> Captured:
    captures = pod_captures(hops)
    return Captured(tuple(sorted(captures.ingress)), tuple(sorted(captures.egress)))


def to_json(document: InjectionDocument) -> bytes:
    return (json.dumps(plain(document), indent=1) + "\n").encode("ascii")


def from_json(content: bytes) -> InjectionDocument:
    """Read the document of a server. Raises `InjectionFormatError`."""
    try:
        return read(InjectionDocument, content)
    except DocumentError as error:
        raise InjectionFormatError(error.message) from error
