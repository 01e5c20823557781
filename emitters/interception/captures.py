"""Which connections an ADM needs to see, as data.

A sidecar that takes everything in and out of a pod puts itself in the way of traffic that no policy is about. So each
ADM gets a list of exactly the ports and destinations that have an enforcement, with the policies that are the reason:

    decisions at ingress -> [IngressCapture]   by port of the process
    decisions at egress  -> [EgressCapture]    by address and port, or by port where no address is stable

`rules` turns the list into packet filter rules. `docs/interception.md` says what is and what is not captured.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dsl.program import Call, Program, Service, Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from solver.placement import Decision, Placement

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Family(StrEnum):
    IPV4 = "ipv4"
    IPV6 = "ipv6"

    @property
    def version(self) -> int:
        return 4 if self is Family.IPV4 else 6


class Reached(StrEnum):
    """How the caller addresses the destination of a captured connection."""

    SERVICE_ADDRESS = "service address"
    POD_ADDRESS = "pod address"
    PORT = "port"
    """No address is stable (headless, registry, outside name): every address on the port is captured, and what turns
    out to be somebody else's connection passes through untouched."""


class KnownAddresses(Protocol):
    """What interception asks of `emitters.addresses.Addresses`: textual addresses, IPv4 and IPv6, in any order."""

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
    """A health check that must not meet the policies: the one node that asks, and the target port that it asks."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Interception:
    """All that one ADM takes out of the direct path."""

    service: str
    ingress: tuple[IngressCapture, ...]
    """Sorted by port."""
    egress: tuple[EgressCapture, ...]
    """Sorted by destination, way of reaching it, network, port."""
    refused_to_self: tuple[int, ...] = ()
    """Target ports at which a call of the service to itself has an egress enforcement. Such a call to the pod's own
    address is refused where no capture covers that address."""
    probes: tuple[Probe, ...] = ()
    """Sorted; only those at a port that is captured, as all others meet no ADM anyway."""


class ProbeError(ValueError):
    """A probe that cannot be let past the ADM safely; the message says why and what to do."""


def interceptions(
    program: Program,
    placement: Placement,
    addresses: KnownAddresses,
    *,
    probes: Mapping[str, Iterable[Probe]] | None = None,
) -> tuple[Interception, ...]:
    """One `Interception` for each ADM of the placement, sorted by service.

    `probes` names for each service the health checks that by-pass its ADM. Raises `ProbeError` where a by-pass would
    let others by as well.
    """
    ingress: dict[str, list[Decision]] = {}
    egress: dict[str, list[tuple[Decision, Call]]] = {}
    for decision in placement.decisions:
        if Side.INGRESS in decision.sides:
            ingress.setdefault(decision.destination, []).append(decision)
        if Side.EGRESS in decision.sides:
            for index in decision.calls:
                call = program.calls[index]
                egress.setdefault(call.source, []).append((decision, call))
    position = {policy.name: index for index, policy in enumerate(program.policies)}
    found = []
    for adm in placement.adms:
        service = program.services[adm.service]
        inbound = _ingress(service, ingress.get(service.name, ()), position)
        outbound = egress.get(service.name, ())
        found.append(
            Interception(
                service=service.name,
                ingress=inbound,
                egress=_egress(program, outbound, addresses, position),
                refused_to_self=tuple(
                    sorted({call.port.target for _, call in outbound if call.destination == service.name})
                ),
                probes=_probes(program, service, inbound, (probes or {}).get(service.name, ())),
            )
        )
    return tuple(found)


def _ingress(
    service: Service, decisions: Iterable[Decision], position: Mapping[str, int]
) -> tuple[IngressCapture, ...]:
    policies: dict[int, set[str]] = {}
    for decision in decisions:
        for port in service.ports:
            if port.number in decision.ports:
                policies.setdefault(port.target, set()).add(decision.policy)
    return tuple(IngressCapture(port, _ordered(names, position)) for port, names in sorted(policies.items()))


def _egress(
    program: Program,
    enforced: Iterable[tuple[Decision, Call]],
    addresses: KnownAddresses,
    position: Mapping[str, int],
) -> tuple[EgressCapture, ...]:
    policies: dict[tuple[str, Reached, Network | None, int], set[str]] = {}
    for decision, call in enforced:
        for reached, network, port in _ways(program, call, addresses):
            policies.setdefault((call.destination, reached, network, port), set()).add(decision.policy)
    return tuple(
        EgressCapture(*key, _ordered(names, position))
        for key, names in sorted(policies.items(), key=lambda item: _capture_key(item[0]))
    )


def _ways(program: Program, call: Call, addresses: KnownAddresses) -> Iterable[tuple[Reached, Network | None, int]]:
    """Every way in which the process can dial the destination of a call."""
    stable = _networks(addresses.service_addresses(call.destination))
    if not stable:
        # Nobody translates ports here: a process dials what it listens on, or what a registry or a user wrote down.
        return [(Reached.PORT, None, port) for port in sorted({call.port.number, call.port.target})]
    ways: list[tuple[Reached, Network | None, int]] = [
        (Reached.SERVICE_ADDRESS, network, call.port.number) for network in stable
    ]
    pods = _networks(addresses.pod_addresses(call.destination)) if call.destination in program.services else ()
    ways.extend((Reached.POD_ADDRESS, network, call.port.target) for network in pods)
    return ways


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(sorted({ipaddress.ip_network(text) for text in texts}, key=_network_key))


def _network_key(network: Network | None) -> tuple[int, int, int]:
    if network is None:
        return (0, 0, 0)
    return (network.version, int(network.network_address), network.prefixlen)


def _capture_key(key: tuple[str, Reached, Network | None, int]) -> tuple[str, int, tuple[int, int, int], int]:
    destination, reached, network, port = key
    return destination, list(Reached).index(reached), _network_key(network), port


def _ordered(names: Iterable[str], position: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(names, key=position.__getitem__))


def _probes(
    program: Program, service: Service, captured: Iterable[IngressCapture], probes: Iterable[Probe]
) -> tuple[Probe, ...]:
    ports = {capture.port for capture in captured}
    outside = {
        call.port.target: call.source
        for call in program.calls
        if call.destination == service.name and call.source in program.externals
    }
    kept = set()
    for probe in probes:
        where = f"the probe of `{service.name}` from `{probe.address}`"
        try:
            address = ipaddress.ip_address(probe.address)
        except ValueError:
            message = (
                f"{where} needs the address of one node, not a name or a range: a range would let others by as well"
            )
            raise ProbeError(message) from None
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            raise ProbeError(f"{where} needs the address of a node, and no node has this one")
        if probe.port not in {port.target for port in service.ports}:
            raise ProbeError(f"{where} asks port {probe.port}, which is no target port of `{service.name}`")
        if probe.port not in ports:
            continue
        if probe.port in outside:
            raise ProbeError(
                f"{where} cannot by-pass the ADM at port {probe.port}: `{outside[probe.port]}` calls that port from "
                "outside, and address translation can give its requests the node's address; probe another port"
            )
        kept.add(Probe(str(address), probe.port))
    return tuple(sorted(kept, key=lambda probe: (_network_key(ipaddress.ip_network(probe.address)), probe.port)))
