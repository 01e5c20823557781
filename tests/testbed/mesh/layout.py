"""Where everything is: one namespace for each replica and each outside party, all addresses fixed by the program.

    program -> [Layout] -> emitters.addresses.Addresses, what the agent builds, what the node translates

| network | is |
|---|---|
| `10.1.0.0/16`, `fd00:1::/64` | pods, by service name and replica; `10.1.0.1` and `fd00:1::1` are the node |
| `10.2.0.0/16`, `fd00:2::/64` | service addresses, in the order of names |
| `10.3.N.0/24`, `fd00:3:N::/64` | the N-th outside party, unless the program says where it is |

The same program has the same addresses on every machine and in every run.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from emitters.addresses import Addresses, ServiceAddresses
from emitters.interception.tables import Family
from tests.testbed.mesh.errors import LayoutError

if TYPE_CHECKING:
    from dsl.program import External, Port, Program

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NODE = "node"
"""The namespace of the switch: it routes, translates service addresses and closes destinations."""
NODE_ADDRESSES = {Family.IPV4: "10.1.0.1", Family.IPV6: "fd00:1::1"}
PODS: dict[Family, Network] = {
    Family.IPV4: ipaddress.ip_network("10.1.0.0/16"),
    Family.IPV6: ipaddress.ip_network("fd00:1::/64"),
}
SERVICES: dict[Family, Network] = {
    Family.IPV4: ipaddress.ip_network("10.2.0.0/16"),
    Family.IPV6: ipaddress.ip_network("fd00:2::/64"),
}
FIRST_POD = 2
MOST_PODS = 1000
"""What one machine could hope to run; the address plan has room for more."""
MOST_OUTSIDE = 250


@dataclass(frozen=True, slots=True)
class Listening:
    """A port of a party's process: callers know `number`, the process has `target`."""

    number: int
    target: int
    protocol: str


@dataclass(frozen=True, slots=True)
class Place:
    """One network namespace: a replica of a service, or an outside party."""

    name: str
    """`frontend/0`, or the outside party's name."""
    party: str
    addresses: tuple[str, ...]
    """What it sends from and answers at: first IPv4, then IPv6, as far as it has them."""
    networks: tuple[str, ...]
    """What is routed to it: its addresses, or the networks of an outside party."""
    ports: tuple[Listening, ...]
    on_node: bool = False
    """It shares the node's namespace (`host_network`)."""

    def address(self, family: Family) -> str | None:
        """Its own address in one family."""
        return next((each for each in self.addresses if ipaddress.ip_address(each).version == family.version), None)


@dataclass(frozen=True)
class Layout:
    """Everything that has an address."""

    program: Program
    places: tuple[Place, ...]
    """Pods in the order of service and replica, then outside parties."""
    headless: frozenset[str] = frozenset()
    families: tuple[Family, ...] = tuple(Family)

    @cached_property
    def by_name(self) -> dict[str, Place]:
        return {place.name: place for place in self.places}

    def of(self, party: str) -> tuple[Place, ...]:
        """The namespaces of a service (one for each replica) or of an outside party."""
        return tuple(place for place in self.places if place.party == party)

    def service_address(self, name: str, family: Family) -> str | None:
        """What callers of a service dial; None for a headless one."""
        return self._service_addresses.get((name, family))

    @cached_property
    def _service_addresses(self) -> dict[tuple[str, Family], str]:
        return {
            (name, family): str(SERVICES[family].network_address + index)
            for index, name in enumerate(sorted(self.program.services), start=1)
            for family in self.families
            if name not in self.headless
        }

    @cached_property
    def addresses(self) -> Addresses:
        """The same, as the emitters want it."""
        services = {}
        for name in self.program.services:
            dialled = tuple(a for family in Family if (a := self.service_address(name, family)) is not None)
            services[name] = ServiceAddresses(dialled, _sorted(a for place in self.of(name) for a in place.addresses))
        externals = {
            name: _sorted(network for place in self.of(name) for network in place.networks)
            for name in self.program.externals
        }
        return Addresses(services, externals)


