"""The shape of `networking.k8s.io/v1` NetworkPolicy, as strict as an API server reads it."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def check(item: dict[str, Any]) -> None:
    """Fails unless the object is one that an API server takes, with no field that it would drop."""
    _keys(item, {"apiVersion", "kind", "metadata", "spec"})
    assert item["apiVersion"] == "networking.k8s.io/v1"
    assert item["kind"] == "NetworkPolicy"
    metadata = item["metadata"]
    _keys(metadata, {"name", "namespace", "labels", "annotations"})
    assert len(metadata["name"]) <= 253
    assert _SUBDOMAIN.fullmatch(metadata["name"])
    assert _DNS_LABEL.fullmatch(metadata["namespace"])
    _labels(metadata["labels"])
    for key, value in metadata["annotations"].items():
        _key(key)
        assert isinstance(value, str)
    spec = item["spec"]
    _keys(spec, {"podSelector", "policyTypes", "ingress"})
    _selector(spec["podSelector"])
    assert spec["policyTypes"] == ["Ingress"]
    for rule in spec["ingress"]:
        _keys(rule, {"ports"} | ({"from"} & rule.keys()))
        # An empty list means every sender, or every port: the opposite of a rule without any.
        assert rule["ports"]
        assert rule.get("from") != []
        for peer in rule.get("from", ()):
            _peer(peer)
        for port in rule["ports"]:
            _port(port)


def _port(port: dict[str, Any]) -> None:
    """Checks a number, or with `endPort` a range, which has to end after its start."""
    _keys(port, {"protocol", "port"} | ({"endPort"} & port.keys()))
    assert port["protocol"] in ("TCP", "UDP", "SCTP")
    first, last = port["port"], port.get("endPort", 65535)
    assert type(first) is type(last) is int
    assert 1 <= first <= last <= 65535


def _peer(peer: dict[str, Any]) -> None:
    if "ipBlock" in peer:
        _keys(peer, {"ipBlock"})
        _keys(peer["ipBlock"], {"cidr"})
        assert str(ipaddress.ip_network(peer["ipBlock"]["cidr"])) == peer["ipBlock"]["cidr"]
        return
    _keys(peer, {"namespaceSelector", "podSelector"})
    _selector(peer["namespaceSelector"])
    _selector(peer["podSelector"])


def _selector(selector: dict[str, Any]) -> None:
    _keys(selector, {"matchLabels"})
    assert selector["matchLabels"], "an empty selector selects everything"
    _labels(selector["matchLabels"])


def _labels(labels: dict[str, Any]) -> None:
    for key, value in labels.items():
        _key(key)
        assert isinstance(value, str)
        assert value == "" or (len(value) <= 63 and _QUALIFIED.fullmatch(value))


def _key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    assert not slash or (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix))
    assert len(name) <= 63
    assert _QUALIFIED.fullmatch(name)


def _keys(item: dict[str, Any], known: set[str]) -> None:
    assert set(item) == known
