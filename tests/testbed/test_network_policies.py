"""The rules that enforce NetworkPolicies, as text."""

from __future__ import annotations

from typing import Any

import pytest

import dsl
from emitters.kubernetes import network_policies
from solver.place import place
from tests.testbed.network_policies import CHAIN, Refusal, matches, rules

SERVER = {"app": "server"}
NETWORK, NETWORK_6 = "10.0.0.0/8", "fd00::/64"


def _pod(name: str, address: str, namespace: str = "shop", **labels: str) -> dict[str, Any]:
    port = {"name": "web", "containerPort": 8080}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "ports": [port]}]},
        "status": {"phase": "Running", "podIPs": [{"ip": address}, {"ip": f"fd00::{address.rpartition('.')[2]}"}]},
    }


PODS = [
    _pod("server", "10.0.0.1", app="server"),
    _pod("friend", "10.0.0.2", app="friend"),
    _pod("namesake", "10.0.0.3", "other", app="friend"),
]
NAMESPACES = [{"metadata": {"name": name, "labels": {"name": name}}} for name in ("shop", "other")]


def _policy(*ingress: dict[str, Any], **spec: Any) -> dict[str, Any]:
    own = {"podSelector": {"matchLabels": SERVER}, "policyTypes": ["Ingress"], "ingress": list(ingress), **spec}
    return {"metadata": {"name": "policy", "namespace": "shop"}, "spec": own}


def _admitted(*ingress: dict[str, Any], network: str = NETWORK) -> list[str]:
    """What comes between the rules that every closed pod has."""
    lines = rules(PODS, NAMESPACES, [_policy(*ingress)], network).splitlines()
    accepted = [line for line in lines if line.endswith("-j ACCEPT")]
    return [line.removeprefix(f"-A {CHAIN} ").removesuffix(" -j ACCEPT") for line in accepted[2:]]


def _from(**peer: Any) -> dict[str, Any]:
    return {"from": [peer]}


def test_without_a_policy_only_unknown_pods_are_refused() -> None:
    lines = rules(PODS, NAMESPACES, [], NETWORK).splitlines()[3:-1]
    assert lines[:3] == [f"-A {CHAIN} -d 10.0.0.{number} -j RETURN" for number in (1, 2, 3)]
    assert lines[3:] == [
        f"-A {CHAIN} -d {NETWORK} -p tcp -j REJECT --reject-with tcp-reset",
        f"-A {CHAIN} -d {NETWORK} -j DROP",
    ]


def test_a_policy_without_rules_refuses_everything_but_the_pod_itself() -> None:
    text = rules(PODS, NAMESPACES, [_policy()], NETWORK)
    assert _admitted() == []
    assert f"-A {CHAIN} -s 10.0.0.1 -d 10.0.0.1 -j ACCEPT" in text
    assert f"-A {CHAIN} -d 10.0.0.1 -p tcp -j REJECT --reject-with tcp-reset" in text
    assert f"-A {CHAIN} -d 10.0.0.1 -j DROP" in text
    assert f"-A {CHAIN} -d 10.0.0.2 -j RETURN" in text
    assert f"-A {CHAIN} -d 10.0.0.1 -j RETURN" not in text


def test_a_refused_connection_may_be_dropped() -> None:
    lines = rules(PODS, NAMESPACES, [_policy()], NETWORK, Refusal.DROP).splitlines()
    assert [line for line in lines if "REJECT" in line] == []
    assert f"-A {CHAIN} -d 10.0.0.1 -j DROP" in lines


def test_an_empty_rule_admits_everything() -> None:
    assert _admitted({}) == ["-d 10.0.0.1"]


def test_a_selector_of_pods_is_about_the_policys_namespace() -> None:
    friends = {"matchLabels": {"app": "friend"}}
    assert _admitted(_from(podSelector=friends)) == ["-s 10.0.0.2 -d 10.0.0.1"]
    other = {"matchLabels": {"name": "other"}}
    both = _from(podSelector=friends, namespaceSelector=other)
    assert _admitted(both) == ["-s 10.0.0.3 -d 10.0.0.1"]
    assert _admitted(_from(podSelector=friends, namespaceSelector={})) == [
        "-s 10.0.0.2 -d 10.0.0.1",
        "-s 10.0.0.3 -d 10.0.0.1",
    ]
    assert _admitted(both, network=NETWORK_6) == ["-s fd00::3 -d fd00::1"]


def test_ports_are_numbers_names_and_ranges() -> None:
    ports = [{"port": 80}, {"port": "web", "protocol": "TCP"}, {"port": 9000, "endPort": 9010, "protocol": "UDP"}]
    assert _admitted({"ports": ports}) == [
        "-d 10.0.0.1 -p tcp --dport 80",
        "-d 10.0.0.1 -p tcp --dport 8080",
        "-d 10.0.0.1 -p udp --dport 9000:9010",
    ]
    assert _admitted({"ports": [{"port": "unknown"}]}) == []


def test_an_emitted_policy_opens_all_numbers_but_closed_ones() -> None:
    program = dsl.load_text(
        "app x\nservice server { http 80 -> 8080  http metrics 9100 }\nservice friend { http 80 }\n"
        "call friend -> server:80\n@egress\npolicy seen = request_count() on * -> server:80\n"
    )
    (policy,) = network_policies(program, place(program))
    spec: Any = policy["spec"]
    friend, _ = spec["ingress"]
    friend["from"][0]["namespaceSelector"] = {"matchLabels": {"name": "shop"}}
    assert sorted(_admitted(*spec["ingress"])) == sorted(
        [
            "-s 10.0.0.2 -d 10.0.0.1 -p tcp --dport 8080",
            *(
                f"-d 10.0.0.1 -p {protocol} --dport {numbers}"
                for protocol in ("tcp", "udp", "sctp")
                for numbers in ("1:8079", "8081:65535")
            ),
        ]
    )


def test_a_block_leaves_out_its_exceptions() -> None:
    block = {"cidr": "10.0.0.0/30", "except": ["10.0.0.2/32"]}
    assert _admitted(_from(ipBlock=block)) == [
        "-s 10.0.0.0/31 -d 10.0.0.1",
        "-s 10.0.0.3/32 -d 10.0.0.1",
    ]


def test_a_pod_that_is_over_has_no_rules() -> None:
    over = _pod("server", "10.0.0.1", app="server")
    over["status"]["phase"] = "Succeeded"
    assert "10.0.0.1" not in rules([over], NAMESPACES, [_policy()], NETWORK)


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["server", "x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["server"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "server"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
    ],
)
def test_label_selectors(selector: dict[str, Any], selects: bool) -> None:
    assert matches(selector, SERVER) is selects
