"""Which other NetworkPolicies admit more to a closed destination: cases, and a search through all sources."""

from __future__ import annotations

import ipaddress
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.closing.admission import admits_more
from admc.kubernetes.cluster.closing.label_sets import labels_of, within, within_any
from emitters.kubernetes import closed_by_selector
from tests.emitters.interception.build import external, port, program, service, wholly_closed
from tests.properties import examples

NAMESPACE = "shop"
PORTS = (8080, 9090)


def own_policy() -> dict[str, Any]:
    """`db` admits `a` to both of its ports, and `b` and an office to one."""
    made = program(
        [
            service("db", port(80, 8080), port(90, 9090, name="admin"), namespace=NAMESPACE),
            service("a", namespace=NAMESPACE),
            service("b", namespace="other"),
            external("office", cidrs=["10.0.0.0/30", "10.0.0.4/30"]),
        ],
        [("a", "db"), ("a", "db", 90), ("b", "db"), ("office", "db")],
    )
    selectors = {"db": {"app": "db"}, "a": {"app": "x"}, "b": {"app": "y", "tier": "x"}}
    policy = closed_by_selector(wholly_closed(made, "db"), selectors)["db"].policy
    assert policy is not None
    return policy


OWN: Any = own_policy()


def other(rules: Any, selector: Any = None, namespace: str = NAMESPACE, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "name": "other"},
        "spec": {"podSelector": selector or {}, "policyTypes": ["Ingress"], "ingress": rules, **spec},
    }


A = {"podSelector": {"matchLabels": {"app": "x"}}}
B = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}},
    "podSelector": {"matchLabels": {"app": "y", "tier": "x"}},
}
HTTP = [{"port": 8080}]


@pytest.mark.parametrize(
    "rules",
    [
        [],
        None,
        [{"from": [A], "ports": HTTP}],
        [{"from": [A]}],
        [{"from": [A, B], "ports": [{"protocol": "TCP", "port": 8080}]}],
        [{"from": [{"podSelector": {"matchLabels": {"app": "x", "tier": "z"}}}], "ports": HTTP}],
        [{"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}}]}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.2/32"}}], "ports": HTTP}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.0/29"}}], "ports": HTTP}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.0/28", "except": ["10.0.0.8/29"]}}], "ports": HTTP}],
        [{"ports": [{"port": 9100}]}],
        [{"ports": [{"port": 9000, "endPort": 9089}]}],
        [{"ports": [{"protocol": "UDP", "port": 8080}, {"protocol": "SCTP"}]}],
    ],
)
def test_no_more_is_admitted(rules: Any) -> None:
    assert not admits_more(OWN, PORTS, other(rules))


@pytest.mark.parametrize(
    "rules",
    [
        [{}],
        [{"from": []}],
        [{"from": [{"podSelector": {}}]}],
        [{"from": [{"namespaceSelector": {}}]}],
        [{"from": [B]}],
        [{"from": [{**A, "namespaceSelector": {}}]}],
        [{"from": [{**A, "namespaceSelector": {"matchLabels": {"team": "shop"}}}]}],
        [{"from": [A], "ports": HTTP}, {"from": [{"podSelector": {"matchLabels": {"app": "y"}}}], "ports": HTTP}],
        [{"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]}],
        [{"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["y"]}]}}]}],
        [{"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}}]}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.0/28", "except": ["10.0.0.8/30"]}}], "ports": HTTP}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.0/30"}}]}],
        [{"from": [{"ipBlock": {"cidr": "::/0"}}], "ports": HTTP}],
        [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": [f"10.{n}.0.0/16" for n in range(101)]}}]}],
        [{"ports": [{"port": "http"}]}],
        [{"ports": [{"port": 9000, "endPort": 9090}]}],
        [{"ports": [{"protocol": "TCP"}]}],
        [{"ports": "all"}],
        "all",
    ],
)
def test_what_may_be_more_counts_as_more(rules: Any) -> None:
    assert admits_more(OWN, PORTS, other(rules))


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({"matchLabels": {"app": "cache"}}, False),
        ({"matchLabels": {"tier": "db"}}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db", "cache"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "cache"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": "db"}]}, True),
    ],
)
def test_a_policy_of_other_pods_is_none_of_the_destination(selector: Any, selects: bool) -> None:
    assert admits_more(OWN, PORTS, other([{}], selector)) == selects


def test_policies_of_another_namespace_or_direction_admit_nothing() -> None:
    assert not admits_more(OWN, PORTS, other([{}], namespace="other"))
    assert not admits_more(OWN, PORTS, other([{}], policyTypes=["Egress"]))
    without_types = other([{}])
    del without_types["spec"]["policyTypes"]
    assert admits_more(OWN, PORTS, without_types)


