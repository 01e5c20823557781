"""NetworkPolicies as packet filter rules of the node: pods, namespaces and policies -> text for `iptables-restore`.

It stands in for a network plugin, and shares no code with the emitter of the policies. Ingress rules only, for that is
what admc emits. Connections that were open before stay open, as with most network plugins. What the node itself sends,
kubelet's probes among it, passes. A pod that is not known yet is reached by no other, so that none is reached before
its policies hold.
"""

from __future__ import annotations

import ipaddress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Object = dict[str, Any]

CHAIN = "NETWORK-POLICY"
_PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}


class Refusal(StrEnum):
    """What happens to a tcp connection that no policy admits."""

    RESET = "reset"
    """The caller learns of it at once, so tests need not wait for a timeout."""
    DROP = "drop"
    """The caller waits for its timeout, as with most network plugins."""


def rules(
    pods: Iterable[Object],
    namespaces: Iterable[Object],
    policies: Iterable[Mapping[str, Any]],
    network: str,
    refusal: Refusal = Refusal.RESET,
) -> str:
    """One chain that replaces the one before at once, for the pods of a network; the same text for the same objects."""
    version = ipaddress.ip_network(network).version
    labels = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces}
    running = [pod for pod in pods if _addresses(pod, version)]
    known = {address for pod in running if not _is_host(pod) for address in _addresses(pod, version)}
    admitted: dict[str, set[str]] = {}
    for policy in policies:
        spec, namespace = policy["spec"], policy["metadata"]["namespace"]
        if "Ingress" not in spec.get("policyTypes", ["Ingress"]):
            continue
        for pod in running:
            selected = pod["metadata"]["namespace"] == namespace and matches(spec.get("podSelector"), _labels(pod))
            if not selected or _is_host(pod):
                continue
            for address in _addresses(pod, version):
                found = admitted.setdefault(address, set())
                for rule in spec.get("ingress") or ():
                    sources = list(_sources(rule.get("from"), namespace, running, labels, version))
                    ports = list(_ports(rule.get("ports"), pod))
                    found |= {f"{source} -d {address}{port}" for source in sources for port in ports}
    lines = ["*filter", f":{CHAIN} - [0:0]", f"-A {CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"]
    for address in sorted(admitted):
        lines.append(f"-A {CHAIN} -s {address} -d {address} -j ACCEPT")
        lines += [f"-A {CHAIN}{match} -j ACCEPT" for match in sorted(admitted[address])]
        lines += _refused(address, refusal)
    lines += [f"-A {CHAIN} -d {address} -j RETURN" for address in sorted(known - set(admitted))]
    return "\n".join([*lines, *_refused(network, refusal), "COMMIT", ""])


def _refused(destination: str, refusal: Refusal) -> list[str]:
    to = f"-A {CHAIN} -d {destination}"
    reset = [f"{to} -p tcp -j REJECT --reject-with tcp-reset"] if refusal is Refusal.RESET else []
    return [*reset, f"{to} -j DROP"]


def _is_host(pod: Object) -> bool:
    return bool(pod["spec"].get("hostNetwork"))


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; an empty one selects everything."""
    selector = selector or {}
    equal = all(labels.get(name) == value for name, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def _meets(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    name, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(name) in values
        case "NotIn":
            return labels.get(name) not in values
        case "Exists":
            return name in labels
        case "DoesNotExist":
            return name not in labels
        case other:
            raise ValueError(f"label selectors have no operator `{other}`")


def _sources(
    peers: Iterable[Mapping[str, Any]] | None,
    namespace: str,
    pods: Iterable[Object],
    labels: Mapping[str, Mapping[str, str]],
    version: int,
) -> Iterator[str]:
    """The part of a rule that says where a packet is from."""
    if not peers:
        yield ""
        return
    for peer in peers:
        if "ipBlock" in peer:
            yield from _block(peer["ipBlock"], version)
            continue
        for pod in pods:
            own = pod["metadata"]["namespace"]
            in_namespace = (
                matches(peer["namespaceSelector"], labels.get(own, {}))
                if "namespaceSelector" in peer
                else own == namespace
            )
            if in_namespace and matches(peer.get("podSelector"), _labels(pod)):
                yield from (f" -s {address}" for address in _addresses(pod, version))


def _block(block: Mapping[str, Any], version: int) -> Iterator[str]:
    networks = [ipaddress.ip_network(block["cidr"])]
    for text in block.get("except") or ():
        left_out = ipaddress.ip_network(text)
        networks = [part for network in networks for part in _without(network, left_out)]
    yield from (f" -s {network}" for network in networks if network.version == version)


def _without(network: Any, left_out: Any) -> Iterator[Any]:
    if network.version == left_out.version and left_out.subnet_of(network):
        yield from network.address_exclude(left_out)
    elif network.version != left_out.version or not network.subnet_of(left_out):
        yield network


def _ports(ports: Iterable[Mapping[str, Any]] | None, pod: Object) -> Iterator[str]:
    """The part of a rule that says where a packet goes to."""
    if not ports:
        yield ""
        return
    for each in ports:
        protocol = _PROTOCOLS[each.get("protocol", "TCP")]
        number = each.get("port")
        if isinstance(number, str):
            number = _named(pod, number)
            if number is None:
                continue
        if number is None:
            yield f" -p {protocol}"
        else:
            end = f":{each['endPort']}" if "endPort" in each else ""
            yield f" -p {protocol} --dport {number}{end}"


def _named(pod: Object, name: str) -> int | None:
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    ports = [port for container in containers for port in container.get("ports") or ()]
    return next((port["containerPort"] for port in ports if port.get("name") == name), None)


def _labels(each: Object) -> Mapping[str, str]:
    return each["metadata"].get("labels") or {}


def _addresses(pod: Object, version: int) -> list[str]:
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return []
    found = [each["ip"] for each in status.get("podIPs") or ()]
    return [address for address in found if ipaddress.ip_address(address).version == version]