def layout(program: Program, headless: Collection[str] = (), families: Collection[Family] = tuple(Family)) -> Layout:
    """The plan for one program, in one or both families. Raises `LayoutError` where it does not fit."""
    pods = sum(service.replicas for service in program.services.values() if not service.host_network)
    if pods > MOST_PODS or len(program.externals) > MOST_OUTSIDE:
        raise LayoutError(
            f"`{program.app}` has {pods:,} pods and {len(program.externals):,} outside parties; the bed starts at most "
            f"{MOST_PODS:,} and {MOST_OUTSIDE}"
        )
    places = []
    number = FIRST_POD
    for name, service in sorted(program.services.items()):
        ports = _ports(service.ports)
        if service.host_network:
            own = tuple(NODE_ADDRESSES[family] for family in families)
            places.append(Place(f"{name}/0", name, own, own, ports, on_node=True))
            continue
        for replica in range(service.replicas):
            own = tuple(str(PODS[family].network_address + number) for family in families)
            places.append(Place(f"{name}/{replica}", name, own, own, ports))
            number += 1
    for index, (name, external) in enumerate(sorted(program.externals.items()), start=1):
        addresses, networks = _outside(external, index, families)
        places.append(Place(name, name, addresses, networks, _ports(external.ports)))
    return Layout(program, tuple(places), frozenset(headless), tuple(families))


def uplinks(plan: Layout) -> dict[str, int]:
    """By which place in the pods' networks the switch reaches each namespace: a pod's own, or one between the switch
    and an outside party."""
    pods = [place.name for place in plan.places if place.party in plan.program.services and not place.on_node]
    outside = [place.name for place in plan.places if place.party in plan.program.externals]
    return {name: number for number, name in enumerate([*pods, *outside], start=FIRST_POD)}


def uplink(number: int, family: Family) -> str:
    """The address there."""
    return str(PODS[family].network_address + number)


def _ports(ports: Iterable[Port]) -> tuple[Listening, ...]:
    """One for each socket: two ports may lead to one."""
    found: dict[int, Listening] = {}
    for port in sorted(ports, key=lambda port: port.number):
        found.setdefault(port.target, Listening(port.number, port.target, port.protocol.value))
    return tuple(found.values())


def _outside(external: External, index: int, families: Collection[Family]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Addresses and networks of an outside party: where the program says, else in the bed's own plan."""
    said = [ipaddress.ip_network(text, strict=False) for text in external.cidrs]
    for host in external.hosts:
        try:
            said.append(ipaddress.ip_network(host))
        except ValueError:
            continue  # a name: the bed chooses the address that it stands for
    if not said:
        if external.ports:  # it is called: its address is one, not a network
            said = [ipaddress.ip_network(f"10.3.{index}.1/32"), ipaddress.ip_network(f"fd00:3:{index:x}::1/128")]
        else:
            said = [ipaddress.ip_network(f"10.3.{index}.0/24"), ipaddress.ip_network(f"fd00:3:{index:x}::/64")]
    said = [network for network in said if any(network.version == family.version for family in families)]
    addresses = []
    for family in Family:
        for network in said:
            if network.version == family.version:
                addresses.append(str(_first(external, network)))
                break
    return tuple(addresses), tuple(str(network) for network in said)


def _first(external: External, network: Network) -> Address:
    """The first address of a network that is not the bed's own."""
    candidate: Address = network.network_address + (1 if network.num_addresses > 1 else 0)
    if network.prefixlen == 0:  # everywhere: not from the addresses that mean something else
        candidate = ipaddress.ip_address("198.51.100.1" if network.version == 4 else "2001:db8::1")
    for own in sorted([*PODS.values(), *SERVICES.values()], key=str):
        if candidate in own:
            candidate = own.broadcast_address + 1
    if candidate not in network:
        raise LayoutError(
            f"`{external.name}` is said to be in {network}, which lies inside the bed's own networks; "
            f"use another network in programs that run here"
        )
    return candidate


def _sorted(texts: Iterable[str]) -> tuple[str, ...]:
    found = {ipaddress.ip_network(text) for text in texts}
    ordered = sorted(found, key=lambda each: (each.version, int(each.network_address), each.prefixlen))
    return tuple(str(each.network_address) if each.num_addresses == 1 else str(each) for each in ordered)