def test_several_selectors_together_take_in_one_of_several_values() -> None:
    def among(*values: str) -> Any:
        return labels_of({"matchExpressions": [{"key": "app", "operator": "In", "values": list(values)}]})

    one, both = [labels_of({"matchLabels": {"app": "x"}})], [among("x"), among("y")]
    assert within_any(among("x", "y"), both)
    assert not within_any(among("x", "y", "z"), both)
    assert not within_any(among("x", "y"), one)
    many = tuple(str(number) for number in range(1000))
    assert not within_any(among(*many), [among(value) for value in many]), "bounded: it counts as not shown"
    assert within(among("x"), among("x", "y"))


# A search through all sources. Values beyond those of the selectors stand for all others.
VALUES = ("x", "y", "z", None)
SOURCES = [
    (namespace, {key: value for key, value in (("app", app), ("tier", tier)) if value is not None})
    for namespace, app, tier in product((NAMESPACE, "other", "third"), VALUES, VALUES)
]
ADDRESSES = [f"10.0.0.{number}" for number in range(16)] + ["10.1.0.1"]


def selects(selector: Any, labels: dict[str, str]) -> bool:
    """As Kubernetes documents it."""
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        {
            "In": labels.get(each["key"]) in each.get("values", ()),
            "NotIn": labels.get(each["key"]) not in each.get("values", ()),
            "Exists": each["key"] in labels,
            "DoesNotExist": each["key"] not in labels,
        }[each["operator"]]
        for each in selector.get("matchExpressions", ())
    )


def admits(policy: Any, source: Any, target: int) -> bool:
    def by_port(item: Any) -> bool:
        return "port" not in item or item["port"] <= target <= item.get("endPort", item["port"])

    def by_peer(peer: Any) -> bool:
        if "ipBlock" in peer:
            block = peer["ipBlock"]
            networks = [ipaddress.ip_network(each) for each in (block["cidr"], *block.get("except", ()))]
            return isinstance(source, str) and [ipaddress.ip_address(source) in each for each in networks].count(
                True
            ) == 1 == (ipaddress.ip_address(source) in networks[0])
        if isinstance(source, str):
            return False
        namespace, labels = source
        there = {"kubernetes.io/metadata.name": namespace}
        if "namespaceSelector" in peer:
            here = selects(peer["namespaceSelector"], there)
        else:
            here = namespace == policy["metadata"]["namespace"]
        return here and selects(peer.get("podSelector", {}), labels)

    return any(
        (not rule.get("ports") or any(by_port(item) for item in rule["ports"]))
        and (not rule.get("from") or any(by_peer(peer) for peer in rule["from"]))
        for rule in policy["spec"]["ingress"]
    )


KEYS = st.sampled_from(("app", "tier"))
WORDS = st.sampled_from(("x", "y"))
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "operator": st.sampled_from(("In", "NotIn")),
            "values": st.lists(WORDS, min_size=1, max_size=2, unique=True),
        }
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(("Exists", "DoesNotExist"))}),
)
SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": st.dictionaries(KEYS, WORDS), "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}
)
NAMESPACES = st.sampled_from((NAMESPACE, "other", "third")).map(
    lambda name: {"matchLabels": {"kubernetes.io/metadata.name": name}}
)
BLOCKS = st.sampled_from(("10.0.0.0/28", "10.0.0.0/29", "10.0.0.0/30", "10.0.0.4/30", "10.0.0.8/29", "10.0.0.6/32"))
PEERS = st.one_of(
    st.fixed_dictionaries({"podSelector": SELECTORS}, optional={"namespaceSelector": NAMESPACES}),
    st.fixed_dictionaries({"namespaceSelector": NAMESPACES}),
    BLOCKS.map(lambda block: {"ipBlock": {"cidr": block}}),
    st.just({"ipBlock": {"cidr": "10.0.0.0/28", "except": ["10.0.0.8/29"]}}),
    st.just({"ipBlock": {"cidr": "10.0.0.0/29", "except": ["10.0.0.0/30"]}}),
)
RANGES = st.sampled_from(({"port": 8080}, {"port": 9090}, {"port": 8000, "endPort": 9000}, {"port": 80}, {}))
RULES = st.fixed_dictionaries(
    {}, optional={"from": st.lists(PEERS, min_size=1, max_size=3), "ports": st.lists(RANGES, min_size=1, max_size=2)}
)


@examples(300)
@given(st.lists(RULES, max_size=2))
def test_it_says_the_same_as_a_search_through_all_sources(rules: Any) -> None:
    policy = other(rules)
    more = any(
        admits(policy, source, target) and not admits(OWN, source, target)
        for source in [*SOURCES, *ADDRESSES]
        for target in PORTS
    )
    assert admits_more(OWN, PORTS, policy) == more
