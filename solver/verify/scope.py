"""The requirements on a placement, derived from the program alone.

The verifier uses no result of the solver. This module derives again which calls and undeclared callers a policy
applies to, and which services are called from inside a sidecar.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dsl.program import External, Parameter, Policy, Program, Protocol, Service, Side, Value, Verb


class Requirement(NamedTuple):
    """One policy at one destination, as the rules require it."""

    position: int
    """The position of the policy in declared order."""
    policy: Policy
    destination: str
    calls: tuple[int, ...]
    """Indices of the declared calls in scope, ascending."""
    senders: tuple[str, ...]
    """Sources of `calls`, each once, by name."""
    open: bool
    """Undeclared callers are in scope (rule R7)."""
    ports: tuple[int, ...]
    """Port numbers that the decision covers, ascending."""


@dataclass(frozen=True)
class DestinationFacts:
    """Facts about destinations that several rules need."""

    unclosable: Mapping[str, str]
    """Destination -> why no NetworkPolicy can close it to all but its declared senders."""
    node_sender: Mapping[str, str]
    """Destination -> a declared sender whose calls may come from a node's address: the destination itself, or a sender
    on the host's network."""
    inner_calls: Mapping[str, frozenset[str]]
    """Target of a mirror or a split, or a helper of a guard -> the services whose sidecar may call it."""
    refusals: Mapping[tuple[str, int], str]
    """(destination, target of one of its `tcp` ports) -> a policy that counts the connections which it refuses."""


def requirements(program: Program) -> dict[tuple[str, str], Requirement]:
    """Every decision that a placement of `program` must hold, in canonical order, by policy and destination."""
    scope = _Scope(program)
    return {
        (policy.name, requirement.destination): requirement
        for position, policy in enumerate(program.policies)
        for requirement in scope.requirements(position, policy)
    }


class _Scope:
    """Finds the calls of each policy, from the smaller end of its scope."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.arriving: dict[str, list[int]] = defaultdict(list)
        self.leaving: dict[str, list[int]] = defaultdict(list)
        for index, call in enumerate(program.calls):
            self.arriving[call.destination].append(index)
            self.leaving[call.source].append(index)
        self.everyone = len(program.services) + len(program.externals)
        self.served: dict[tuple[str, frozenset[int] | None, frozenset[Protocol]], tuple[int, ...]] = {}

    def requirements(self, position: int, policy: Policy) -> Iterator[Requirement]:
        calls = self.program.calls
        calls_to = self._calls(policy)
        may_be_open = policy.open_sources or policy.kind.guard
        for destination in sorted(policy.destinations) if may_be_open else sorted(calls_to):
            covered = calls_to.get(destination, [])
            ports = self._ports(policy, destination) if may_be_open else ()
            made = {(calls[index].source, calls[index].port.number) for index in covered}
            is_open = bool(ports) and (
                policy.open_sources or sum(port in ports for _, port in made) < len(policy.sources) * len(ports)
            )
            if not covered and not is_open:
                continue
            if not is_open:
                ports = tuple(sorted({calls[index].port.number for index in covered}))
            senders = tuple(sorted({calls[index].source for index in covered}))
            yield Requirement(position, policy, destination, tuple(covered), senders, is_open, ports)

    def _calls(self, policy: Policy) -> dict[str, list[int]]:
        calls, ports = self.program.calls, policy.ports
        calls_to: dict[str, list[int]] = {}
        if ports is None and len(policy.sources) == self.everyone:
            return {there: self.arriving[there] for there in policy.destinations if there in self.arriving}
        if len(policy.destinations) <= len(policy.sources):
            for destination in policy.destinations:
                arriving = [
                    index
                    for index in self.arriving.get(destination, ())
                    if calls[index].source in policy.sources and (ports is None or calls[index].port.number in ports)
                ]
                if arriving:
                    calls_to[destination] = arriving
            return calls_to
        destinations = frozenset(policy.destinations)
        for source in policy.sources:
            for index in self.leaving.get(source, ()):
                call = calls[index]
                if call.destination in destinations and (ports is None or call.port.number in ports):
                    calls_to.setdefault(call.destination, []).append(index)
        for covered in calls_to.values():
            covered.sort()
        return calls_to

    def _ports(self, policy: Policy, destination: str) -> tuple[int, ...]:
        """The destination's ports that the policy selects and whose protocol its kind and its match support."""
        fitting = policy.kind.protocols if policy.match is None else policy.kind.protocols - {Protocol.TCP}
        key = (destination, policy.ports, fitting)
        if key not in self.served:
            party = self.program.services.get(destination) or self.program.externals.get(destination)
            self.served[key] = tuple(
                sorted(
                    port.number
                    for port in (party.ports if party else ())
                    if port.protocol in fitting and (policy.ports is None or port.number in policy.ports)
                )
            )
        return self.served[key]


