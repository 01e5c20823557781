"""The connections that are redirected to an ADM, as data.

A sidecar that takes all traffic of a pod also delays traffic without a policy. So each ADM gets a list of exactly the
ports and destinations that have an enforcement, with the policies that are the reason:

    decisions at ingress -> [IngressCapture]   by port of the process
    decisions at egress  -> [EgressCapture]    by address and port, or by port where no address is stable

`rules` turns the list into packet filter rules.
`docs/interception.md` lists the connections that are captured, and those that are not.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Side
from emitters.addresses.index import literal
from emitters.errors import EmitError
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dsl.program import Program, Service
    from emitters.hops import Hop
    from solver.placement import Placement

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Reached(StrEnum):
    """How the caller addresses the destination of a captured connection."""

    SERVICE_ADDRESS = "service address"
    POD_ADDRESS = "pod address"
    PORT = "port"
    """No address is stable (headless, registry, outside name): every address on the port is captured, and a connection
    to another destination passes through."""


class KnownAddresses(Protocol):
    """The part of `emitters.addresses.Addresses` that interception needs: addresses as texts, in any order."""

    def service_addresses(self, name: str) -> Sequence[str]: ...

    def pod_addresses(self, name: str) -> Sequence[str]: ...


class IngressCapture(NamedTuple):
    """Connections to one port of the service's process. `port` is the target port: the one a pod sees."""

    port: int
    policies: tuple[str, ...]
    """Names in declared order."""


class EgressCapture(NamedTuple):
    """Connections to one destination that the service opens. `network` is None where the port alone decides."""

    destination: str
    reached: Reached
    network: Network | None
    port: int
    policies: tuple[str, ...]
    """Names in declared order."""


