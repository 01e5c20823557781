"""The connections that a NetworkPolicy admits, as Kubernetes documents it, and those that it has to admit.

This shares no code with the emitter: what has to be closed comes from the decisions and the program alone.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from dsl.program import Program
    from solver.placement import Placement

PROTOCOLS = ("TCP", "UDP", "SCTP")
ADM_PORTS = (15000, 15001, 15006, 15021, 15023)


class Caller(NamedTuple):
    name: str
    namespace: str
    labels: Mapping[str, str]
    address: str = ""
    """Of an external."""


STRANGER = Caller("*", "elsewhere", {"app": "stranger"})


def admits(policy: Mapping[str, Any], caller: Caller, protocol: str, number: int) -> bool:
    return any(
        (not rule.get("from") or any(_is_from(peer, caller, policy) for peer in rule["from"]))
        and (not rule.get("ports") or any(_is_to(item, protocol, number) for item in rule["ports"]))
        for rule in policy["spec"]["ingress"]
    )


def _is_from(peer: Mapping[str, Any], caller: Caller, policy: Mapping[str, Any]) -> bool:
    if "ipBlock" in peer:
        address = caller.address
        return bool(address) and ipaddress.ip_address(address) in ipaddress.ip_network(peer["ipBlock"]["cidr"])
    namespace = policy["metadata"]["namespace"]
    if "namespaceSelector" in peer:
        namespace = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    wanted = peer["podSelector"]["matchLabels"].items()
    return not caller.address and caller.namespace == namespace and wanted <= caller.labels.items()


def _is_to(item: Mapping[str, Any], protocol: str, number: int) -> bool:
    return item["protocol"] == protocol and item["port"] <= number <= item.get("endPort", item["port"])


def callers(program: Program) -> Iterator[Caller]:
    yield STRANGER
    for service in program.services.values():
        yield Caller(service.name, service.namespace, service.labels or {"app": service.name})
    for external in program.externals.values():
        for cidr in external.cidrs:
            yield Caller(external.name, "", {}, str(ipaddress.ip_network(cidr, strict=False).network_address))


def wrong(plans: Sequence[tuple[Program, Placement]], policies: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the NetworkPolicies of these plans, which are in force together, should not admit, or should."""
    by_name = {policy["metadata"]["annotations"]["admc/closes"]: policy for policy in policies}
    closers: dict[str, dict[int, list[Program]]] = {}
    for program, placement in plans:
        for name in placement.closed:
            closers.setdefault(name, {})
            for target in closed(program, placement, name):
                closers[name].setdefault(target, []).append(program)
    found = [f"{name}: no NetworkPolicy" for name in sorted(closers.keys() - by_name.keys())]
    found += [f"{name}: a NetworkPolicy" for name in sorted(by_name.keys() - closers.keys())]
    known = {caller for program, _ in plans for caller in map(_hashable, callers(program))}
    for name in sorted(closers.keys() & by_name.keys()):
        for caller in sorted(known):
            for protocol in PROTOCOLS:
                for number in numbers(closers[name], [program for program, _ in plans], name):
                    by = closers[name].get(number)
                    right = by is None or (
                        protocol == "TCP" and all(_declares(program, caller[0], name, number) for program in by)
                    )
                    own = Caller(caller[0], caller[1], dict(caller[2]), caller[3])
                    if admits(by_name[name], own, protocol, number) != right:
                        found.append(f"{caller[0]} -> {name}:{number}/{protocol}: {'refused' if right else 'admitted'}")
    return found


def _hashable(caller: Caller) -> tuple[str, str, tuple[tuple[str, str], ...], str]:
    return caller.name, caller.namespace, tuple(sorted(caller.labels.items())), caller.address


def closed(program: Program, placement: Placement, name: str) -> set[int]:
    """The targets of the ports of every decision that needs a destination closed."""
    return {
        port.target
        for decision in placement.decisions
        if decision.destination == name and decision.closes
        for port in program.services[name].ports
        if port.number in decision.ports
    }


def numbers(targets: Collection[int], programs: Iterable[Program], name: str) -> list[int]:
    """Numbers at which something may change."""
    own = {
        number
        for program in programs
        if name in program.services
        for port in program.services[name].ports
        for number in (port.number, port.target)
    }
    near = {number + step for number in (*targets, *own) for step in (-1, 0, 1)}
    return sorted(number for number in near | {1, 65535, *ADM_PORTS} if 1 <= number <= 65535)


def _declares(program: Program, source: str, name: str, target: int) -> bool:
    return any((call.source, call.destination, call.port.target) == (source, name, target) for call in program.calls)