def destination_facts(program: Program, wanted: Collection[Requirement]) -> DestinationFacts:
    """Which destinations cannot be closed, are called from a node's address or from inside a sidecar, or refuse
    connections that a policy counts."""
    services, externals = program.services, program.externals
    unclosable: dict[str, str] = {}
    node_sender: dict[str, str] = {}
    for call in program.calls:
        sender = services.get(call.source)
        if call.source == call.destination:
            node_sender.setdefault(call.destination, call.source)
        if sender is not None and sender.host_network:
            node_sender.setdefault(call.destination, call.source)
            unclosable.setdefault(call.destination, f"its sender `{call.source}` is on the host's network")
        elif sender is None and not (call.source in externals and is_known(externals[call.source])):
            unclosable.setdefault(call.destination, f"its sender `{call.source}` has no known address")
    for service in services.values():
        if service.host_network:
            unclosable.setdefault(service.name, "it is on the host's network itself")

    _find_shared_targets(program, unclosable)
    _find_smaller_ranges(program, unclosable)
    declared = {(call.source, call.destination) for call in program.calls}
    inner: dict[str, set[str]] = defaultdict(set)
    for requirement in wanted:
        for target in service_arguments(requirement.policy):
            verbs = {effect.verb for effect in requirement.policy.effects or ()}
            if not verbs & {Verb.COPIES, Verb.ROUTES}:
                unclosable.setdefault(target, f"sidecars call it for `{requirement.policy.name}`")
                inner[target].update(_standing(requirement))
                continue
            inner[target].update(requirement.senders)
            if any((sender, target) not in declared for sender in requirement.senders):
                unclosable.setdefault(target, f"a sender of `{requirement.policy.name}` has no declared call to it")
    refusals = {
        (required.destination, program.calls[index].port.target): required.policy.name
        for required in wanted
        if required.policy.kind.traits.counts_refused_connections
        for index in required.calls
        if program.calls[index].port.protocol is Protocol.TCP
    }
    return DestinationFacts(
        unclosable, node_sender, {target: frozenset(who) for target, who in inner.items()}, refusals
    )


def _find_smaller_ranges(program: Program, unclosable: dict[str, str]) -> None:
    """Adds destinations with a sender outside that shares addresses with a smaller party, which does not call there."""
    within: dict[str, set[str]] = defaultdict(set)
    ranges = [
        (network.max_prefixlen, int(network[0]), -int(network[-1]), name)
        for name, external in program.externals.items()
        for network in (ipaddress.ip_network(cidr, strict=False) for cidr in external.cidrs)
    ]
    around: list[tuple[int, int, int, str]] = []
    for bits, first, last, name in sorted(ranges):
        around = [outer for outer in around if outer[0] == bits and first <= -outer[2]]
        for _, start, end, large in around:
            if (start, end) != (first, last) and large != name:
                within[large].add(name)
        around.append((bits, first, last, name))
    dialled = {(call.destination, call.port.number, call.source) for call in program.calls}
    for call in program.calls:
        for other in sorted(within.get(call.source, ())):
            if (call.destination, call.port.number, other) not in dialled:
                unclosable.setdefault(
                    call.destination, f"its sender `{call.source}` has the addresses of `{other}`, which does not call"
                )


