"""Addresses that two parties have: refused wherever the policies of one could hold for the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dsl
from emitters.addresses import Addresses, from_json, loopback
from emitters.addresses.conflicts import check

PROGRAM = dsl.load_text(
    """app test
external office { cidr "10.9.0.0/16"  cidr "10.8.0.1/32" }
external stripe { tcp 443  host "198.51.100.7" }
external partner
service a { http 80 -> 8080 }
service b { http 80 -> 8080 }
service c { http 81 -> 8080 }
service agent    { http 90 -> 9000  host_network }
service exporter { http 90 -> 9001  host_network }
service rival    { http 91 -> 9001  host_network }
service proxy    { http 443  host_network }
call office, partner -> a
call a -> b, c, stripe
"""
)
X = "10.1.0.1"

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one pod": ({"a": {"pods": [X]}, "b": {"pods": [X]}}, {}),
    "one pod of several": ({"a": {"pods": ["10.1.0.2", X]}, "b": {"pods": [X, "10.1.0.3"]}}, {}),
    "one pod that is not ready": ({"a": {"pods": [X]}, "b": {"pods": [X], "unready": [X]}}, {}),
    "one pod and different ports": ({"a": {"pods": [X]}, "c": {"pods": [X]}}, {}),
    "one pod in another form of IPv6": ({"a": {"pods": ["fd00::1"]}, "b": {"pods": ["fd00:0:0::0:1"]}}, {}),
    "one pod as IPv4 and as IPv6": ({"a": {"pods": [X]}, "b": {"pods": [f"::ffff:{X}"]}}, {}),
    "one pod in hexadecimal": ({"a": {"pods": [X]}, "b": {"pods": ["::FFFF:0a01:0001"]}}, {}),
    "a service on the host's network at a pod": ({"a": {"pods": [X]}, "agent": {"pods": [X]}}, {}),
    "one port of a node": ({"exporter": {"pods": [X]}, "rival": {"pods": [X]}}, {}),
    "one service address and port": ({"a": {"addresses": [X]}, "b": {"addresses": [X]}}, {}),
    "a pod at a service address": ({"a": {"pods": [X]}, "c": {"addresses": [X]}}, {}),
    "a port of a node at a service address": ({"proxy": {"pods": ["10.1.0.2"], "addresses": [X]}}, {"stripe": [X]}),
    "an outside party at a pod": ({"a": {"pods": [X]}}, {"partner": [X]}),
    "an outside party that is only called, at a pod": ({"a": {"pods": [X]}}, {"stripe": [X]}),
    "an outside party at a service address": ({"a": {"addresses": [X]}}, {"partner": [f"{X}/32"]}),
    "an outside party at a node": ({"agent": {"pods": [X]}}, {"partner": [X]}),
    "a cidr of one address": ({"a": {"pods": ["10.8.0.1"]}}, {}),
    "a host that is an address": ({"proxy": {"pods": ["198.51.100.7"]}}, {}),
    "loopback": ({"a": {"pods": ["127.0.0.1"]}}, {}),
    "loopback of IPv6": ({"a": {"addresses": ["::1"]}}, {}),
    "loopback as IPv4 in IPv6": ({"a": {"pods": ["::ffff:127.9.9.9"]}}, {}),
}
TAKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a service's own pod as its address": ({"a": {"addresses": [X], "pods": [X]}}, {}),
    "one service address and different ports": ({"a": {"addresses": [X]}, "c": {"addresses": [X]}}, {}),
    "different ports of a node": ({"agent": {"pods": [X]}, "exporter": {"pods": [X]}}, {}),
    "a node's address for another service": ({"agent": {"pods": [X]}, "c": {"addresses": [X]}}, {}),
    "a pod in the network of an outside party": ({"a": {"pods": ["10.9.1.1"]}}, {"partner": ["10.9.1.0/24"]}),
    "two outside parties": ({}, {"partner": [X], "stripe": [X]}),
    "an outside party that is only called, at another port": ({"agent": {"pods": [X]}}, {"stripe": [X]}),
}


def read(services: dict[str, Any], externals: dict[str, Any]) -> Addresses:
    outside = {name: {"addresses": texts} for name, texts in externals.items()}
    return from_json(json.dumps({"services": services, "externals": outside}).encode(), PROGRAM)


@pytest.mark.parametrize(("services", "externals"), REFUSED.values(), ids=REFUSED)
def test_an_address_of_two_parties_is_refused(services: dict[str, Any], externals: dict[str, Any]) -> None:
    (finding,) = check(PROGRAM, read(services, externals), redirected=True)
    assert finding.code == "ADM724"
    assert finding.message.startswith("the endpoints file cannot be used: ")
    assert finding.cause
    assert finding.hint
    assert all(f"`{name}`" in finding.message for name in (*services, *externals))


@pytest.mark.parametrize(("services", "externals"), TAKEN.values(), ids=TAKEN)
def test_an_address_that_says_whose_it_is_is_taken(services: dict[str, Any], externals: dict[str, Any]) -> None:
    assert check(PROGRAM, read(services, externals), redirected=True) == ()


def test_without_redirection_services_have_loopback_addresses() -> None:
    assert check(PROGRAM, loopback(PROGRAM), redirected=False) == ()
    assert check(PROGRAM, read({"a": {"pods": ["127.0.0.1"]}, "b": {"pods": ["127.0.0.1"]}}, {}), redirected=False)


def test_each_pair_of_parties_is_one_finding() -> None:
    pods = [f"10.1.0.{number}" for number in range(9)]
    found = check(PROGRAM, read({name: {"pods": pods} for name in "abc"}, {}), redirected=True)
    assert len(found) == 3
