"""Which ADMs other addresses can change: what need not be emitted again when a pod comes or goes.

    program + placement -> Index;  Index + old and new addresses -> services, or None for all of them

It may name too many and never too few: that is tested against emitting everything. An ADM depends on its own service,
on the destinations of its egress hops and whom these are copied or split to, and on the callers that its ingress
policies tell apart. Where a network or everybody unknown is among those, it depends on the addresses of all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dsl.program import Protocol, Side
from emitters.envoy.matching.callers import covers_all_callers
from emitters.addresses.index import AmbiguousCallersError, unlocated_externals, includes_unknown
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dsl.program import Policy, Program
    from emitters.addresses import Addresses
    from emitters.hops import Hop
    from solver.placement import Placement


class Index:
    """See the module."""

    def __init__(self, program: Program, placement: Placement) -> None:
        self._program = program
        self._strangers = unlocated_externals(program)
        self._readers: defaultdict[str, set[str]] = defaultdict(set)
        """Name -> the services whose ADMs depend on its addresses."""
        self._choosers: defaultdict[str, set[str]] = defaultdict(set)
        """Name -> the services whose ADMs may choose among its pods."""
        self._wide: set[str] = set()
        """Services whose ADMs depend on the addresses of all."""
        self._destinations: defaultdict[str, set[str]] = defaultdict(set)
        """Service called -> the services whose ADMs tell calls to it by its addresses."""
        self._callers: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        """Service called and its port -> who declares to call it."""
        for call in program.calls:
            self._callers[call.destination, call.port.number].add(call.source)
        self.hops = hops(program, placement)
        for service, found in self.hops.items():
            self._readers[service].add(service)
            for hop in found:
                self._add(service, hop)

    def affected(self, old: Addresses, new: Addresses) -> frozenset[str] | None:
        """The services whose ADMs may be told something else; None: all."""
        changed = frozenset(
            name
            for before, after in ((old.services, new.services), (old.externals, new.externals))
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name)
        )
        if not changed:
            return changed
        # Pods that become ready, or unready, are where they were: only who chooses among them is told.
        switched = frozenset(name for name in changed if _stays(old, new, name))
        changed -= switched
        choosers = {service for name in switched for service in self._choosers[name]}
        if not changed:
            return frozenset(choosers)
        if old.egress != new.egress or _has_ipv6(old) != _has_ipv6(new):
            return None
        found = self._wide | choosers
        for name in changed | _sharing(changed, old) | _sharing(changed, new):
            found |= self._readers[name]
        for name, services in self._destinations.items():
            # Calls to whom nobody knows are told by who else is known.
            if not _located(old, name) or not _located(new, name):
                found |= services
        return frozenset(found)

    def _add(self, service: str, hop: Hop) -> None:
        for name in _named(hop):
            self._readers[name].add(service)
            self._choosers[name].add(service)
            if name in self._program.externals:
                self._wide.add(service)
        if hop.side is Side.EGRESS:
            if hop.destination in self._program.externals:
                self._wide.add(service)
            self._readers[hop.destination].add(service)
            self._choosers[hop.destination].add(service)
            self._destinations[hop.destination].add(service)
            return
        for policy in hop.policies:
            some = not covers_all_callers(self._program, policy)
            if hop.port.protocol is Protocol.TCP and (some or policy.kind.guard):
                self._wide.add(service)
            elif some:
                self._add_callers(service, policy)
                # While one of them is not known yet, the others are who may come in.
                for name in self._callers[service, hop.port.number]:
                    self._readers[name].add(service)

    def _add_callers(self, service: str, policy: Policy) -> None:
        if self._about_strangers(policy):
            self._wide.add(service)
            return
        for name in policy.sources:
            if name in self._program.externals:
                self._wide.add(service)
            self._readers[name].add(service)

    def _about_strangers(self, policy: Policy) -> bool:
        try:
            return includes_unknown(self._strangers, policy.sources, policy.open_sources)
        except AmbiguousCallersError:
            return True


def _named(hop: Hop) -> Iterator[str]:
    """Whatever the arguments of a hop's policies may name: services to copy to, to ask, to admit."""
    for policy in hop.policies:
        for value in policy.arguments.values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, str):
                    yield item.partition(":")[0]


def _sharing(changed: frozenset[str], addresses: Addresses) -> set[str]:
    """Who else is at an address of those: two at one address are told apart by nothing."""
    owned = {text for name in changed for text in _texts(addresses, name)}
    others: Mapping[str, object] = {**addresses.services, **addresses.externals}
    return {name for name in others if not owned.isdisjoint(_texts(addresses, name))}


def _stays(old: Addresses, new: Addresses, name: str) -> bool:
    before, after = old.services.get(name), new.services.get(name)
    if before is None or after is None:
        return False
    return (before.addresses, before.pods) == (after.addresses, after.pods)


def _texts(addresses: Addresses, name: str) -> tuple[str, ...]:
    return (*addresses.service_addresses(name), *addresses.pod_addresses(name))


def _located(addresses: Addresses, name: str) -> bool:
    return bool(_texts(addresses, name))


def _has_ipv6(addresses: Addresses) -> bool:
    services = (text for located in addresses.services.values() for part in located for text in part)
    return any(":" in text for text in services) or any(
        ":" in text for part in addresses.externals.values() for text in part
    )