def is_known(external: External) -> bool:
    """Whether the addresses of an external identify it. Ranges that together are all addresses of a family do not."""
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for cidr in external.cidrs:
        network = ipaddress.ip_network(cidr, strict=False)
        ranges[int(network.max_prefixlen)].append((int(network[0]), int(network[-1])))
    return bool(ranges) and all(_leaves_out(family, bits) for bits, family in ranges.items())


def holds_part_of(external: External, other: External) -> bool:
    """Whether some range of an external holds a smaller range of another one."""
    large = [ipaddress.ip_network(cidr, strict=False) for cidr in external.cidrs]
    small = [ipaddress.ip_network(cidr, strict=False) for cidr in other.cidrs]
    return any(
        one.max_prefixlen == two.max_prefixlen and one.prefixlen < two.prefixlen and two[0] in one
        for one in large
        for two in small
    )


def _leaves_out(ranges: list[tuple[int, int]], bits: int) -> bool:
    reached = 0
    for first, last in sorted(ranges):
        if first > reached:
            return True
        reached = max(reached, last + 1)
    return reached < 1 << bits


def _find_shared_targets(program: Program, unclosable: dict[str, str]) -> None:
    """A NetworkPolicy admits senders by target port, so two ports with one target cannot be closed separately."""
    sharing = {
        service.name: service
        for service in program.services.values()
        if len({port.target for port in service.ports}) < len(service.ports)
    }
    dialled: dict[tuple[str, str], set[int]] = defaultdict(set)
    for call in program.calls:
        if call.destination in sharing:
            dialled[(call.destination, call.source)].add(call.port.number)
    for (destination, source), numbers in dialled.items():
        ports = sharing[destination].ports
        targets = {port.target for port in ports if port.number in numbers}
        if any(port.target in targets and port.number not in numbers for port in ports):
            unclosable.setdefault(destination, f"`{source}` reaches the target of a port by way of another one")


def service_arguments(policy: Policy) -> Iterator[str]:
    for parameter in policy.kind.parameters:
        if _holds(parameter, "service"):
            yield from _names(policy.arguments.get(parameter.name))


def _standing(requirement: Requirement) -> Iterator[str]:
    """Services that may enforce a requirement, by the sides of its policy."""
    if Side.INGRESS in requirement.policy.sides:
        yield requirement.destination
    if Side.EGRESS in requirement.policy.sides:
        yield from requirement.senders


def unrecognisable(program: Program, policy: Policy) -> str | None:
    """A service on the host's network that the policy names as a caller, or None.

    Its address is that of its node, so it cannot be identified. A guard also has to identify the undeclared callers of
    its scope; if the scope is `*` with exceptions, it has to identify the exceptions.
    """
    named = admitted_callers(policy)
    for name, service in program.services.items():
        if service.host_network and (
            name in named or (policy.kind.guard and (name in policy.sources) is not policy.open_sources)
        ):
            return name
    return None


def admitted_callers(policy: Policy) -> frozenset[str]:
    """The callers that the policy's arguments name. A guard that judges the caller alone admits these, and no other."""
    return frozenset(
        caller
        for parameter in policy.kind.parameters
        if _holds(parameter, "caller")
        for caller in _names(policy.arguments.get(parameter.name))
    )


def tells_callers_apart(program: Program, policy: Policy) -> bool:
    """Whether the policy, enforced at ingress, has to identify the caller."""
    return (
        not policy.open_sources
        or len(policy.sources) < len(program.services) + len(program.externals)
        or any(_holds(parameter, "caller") for parameter in policy.kind.parameters)
    )


def may_reject(policy: Policy) -> bool:
    """Whether the policy can reject a request. A kind without `@effect` can."""
    return policy.effects is None or any(effect.verb is Verb.REJECTS for effect in policy.effects)


def can_host(service: Service | None) -> bool:
    """Rule R8: whether a service can host an ADM. Externals (None) cannot."""
    return service is not None and service.hosts_adm and not service.host_network


def _holds(parameter: Parameter, type_name: str) -> bool:
    kind = parameter.type
    while kind.element is not None:
        kind = kind.element
    return kind.name == type_name


def _names(value: Value) -> Iterator[str]:
    """The services that an argument names, without their ports: `who` for `who:admin`."""
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, str):
            yield item.partition(":")[0]
