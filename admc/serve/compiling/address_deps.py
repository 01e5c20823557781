"""Finds the ADMs whose configuration new addresses can change; the others are not emitted again.

    program + placement -> AddressIndex;  AddressIndex + old and new addresses -> services, or None for all of them
    program + placement -> needed_by: service -> services whose ADMs tell callers or destinations by its addresses

The result may have too many services, and never too few; a test compares it with emitting everything. An ADM depends on
the addresses of its own service, of the destinations of its egress hops, of the services to which these hops copy or
split requests, and of the callers that its ingress policies distinguish. If these callers include a network or all
unknown callers, the ADM depends on all addresses.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dsl.program import Protocol, Side
from emitters.addresses.index import AmbiguousCallersError, includes_unknown, unlocated_externals
from emitters.envoy.matching.callers import covers_all_callers
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from dsl.program import Policy, Program
    from emitters.addresses import Addresses
    from emitters.hops import Hop
    from solver.placement import Placement


class AddressIndex:
    """The dependencies of one placement."""

    def __init__(self, program: Program, placement: Placement) -> None:
        self._program = program
        self._unknown_callers = unlocated_externals(program)
        self._readers: defaultdict[str, set[str]] = defaultdict(set)
        """Name -> services whose ADMs depend on its addresses, but for its own ADM, which always does."""
        self._load_balancers: defaultdict[str, set[str]] = defaultdict(set)
        """Name -> services whose ADMs may choose among its pods."""
        self._depend_on_all: set[str] = set()
        """Services whose ADMs depend on all addresses."""
        self._distinguish_all: set[str] = set()
        """Those of them whose ADMs distinguish callers by all addresses."""
        self._outside: defaultdict[int, set[str]] = defaultdict(set)
        """Port -> those of them whose ADMs match connections to an outside party at it. A service that is dialled at
        the same port may be inside of its network."""
        self._destinations: defaultdict[str, set[str]] = defaultdict(set)
        """Destination -> services whose ADMs match connections to it by its addresses."""
        self._callers: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        """Destination and port -> its declared callers."""
        for call in program.calls:
            self._callers[call.destination, call.port.number].add(call.source)
        self.hops = hops(program, placement)
        for service, service_hops in self.hops.items():
            for hop in service_hops:
                self._add(service, hop)

    def affected(self, old: Addresses, new: Addresses) -> frozenset[str] | None:
        """Return the services whose configuration may change; None for all services."""
        changed = frozenset(
            name
            for before, after in ((old.services, new.services), (old.externals, new.externals))
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name)
        )
        if not changed:
            return changed
        # A pod whose readiness changes keeps its address: only ADMs that choose among the pods are affected.
        ready_changed = frozenset(name for name in changed if _same_addresses(old, new, name))
        changed -= ready_changed
        load_balancers = {service for name in ready_changed for service in self._load_balancers[name]}
        if not changed:
            return frozenset(load_balancers)
        if old.egress != new.egress or _ipv6_differs(old, new, changed):
            return None
        affected = self._depend_on_all | load_balancers
        for name in changed | _sharing(changed, old) | _sharing(changed, new):
            affected |= self._readers[name]
            if name in self.hops:
                affected.add(name)
        for name, services in self._destinations.items():
            # A connection to no known address may be one to a destination without addresses.
            if not _has_addresses(old, name) or not _has_addresses(new, name):
                affected |= services
        return frozenset(affected)

    def needed_by(self) -> Mapping[str, frozenset[str]]:
        """See the function `needed_by`."""
        needed = {}
        for name, service in self._program.services.items():
            ports = {number for port in service.ports for number in (port.number, port.target)}
            outside = (self._outside[port] for port in ports & self._outside.keys())
            needed[name] = frozenset(self._readers[name] | self._distinguish_all).union(*outside)
        return needed

    def _add(self, service: str, hop: Hop) -> None:
        for name in _names_in_arguments(hop):
            self._readers[name].add(service)
            self._load_balancers[name].add(service)
            if name in self._program.externals:
                self._distinguish(service)
        if hop.side is Side.EGRESS:
            if hop.destination in self._program.externals:
                self._depend_on_all.add(service)
                for port in (hop.port.number, hop.port.target):
                    self._outside[port].add(service)
            self._readers[hop.destination].add(service)
            self._load_balancers[hop.destination].add(service)
            self._destinations[hop.destination].add(service)
            return
        for policy in hop.policies:
            some = not covers_all_callers(self._program, policy)
            if hop.port.protocol is Protocol.TCP and (some or policy.kind.guard):
                self._distinguish(service)
            elif some:
                self._add_callers(service, policy)
                # While a caller has no address, the addresses of the others decide which connections are refused.
                for name in self._callers[service, hop.port.number]:
                    self._readers[name].add(service)

    def _add_callers(self, service: str, policy: Policy) -> None:
        if self._applies_to_unknown_callers(policy):
            self._distinguish(service)
            return
        for name in policy.sources:
            if name in self._program.externals:
                self._distinguish(service)
            self._readers[name].add(service)

    def _distinguish(self, service: str) -> None:
        self._depend_on_all.add(service)
        self._distinguish_all.add(service)

    def _applies_to_unknown_callers(self, policy: Policy) -> bool:
        try:
            return includes_unknown(self._unknown_callers, policy.sources, policy.open_sources)
        except AmbiguousCallersError:
            return True


def needed_by(program: Program, placement: Placement) -> Mapping[str, frozenset[str]]:
    """Return service -> the services whose ADMs recognise callers or destinations by its addresses. Until these ADMs
    have the address of a pod of the service, they may treat its requests as those of an unknown caller, and connections
    to it may pass without the policies of their senders. The result may have too many services, and never too few."""
    return AddressIndex(program, placement).needed_by()


def _names_in_arguments(hop: Hop) -> Iterator[str]:
    """Yield the services in the arguments of a hop's policies: targets of copies, authorization services, admitted
    callers."""
    for policy in hop.policies:
        for value in policy.arguments.values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, str):
                    yield item.partition(":")[0]


def _sharing(changed: frozenset[str], addresses: Addresses) -> set[str]:
    """Return the other parties that share an address with `changed`, and so cannot be distinguished from them."""
    owned = {text for name in changed for text in _addresses_of(addresses, name)}
    names = {
        name
        for name, located in addresses.services.items()
        if not owned.isdisjoint(located.pods) or not owned.isdisjoint(located.addresses)
    }
    return names.union(name for name, texts in addresses.externals.items() if not owned.isdisjoint(texts))


def _same_addresses(old: Addresses, new: Addresses, name: str) -> bool:
    before, after = old.services.get(name), new.services.get(name)
    if before is None or after is None:
        return False
    return (before.addresses, before.pods) == (after.addresses, after.pods)


def _addresses_of(addresses: Addresses, name: str) -> tuple[str, ...]:
    return (*addresses.service_addresses(name), *addresses.pod_addresses(name))


def _has_addresses(addresses: Addresses, name: str) -> bool:
    return bool(_addresses_of(addresses, name))


def _ipv6_differs(old: Addresses, new: Addresses, names: Collection[str]) -> bool:
    """Whether one state has an IPv6 address and the other state has none. Only `names` have other addresses."""
    texts = (text for addresses in (old, new) for name in names for text in _addresses_of(addresses, name))
    return any(":" in text for text in texts) and _has_ipv6(old) != _has_ipv6(new)


def _has_ipv6(addresses: Addresses) -> bool:
    services = (text for located in addresses.services.values() for part in located for text in part)
    return any(":" in text for text in services) or any(
        ":" in text for part in addresses.externals.values() for text in part
    )
