"""Who a caller is, and where a port leads: what names of two programs have in common.

    program, pod or address -> names        program, program, port -> ports that lead to the same process

A caller is a pod with its labels, or an address outside the mesh; a name is what a program makes of it. Read in
docs/language.md and docs/kinds.md; nothing here knows the code that compares plans.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import External, Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Port, Program

STRANGER: Final = "stranger"
"""A caller that a program does not know."""
_ELSEWHERE: Final = ("198.51.100.7", "2001:db8:ffff::7")
"""Addresses that programs give to externals only by large ranges."""

Address = IPv4Address | IPv6Address
Labels = frozenset[tuple[str, str]]


class Pod(NamedTuple):
    namespace: str
    labels: Labels


Caller = Pod | Address


class Way(NamedTuple):
    """A port of a party: what a caller dials."""

    party: str
    port: Port


class Process(NamedTuple):
    """What a way leads to: a port of pods, or of hosts outside."""

    place: object
    port: int
    protocol: str


# ---- callers ----


def labels_of(service: Service) -> Labels:
    """Those that select its pods: `app` with its name, if the program gives none."""
    return frozenset((service.labels or {"app": service.name}).items())


def selects(service: Service, pod: Pod) -> bool:
    return service.namespace == pod.namespace and labels_of(service) <= pod.labels


def callers(base: Program, head: Program) -> Iterator[Caller]:
    """Pods of BASE, also as HEAD may label them, and addresses at the edges of every range."""
    yield from dict.fromkeys(_pods(base, head))
    yield from dict.fromkeys(_addresses(base, head))


def _pods(base: Program, head: Program) -> Iterator[Pod]:
    for name, service in base.services.items():
        yield Pod(service.namespace, labels_of(service))
        after = head.services.get(name)
        if after is not None and after.namespace == service.namespace:
            both = labels_of(service) | labels_of(after)
            if len(dict(both)) == len(both):
                yield Pod(after.namespace, both)


def _addresses(base: Program, head: Program) -> Iterator[Address]:
    yield from map(ip_address, _ELSEWHERE)
    for program in (base, head):
        for external in program.externals.values():
            for cidr in external.cidrs:
                network = ip_network(cidr, strict=False)
                first, last = int(network.network_address), int(network.broadcast_address)
                kind = type(network.network_address)
                for number in (first - 1, first, last, last + 1):
                    if 0 <= number < 2**network.max_prefixlen:
                        yield kind(number)


def names(program: Program, caller: Caller) -> tuple[str, ...]:
    """What a caller may be taken for."""
    if isinstance(caller, Pod):
        found: dict[str, None] = {}
        for name, service in program.services.items():
            if selects(service, caller):
                found |= dict.fromkeys(_unknown(program) if service.host_network else (name,))
        return tuple(found) or _unknown(program)
    owners: list[tuple[int, str]] = [
        (network.prefixlen, name)
        for name, external in program.externals.items()
        for network in (ip_network(cidr, strict=False) for cidr in external.cidrs)
        if network.version == caller.version and caller in network
    ]
    most = max((length for length, _ in owners), default=0)
    return tuple(dict.fromkeys(name for length, name in owners if length == most)) or _unknown(program)


class Known(NamedTuple):
    """What a program knows of a caller."""

    names: tuple[str, ...]
    """What it may be taken for."""
    on_a_node: bool
    """It is on the network of a node, whose traffic passes the NetworkPolicies of the pods there."""


def known(program: Program, caller: Caller) -> Known:
    if isinstance(caller, Pod):
        on_a_node = any(service.host_network for service in program.services.values() if selects(service, caller))
        return Known(names(program, caller), on_a_node)
    return Known(names(program, caller), on_a_node=False)


def _unknown(program: Program) -> tuple[str, ...]:
    """The externals without addresses, but for those that are only called."""
    calling = {call.source for call in program.calls}
    found = (
        name
        for name, external in program.externals.items()
        if not external.cidrs and (name in calling or not external.ports)
    )
    return tuple(found) or (STRANGER,)


def is_there(base: Program, head: Program, caller: Caller) -> bool:
    """Whether a pod of BASE is still there: a service goes with its pods, unless its name or its pods stay."""
    if not isinstance(caller, Pod):
        return True
    before = [name for name, service in base.services.items() if selects(service, caller)]
    return (
        not before
        or any(selects(service, caller) for service in head.services.values())
        or any(name in head.services or name in head.externals for name in before)
    )


# ---- destinations ----


def ways(program: Program) -> Iterator[Way]:
    parties: list[Service | External] = [*program.services.values(), *program.externals.values()]
    for party in parties:
        for port in party.ports:
            yield Way(party.name, port)


def followers(base: Program, head: Program, way: Way) -> Iterator[Way]:
    """Ways of HEAD that take the requests of a way of BASE: the same, and those that newly lead to its process."""
    for after in ways(head):
        same = (after.party, after.port.number) == (way.party, way.port.number)
        if same or (_leads_there(base, way, head, after) and not _led_there(base, way, after)):
            yield after


def _led_there(base: Program, way: Way, after: Way) -> bool:
    return any(
        (old.party, old.port.number) == (after.party, after.port.number) and _leads_there(base, way, base, old)
        for old in ways(base)
    )


def _leads_there(base: Program, way: Way, other: Program, after: Way) -> bool:
    """Whether some pod, or some host, of a way may be that of another way."""
    if way.party in base.services and after.party in other.services:
        one, two = base.services[way.party], other.services[after.party]
        if one.namespace != two.namespace or way.port.target != after.port.target:
            return False
        return labels_of(one) <= labels_of(two) or labels_of(two) <= labels_of(one)
    if way.party in base.externals and after.party in other.externals:
        before, then = base.externals[way.party], other.externals[after.party]
        return way.port.number == after.port.number and _share_hosts(before, then)
    return False


def _share_hosts(one: External, other: External) -> bool:
    if {*one.hosts} & {*other.hosts}:
        return True
    nets = [[ip_network(cidr, strict=False) for cidr in each.cidrs] for each in (one, other)]
    return any(first.version == second.version and first.overlaps(second) for first in nets[0] for second in nets[1])


def process(program: Program, name: str, port: Port) -> Process:
    """What answers on a port."""
    service = program.services.get(name)
    if service is not None:
        return Process((service.namespace, labels_of(service)), port.target, port.protocol.value)
    external = program.externals[name]
    place = (frozenset(external.hosts), frozenset(external.cidrs))
    return Process(place, port.number, port.protocol.value)
