"""What a cluster's node does to connections, as packet filter rules: service addresses, and closed destinations.

`translation` is the work of kube-proxy: a service address becomes the address of one replica, each in turn. By default
it happens on the node, where kube-proxy has it, so that a pod that calls its own service address leaves and comes back
like any caller. Translation inside the caller's own namespace exists, too: there it shares the `nat` table with the
emitted interception.

`closing` is the work of a network plugin: it reads the emitted NetworkPolicy objects and enforces them between pods. It
refuses instead of dropping, so that callers need not wait for a timeout.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from dsl.program import Program
from emitters.interception.tables import Family
from emitters.kubernetes import pod_labels

if TYPE_CHECKING:
    from tests.testbed.mesh.layout import Layout, Place

CHAIN = "BED_SERVICES"


class Translation(StrEnum):
    NODE = "node"
    POD = "pod"


def translation(plan: Layout, family: Family, where: Translation) -> str:
    """Rules for `iptables-restore`: on the node, or in the namespace of one caller."""
    lines = ["*nat", f":{CHAIN} - [0:0]", f"-A OUTPUT -p tcp -j {CHAIN}"]
    if where is Translation.NODE:
        lines.append(f"-A PREROUTING -p tcp -j {CHAIN}")
        # A pod that calls itself through its service address must see the answer come back the same way.
        pods = [place for place in plan.places if place.party in plan.program.services and not place.on_node]
        own = [address for place in pods if (address := place.address(family)) is not None]
        lines += [f"-A POSTROUTING -s {address} -d {address} -j MASQUERADE" for address in own]
    for name, service in sorted(plan.program.services.items()):
        dialled = plan.service_address(name, family)
        if dialled is None:
            continue
        goals = [address for place in plan.of(name) if (address := place.address(family)) is not None]
        for port in sorted(service.ports, key=lambda port: port.number):
            for index, pod in enumerate(goals):
                left = len(goals) - index
                turn = f" -m statistic --mode nth --every {left} --packet 0" if left > 1 else ""
                goal = f"[{pod}]:{port.target}" if family is Family.IPV6 else f"{pod}:{port.target}"
                lines.append(
                    f"-A {CHAIN} -d {dialled} -p tcp --dport {port.number}{turn} -j DNAT --to-destination {goal}"
                )
    return "\n".join([*lines, "COMMIT", ""])


def closing(plan: Layout, policies: Iterable[Mapping[str, Any]], family: Family) -> str:
    """Rules for the node that admit to a closed destination the callers that its NetworkPolicies admit."""
    admitted: list[str] = []
    closed: dict[str, None] = {}
    for policy in policies:
        spec, namespace = policy["spec"], policy["metadata"]["namespace"]
        for place in _selected(plan, {namespace}, spec["podSelector"]["matchLabels"]):
            pod = place.address(family)
            if pod is None or place.on_node:
                continue
            closed[pod] = None
            for rule in spec["ingress"]:
                admitted += [
                    f"-A FORWARD{source} -d {pod}{_dialled(port)} -j ACCEPT"
                    for source in _sources(plan, rule, family)
                    for port in rule["ports"]
                ]
    lines = ["*filter", "-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", *admitted]
    for pod in closed:
        # No NetworkPolicy keeps a pod from itself.
        lines += [f"-A FORWARD -s {pod} -d {pod} -j ACCEPT"]
        lines += [f"-A FORWARD -d {pod} -p tcp -j REJECT --reject-with tcp-reset", f"-A FORWARD -d {pod} -j DROP"]
    return "\n".join([*lines, "COMMIT", ""]) if closed else ""


def _dialled(port: Mapping[str, Any]) -> str:
    """A protocol and one number, or all numbers from one to another."""
    last = f":{port['endPort']}" if "endPort" in port else ""
    return f" -p {port['protocol'].lower()} --dport {port['port']}{last}"


def _sources(plan: Layout, rule: Mapping[str, Any], family: Family) -> Iterator[str]:
    """The senders of a rule; a rule that names none is about every sender."""
    if "from" not in rule:
        yield ""
    for peer in rule.get("from", ()):
        if "ipBlock" in peer:
            network = ipaddress.ip_network(peer["ipBlock"]["cidr"])
            if network.version == family.version:
                yield f" -s {network}"
            continue
        namespace = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for place in _selected(plan, {namespace}, peer["podSelector"]["matchLabels"]):
            if (address := place.address(family)) is not None:
                yield f" -s {address}"


def _selected(plan: Layout, namespaces: set[str], labels: Mapping[str, str]) -> Iterator[Place]:
    program: Program = plan.program
    for place in plan.places:
        service = program.services.get(place.party)
        if service is not None and service.namespace in namespaces:
            own = pod_labels(service)
            if all(own.get(key) == value for key, value in labels.items()):
                yield place
