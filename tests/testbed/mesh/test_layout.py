"""Addresses and rules as plain text: these hold on any machine."""

from __future__ import annotations

import ipaddress

import pytest

import dsl
from emitters.interception.tables import Family
from emitters.kubernetes import network_policies
from solver.place import place
from tests.testbed.mesh import outside
from tests.testbed.mesh.errors import LayoutError
from tests.testbed.mesh.layout import layout
from tests.testbed.mesh.translation import Translation, enforcing, translation
from tests.testbed.network_policies import CHAIN, Refusal

TEXT = """\
app sample
external internet
external office { cidr "192.168.7.0/24"  cidr "fd99::/64" }
external bank { tcp 443  host "bank.example" }
service a { http 80 -> 8080  replicas 3 }
service b { http 80  tcp 81 }
call internet, office -> a
call a -> b:80, bank
@egress
policy limit = rate_limit(requests: 5, per: 1s) on * -> b:80
"""


def test_every_namespace_has_addresses_of_its_own_and_always_the_same() -> None:
    plan = layout(dsl.load_text(TEXT))
    assert [place.name for place in plan.places] == ["a/0", "a/1", "a/2", "b/0", "bank", "internet", "office"]
    addresses = [address for place in plan.places for address in place.addresses]
    assert len(addresses) == len(set(addresses)) == 14
    assert plan.by_name["a/0"].addresses == ("10.1.0.2", "fd00:1::2")
    assert plan.service_address("b", Family.IPV6) == "fd00:2::2"
    assert layout(dsl.load_text(TEXT)).places == plan.places


def test_an_outside_party_is_where_the_program_says() -> None:
    plan = layout(dsl.load_text(TEXT))
    assert plan.by_name["office"].addresses == ("192.168.7.1", "fd99::1")
    assert plan.by_name["office"].networks == ("192.168.7.0/24", "fd99::/64")
    assert plan.by_name["bank"].networks == ("10.3.1.1/32", "fd00:3:1::1/128")
    assert plan.addresses.externals["internet"] == ("10.3.2.0/24", "fd00:3:2::/64")


def test_a_network_around_the_beds_own_leaves_an_address_outside_them() -> None:
    plan = layout(dsl.load_text('app x\nexternal all { cidr "10.0.0.0/8"  cidr "::/0" }\nservice a { http 80 }\n'))
    for address in plan.by_name["all"].addresses:
        own = ipaddress.ip_address(address)
        assert own not in ipaddress.ip_network("10.1.0.0/16")
        assert not own.is_loopback


def test_a_network_inside_the_beds_own_is_refused() -> None:
    with pytest.raises(LayoutError, match="inside the bed's own networks"):
        layout(dsl.load_text('app x\nexternal in { cidr "10.1.2.0/24" }\nservice a { http 80 }\n'))


def test_too_many_pods_are_refused() -> None:
    with pytest.raises(LayoutError, match="at most 1,000"):
        layout(dsl.load_text("app x\nservice a { http 80  replicas 1001 }\n"))


def test_a_service_address_leads_to_each_replica_in_turn() -> None:
    plan = layout(dsl.load_text(TEXT))
    rules = translation(plan, Family.IPV4, Translation.NODE).splitlines()
    own = [rule for rule in rules if "-d 10.2.0.1 " in rule]
    assert [rule.partition("-j ")[2] for rule in own] == [
        f"DNAT --to-destination 10.1.0.{last}:8080" for last in (2, 3, 4)
    ]
    assert ["--every 3" in own[0], "--every 2" in own[1], "statistic" in own[2]] == [True, True, False]
    assert "-A PREROUTING" not in translation(plan, Family.IPV4, Translation.POD)


def test_a_headless_service_has_no_service_address() -> None:
    plan = layout(dsl.load_text(TEXT), headless={"a"})
    assert plan.service_address("a", Family.IPV4) is None
    assert plan.addresses.services["a"].addresses == ()
    assert "10.2.0.1" not in translation(plan, Family.IPV4, Translation.NODE)


def test_a_closed_destination_admits_its_declared_senders_alone_at_closed_ports() -> None:
    program = dsl.load_text(TEXT)
    plan = layout(program)
    policies = network_policies(program, place(program))
    lines = enforcing(plan, policies, Family.IPV6, Refusal.DROP).splitlines()
    accepted = [line for line in lines if line.endswith("-j ACCEPT") and "conntrack" not in line]
    assert sorted(accepted) == sorted(
        [
            *(f"-A {CHAIN} -s fd00:1::{n} -d fd00:1::5 -p tcp --dport 80 -j ACCEPT" for n in (2, 3, 4)),
            *(
                f"-A {CHAIN} -d fd00:1::5 -p {protocol} --dport {numbers} -j ACCEPT"
                for protocol in ("tcp", "udp", "sctp")
                for numbers in ("1:79", "81:65535")
            ),
            f"-A {CHAIN} -s fd00:1::5 -d fd00:1::5 -j ACCEPT",
        ]
    )


def test_a_rule_of_one_number_is_about_no_other() -> None:
    program = dsl.load_text(TEXT.replace("http 80  tcp 81", "http 80  http 82").replace("on * -> b:80", "on * -> b"))
    plan = layout(program)
    policies = network_policies(program, place(program))
    lines = enforcing(plan, policies, Family.IPV4, Refusal.DROP).splitlines()
    assert [line for line in lines if "-p udp" in line] == [
        f"-A {CHAIN} -d 10.1.0.5 -p udp --dport {numbers} -j ACCEPT" for numbers in ("1:79", "81", "83:65535")
    ]


def test_pods_have_the_labels_and_the_namespace_of_the_program() -> None:
    """A selector is about one namespace, and about all of its labels."""
    program = dsl.load_text(
        'app x\nservice a { http 80  labels { app  tier = "web" }  namespace shop }\n'
        'service b { http 80  labels { app = "a"  tier = "web" } }\nservice c { http 80 }\n'
    )
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
        "podSelector": {"matchLabels": {"app": "a"}},
    }
    policy = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"podSelector": {"matchLabels": {"app": "c"}}, "ingress": [{"from": [peer]}]},
    }
    plan = layout(program)
    lines = enforcing(plan, [policy], Family.IPV4, Refusal.DROP).splitlines()
    a, b, c = (plan.of(name)[0].address(Family.IPV4) for name in "abc")
    assert [line for line in lines if " -s " in line and line.endswith("ACCEPT")] == [
        f"-A {CHAIN} -s {c} -d {c} -j ACCEPT",
        f"-A {CHAIN} -s {a} -d {c} -j ACCEPT",
    ]
    assert f"-A {CHAIN} -d {b} -j RETURN" in lines


def test_counters_are_read_as_they_are_saved() -> None:
    saved = "*nat\n:OUTPUT ACCEPT [1:2]\n[3:180] -A ADMC_OUT -p tcp -j REDIRECT --to-ports 15001\nCOMMIT\n"
    (rule,) = outside.parse(saved)
    assert (rule.table, rule.chain, rule.packets, rule.redirects) == ("nat", "ADMC_OUT", 3, True)
    assert outside.redirected([rule]) == 3
