"""Whether another NetworkPolicy admits more to a closed destination than admc's own: NetworkPolicies add up.

own NetworkPolicy, closed targets, other NetworkPolicy -> bool

A policy counts as one that admits no more only if this module can show that. Other ports are ignored: the own policy
admits every caller there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from admc.kubernetes.cluster.closing.label_sets import Labels, UnreadableSelectorError, disjoint, labels_of, within_any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAME_OF_NAMESPACE: Final = "kubernetes.io/metadata.name"
"""A label that the API server gives to each namespace, and does not let others change."""
MAX_EXCEPTIONS: Final = 100
"""The most exceptions of one block of addresses; a block with more counts as admitting more."""


class Admitted(NamedTuple):
    """The sources that a policy admits to one port."""

    pods: tuple[Labels, ...]
    """Labels of the pod (`pod/KEY`) and of its namespace (`namespace/KEY`)."""
    networks: tuple[Network, ...]


def admits_more(own: Mapping[str, Any], targets: Collection[int], other: Mapping[str, Any]) -> bool:
    """Whether `other` may admit a source that `own` does not admit, to one of the targets that `own` closes.

    Both are NetworkPolicies as JSON. `own` is as `emitters.kubernetes` makes it.
    """
    try:
        return _admits_more(own, targets, other)
    except (UnreadableSelectorError, LookupError, ValueError, TypeError, AttributeError):
        return True  # a form that is not known here


def _admits_more(own: Mapping[str, Any], targets: Collection[int], other: Mapping[str, Any]) -> bool:
    namespace = own["metadata"]["namespace"]
    spec = other["spec"]
    if other["metadata"]["namespace"] != namespace or "Ingress" not in (spec.get("policyTypes") or ("Ingress",)):
        return False
    if disjoint(labels_of(own["spec"]["podSelector"]), labels_of(spec.get("podSelector") or {})):
        return False
    admitted: dict[int, Admitted] = {}
    for rule in spec.get("ingress") or ():
        for port in _ports(rule, targets):
            if port not in admitted:
                admitted[port] = _admitted(own, port, namespace)
            peers = rule.get("from")
            if not peers or not all(_is_admitted(peer, admitted[port], namespace) for peer in peers):
                return True
    return False


def _ports(rule: Mapping[str, Any], ports: Collection[int]) -> frozenset[int]:
    """Return those of the ports that a rule is about. A named port may be any of them."""
    concerned: set[int] = set()
    items: Sequence[Mapping[str, Any]] = rule.get("ports") or ({},)
    for item in items:
        if item.get("protocol", "TCP") != "TCP":
            continue
        first = item.get("port")
        if isinstance(first, int):
            last = item.get("endPort", first)
            concerned.update(port for port in ports if first <= port <= last)
        else:
            concerned.update(ports)
    return frozenset(concerned)


def _admitted(own: Mapping[str, Any], port: int, namespace: str) -> Admitted:
    peers = [
        peer
        for rule in own["spec"]["ingress"]
        if "from" in rule and any(item["port"] == port for item in rule["ports"])
        for peer in rule["from"]
    ]
    blocks = [_network(peer["ipBlock"]["cidr"]) for peer in peers if "ipBlock" in peer]
    return Admitted(tuple(_pods(peer, namespace) for peer in peers if "ipBlock" not in peer), tuple(_collapsed(blocks)))


def _is_admitted(peer: Mapping[str, Any], admitted: Admitted, namespace: str) -> bool:
    if peer.get("ipBlock"):
        return _within(peer["ipBlock"], admitted.networks)
    return within_any(_pods(peer, namespace), admitted.pods)


def _pods(peer: Mapping[str, Any], namespace: str) -> Labels:
    """Return the pods of a peer. Without a selector of namespaces, they are in the namespace of the policy."""
    where = peer.get("namespaceSelector")
    if where is None:
        where = {"matchLabels": {NAME_OF_NAMESPACE: namespace}}
    return {
        **{f"namespace/{key}": values for key, values in labels_of(where).items()},
        **{f"pod/{key}": values for key, values in labels_of(peer.get("podSelector") or {}).items()},
    }


def _within(block: Mapping[str, Any], networks: Sequence[Network]) -> bool:
    exceptions = block.get("except") or ()
    if len(exceptions) > MAX_EXCEPTIONS:
        return False
    parts = [_network(block["cidr"])]
    for exception in _collapsed(_network(exception) for exception in exceptions):
        parts = [piece for part in parts for piece in _without(part, exception)]
    return all(any(_is_subnet(part, network) for network in networks) for part in parts)


def _without(part: Network, exception: Network) -> Iterable[Network]:
    if _is_subnet(part, exception):
        return ()
    if isinstance(part, ipaddress.IPv4Network) and isinstance(exception, ipaddress.IPv4Network):
        return part.address_exclude(exception) if exception.subnet_of(part) else (part,)
    if isinstance(part, ipaddress.IPv6Network) and isinstance(exception, ipaddress.IPv6Network):
        return part.address_exclude(exception) if exception.subnet_of(part) else (part,)
    return (part,)


def _is_subnet(one: Network, other: Network) -> bool:
    if isinstance(one, ipaddress.IPv4Network) and isinstance(other, ipaddress.IPv4Network):
        return one.subnet_of(other)
    if isinstance(one, ipaddress.IPv6Network) and isinstance(other, ipaddress.IPv6Network):
        return one.subnet_of(other)
    return False


def _collapsed(networks: Iterable[Network]) -> Iterator[Network]:
    blocks = list(networks)
    yield from ipaddress.collapse_addresses(network for network in blocks if isinstance(network, ipaddress.IPv4Network))
    yield from ipaddress.collapse_addresses(network for network in blocks if isinstance(network, ipaddress.IPv6Network))


def _network(cidr: object) -> Network:
    if not isinstance(cidr, str):
        raise TypeError
    return ipaddress.ip_network(cidr, strict=False)