class Probe(NamedTuple):
    """A health check that must not meet the policies: the address of the node, and the target port."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Interception:
    """All connections of a service that are redirected to its ADM."""

    app: str
    service: str
    ingress: tuple[IngressCapture, ...]
    """Sorted by port."""
    egress: tuple[EgressCapture, ...]
    """Sorted by destination, way of reaching it, network, port."""
    refused_to_self: tuple[int, ...] = ()
    """Target ports at which a call of the service to itself has an egress enforcement. Such a call to the pod's own
    address is refused where no capture covers that address."""
    probes: tuple[Probe, ...] = ()
    """Sorted; only those at a captured port, as all others meet no ADM."""


def interceptions(
    program: Program,
    placement: Placement,
    addresses: KnownAddresses,
    *,
    probes: Mapping[str, Iterable[Probe]] | None = None,
) -> tuple[Interception, ...]:
    """One `Interception` for each ADM of the placement, sorted by service.

    `probes`: service -> the health checks that by-pass its ADM. Raises `EmitError` if a probe has no address of one
    node or no target port of the service, or if other connections could use such a by-pass, too.
    """
    position = {policy.name: index for index, policy in enumerate(program.policies)}
    return tuple(
        interception(program, name, enforced, addresses, position, (probes or {}).get(name, ()))
        for name, enforced in hops(program, placement).items()
    )


def interception(
    program: Program,
    name: str,
    taken: Iterable[Hop],
    addresses: KnownAddresses,
    position: Mapping[str, int],
    probes: Iterable[Probe] = (),
) -> Interception:
    """The connections that are redirected to the ADM of a service for these hops. `position` is the index of each
    policy in the program. Raises `EmitError` as `interceptions` does."""
    taken = tuple(taken)
    inbound = _ingress((hop for hop in taken if hop.side is Side.INGRESS), position)
    outbound = [hop for hop in taken if hop.side is Side.EGRESS]
    return Interception(
        app=program.app,
        service=name,
        ingress=inbound,
        egress=_egress(program, outbound, addresses, position),
        refused_to_self=tuple(sorted({hop.port.target for hop in outbound if hop.destination == name})),
        probes=_probes(program, program.services[name], inbound, probes),
    )


def _ingress(enforced: Iterable[Hop], position: Mapping[str, int]) -> tuple[IngressCapture, ...]:
    # Two ports of a service may lead to one port of its process, where the pod cannot tell them apart.
    policies: dict[int, set[str]] = {}
    for hop in enforced:
        policies.setdefault(hop.port.target, set()).update(policy.name for policy in hop.policies)
    return tuple(
        IngressCapture(port, tuple(sorted(names, key=position.__getitem__))) for port, names in sorted(policies.items())
    )


def _egress(
    program: Program, enforced: Iterable[Hop], addresses: KnownAddresses, position: Mapping[str, int]
) -> tuple[EgressCapture, ...]:
    policies: dict[tuple[str, Reached, Network | None, int], set[str]] = {}
    for hop in enforced:
        for reached, network, port in _ways(program, hop, addresses):
            key = (hop.destination, reached, network, port)
            policies.setdefault(key, set()).update(policy.name for policy in hop.policies)
    return tuple(
        EgressCapture(*key, tuple(sorted(names, key=position.__getitem__)))
        for key, names in sorted(policies.items(), key=lambda item: _capture_key(item[0]))
    )


def _ways(program: Program, hop: Hop, addresses: KnownAddresses) -> Iterable[tuple[Reached, Network | None, int]]:
    """Every way in which the process can dial the destination."""
    stable = _stable(program, hop.destination, addresses)
    if not stable:
        # No network translates these ports: callers dial the port that the process listens on, or a configured one.
        return [(Reached.PORT, None, port) for port in sorted({hop.port.number, hop.port.target})]
    ways: list[tuple[Reached, Network | None, int]] = [
        (Reached.SERVICE_ADDRESS, network, hop.port.number) for network in stable
    ]
    pods = _networks(addresses.pod_addresses(hop.destination))
    ways.extend((Reached.POD_ADDRESS, network, hop.port.target) for network in pods)
    return ways


def _stable(program: Program, destination: str, addresses: KnownAddresses) -> tuple[Network, ...]:
    """The stable addresses of a destination; none where a name or a registry may give another address later."""
    external = program.externals.get(destination)
    if external is None:
        return _networks(addresses.service_addresses(destination))
    try:
        return _networks([*external.hosts, *external.cidrs])
    except ValueError:
        return ()


def original_destinations(program: Program, hop: Hop, addresses: KnownAddresses) -> dict[int, tuple[Network, ...]]:
    """Port dialled -> the networks of the captured connections that belong to an egress hop; both in canonical order.

    A capture by port also redirects connections to other destinations, which the listener tells apart by these
    networks. If no address is known, there is no port. Only a hop to an outside party may then be enforced, if it takes
    the port as a whole (`hop_addresses.whole_ports`).
    """
    known: dict[int, set[Network]] = {}
    for reached, network, port in _ways(program, hop, addresses):
        if network is not None:
            known.setdefault(port, set()).add(network)
        elif reached is Reached.PORT:
            external = program.externals.get(hop.destination)
            listed = () if external is None else (*literal(external.hosts), *external.cidrs)
            texts = (*listed, *addresses.service_addresses(hop.destination), *addresses.pod_addresses(hop.destination))
            known.setdefault(port, set()).update(_networks(texts))
    return {port: tuple(sorted(networks, key=_network_key)) for port, networks in sorted(known.items()) if networks}


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(sorted({ipaddress.ip_network(text, strict=False) for text in texts}, key=_network_key))


def _network_key(network: Network | None) -> tuple[int, int, int]:
    if network is None:
        return (0, 0, 0)
    return (network.version, int(network.network_address), network.prefixlen)


def _capture_key(key: tuple[str, Reached, Network | None, int]) -> tuple[str, int, tuple[int, int, int], int]:
    destination, reached, network, port = key
    return destination, list(Reached).index(reached), _network_key(network), port


def _probes(
    program: Program, service: Service, captured: Iterable[IngressCapture], probes: Iterable[Probe]
) -> tuple[Probe, ...]:
    probes = tuple(probes)
    if not probes:
        return ()
    ports = {capture.port for capture in captured}
    outside = {
        call.port.target: call.source
        for call in program.calls
        if call.destination == service.name and call.source in program.externals
    }
    findings = Diagnostics()
    kept = set()
    for probe in probes:
        cause = hint = None
        node = _node_address(probe.address)
        if node is None:
            cause = f"`{probe.address}` is not the address of one node, and a name or a range would let others by"
        elif probe.port not in {port.target for port in service.ports}:
            cause = f"{probe.port} is no target port of `{service.name}`"
        elif probe.port in ports and probe.port in outside:
            cause = (
                f"`{outside[probe.port]}` calls that port from outside, and address translation can give its requests "
                "the node's address"
            )
            hint = "probe another port"
        if cause is not None:
            message = f"the probe of `{service.name}` at port {probe.port} cannot by-pass its ADM"
            findings.error("ADM791", message, service.span, cause=cause, hint=hint)
        elif probe.port in ports:
            kept.add(Probe(str(node), probe.port))
    if findings.has_errors:
        raise EmitError(findings.items)
    return tuple(sorted(kept, key=lambda probe: (_network_key(ipaddress.ip_network(probe.address)), probe.port)))


def _node_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    scoped = isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None
    wrong = address.is_loopback or address.is_unspecified or address.is_multicast or scoped
    return None if wrong else address
