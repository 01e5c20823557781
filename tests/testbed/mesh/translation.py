"""What a cluster's node does to connections, as packet filter rules: service addresses, and closed destinations.

`translation` is the work of kube-proxy: a service address becomes the address of one replica, each in turn. By default
it happens on the node, where kube-proxy has it, so that a pod that calls its own service address leaves and comes back
like any caller. Translation inside the caller's own namespace exists, too: there it shares the `nat` table with the
emitted interception.

`enforcing` is the work of a network plugin: it enforces NetworkPolicy objects between pods
(`tests.testbed.network_policies`). What a pod's labels are comes from the program alone, not from the emitter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from emitters.interception.tables import Family
from tests.testbed.mesh.layout import PODS
from tests.testbed.network_policies import CHAIN as POLICY_CHAIN
from tests.testbed.network_policies import Refusal, rules

if TYPE_CHECKING:
    from dsl.program import Service
    from tests.testbed.mesh.layout import Layout, Place

CHAIN = "BED_SERVICES"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Kubernetes gives it to every namespace."""
HOOK = f"*filter\n-A FORWARD -j {POLICY_CHAIN}\nCOMMIT\n"
"""Sends every packet between pods through the rules of `enforcing`."""


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


def enforcing(plan: Layout, policies: Iterable[Mapping[str, Any]], family: Family, refusal: Refusal) -> str:
    """Rules for the node by which NetworkPolicies hold; they replace those that were loaded before."""
    services = plan.program.services
    namespaces = {service.namespace for service in services.values()}
    return rules(
        [_pod(place, services[place.party]) for place in plan.places if place.party in services],
        [{"metadata": {"name": name, "labels": {NAMESPACE_LABEL: name}}} for name in sorted(namespaces)],
        policies,
        str(PODS[family]),
        refusal,
    )


def _pod(place: Place, service: Service) -> dict[str, Any]:
    """A replica as the pod that it would be in a cluster."""
    return {
        "metadata": {
            "name": place.name,
            "namespace": service.namespace,
            "labels": service.labels or {"app": service.name},
        },
        "spec": {"hostNetwork": place.on_node, "containers": []},
        "status": {"phase": "Running", "podIPs": [{"ip": address} for address in place.addresses]},
    }
