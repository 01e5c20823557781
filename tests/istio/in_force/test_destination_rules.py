"""DestinationRules: namespaces, merging, subsets, ports, and what Istio does without them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.istio.in_force.meshes import (
    app,
    destination_rule,
    entry,
    injected,
    judged,
    lines,
    peer_authentication,
    port,
    sidecar,
    to,
    unused_lines,
    virtual_service,
)
from tests.istio.objects import NETWORKING, Json, thing

POOL = {"connectionPool": {"tcp": {"maxConnections": 1}}}
OUTLIERS = {"outlierDetection": {"consecutive5xxErrors": 3}}
BALANCING = {"loadBalancer": {"simple": "ROUND_ROBIN"}}
TWO = [*injected("shop", "bank", "istio-system"), *app("cart"), *app("pay", "bank")]
PAY = "pay.bank.svc.cluster.local"
OLD, NEW = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"


def clients(*rules: Json, mesh: list[Json] = TWO) -> set[str]:
    """What a client in `shop` has for `pay.bank`."""
    return {line.removeprefix("cart> pay.bank") for line in lines(*mesh, *rules) if line.startswith("cart> pay.bank")}


def rule(name: str, space: str, host: str = PAY, /, policy: Json = BALANCING, **spec: Any) -> Json:
    return destination_rule(name, space, host=host, trafficPolicy=policy, **spec)


def of(*names: str) -> set[str]:
    return {f":80 {name}: balancing (7)" for name in names}


def test_the_clients_namespace_goes_before_that_of_the_host_and_that_before_the_root() -> None:
    own, host, root = rule("own", "shop"), rule("host", "bank"), rule("root", "istio-system")
    assert clients(root) == of("root")
    assert clients(root, host) == of("host")
    assert clients(root, host, own) == of("own")


def test_a_wildcard_of_the_client_goes_before_the_exact_rule_of_the_host() -> None:
    assert clients(rule("wild", "shop", "*.bank.svc.cluster.local"), rule("exact", "bank")) == of("wild")
    assert clients(rule("all", "shop", "*"), rule("exact", "bank")) == of("all")


def test_within_one_namespace_the_most_specific_host_wins_alone() -> None:
    wild, long = rule("wild", "shop", "*.cluster.local"), rule("long", "shop", "*.bank.svc.cluster.local")
    assert clients(wild, long) == of("long")
    assert clients(wild, long, rule("exact", "shop", policy=OUTLIERS)) == {":80 exact: outlier detection (7)"}


def test_a_host_that_is_hidden_leaves_the_root_namespace() -> None:
    hidden = rule("hidden", "bank", exportTo=["."])
    assert clients(hidden, rule("root", "istio-system")) == of("root")
    assert clients(rule("named", "bank", exportTo=["shop"]), rule("root", "istio-system")) == of("named")
    assert clients(rule("other", "bank", exportTo=["other"])) == set()


def test_clients_in_the_root_namespace_take_the_rule_of_the_host_first() -> None:
    mesh = [*injected("bank", "istio-system"), *app("cart", "istio-system"), *app("pay", "bank")]
    everywhere = rule("root", "istio-system", "*.local")
    assert clients(everywhere, rule("host", "bank"), mesh=mesh) == of("host")
    private = rule("root", "istio-system", "*.local", exportTo=["."])
    assert clients(private, rule("host", "bank"), mesh=mesh) == of("root")


def test_rules_of_one_host_are_merged_the_oldest_traffic_policy_counts() -> None:
    first = destination_rule("z", "bank", host=PAY, trafficPolicy=POOL, created=OLD)
    second = destination_rule("a", "bank", host=PAY, trafficPolicy=OUTLIERS, created=NEW)
    assert clients(first, second) == {":80 z: connection pools (7)"}
    without = destination_rule("z", "bank", host=PAY, created=OLD)
    assert clients(without, second) == {":80 a: outlier detection (7)"}
    assert unused_lines(*TWO, first, second) == {"a/spec/trafficPolicy: OLDER_WINS z"}


def test_of_rules_without_a_time_the_name_decides() -> None:
    assert clients(rule("b", "bank", policy=POOL), rule("a", "bank")) == of("a")


def test_subsets_of_merged_rules_add_up() -> None:
    subsets = [
        destination_rule(name, "bank", host=PAY, subsets=[{"name": name, "trafficPolicy": BALANCING}])
        for name in ("v1", "v2")
    ]
    routes = [{"route": [to(PAY, subset="v1") | {"weight": 50}, to(PAY, subset="v2") | {"weight": 50}]}]
    split = virtual_service("split", hosts=[PAY], http=routes)
    assert {line for line in clients(*subsets, split) if "split" not in line} == of("v1", "v2")


def test_a_subset_that_no_route_uses_does_nothing() -> None:
    subset = destination_rule("d", "bank", host=PAY, subsets=[{"name": "v1", "trafficPolicy": POOL}])
    assert clients(subset) == set()
    assert unused_lines(*TWO, subset) == {"d/spec/subsets/0: NO_ROUTE"}
    none = [{"route": [to(PAY, subset="v1") | {"weight": 0}, to(PAY) | {"weight": 100}]}]
    assert not any("d" in line.split(":")[1] for line in clients(subset, virtual_service("r", hosts=[PAY], http=none)))


def test_a_subset_has_what_the_rule_has_and_replaces_what_it_says_itself() -> None:
    subset = {"name": "v1", "trafficPolicy": BALANCING}
    both = destination_rule("d", "bank", host=PAY, trafficPolicy={**POOL, **BALANCING}, subsets=[subset])
    route = virtual_service("r", "bank", hosts=[PAY], http=[{"route": [to(PAY, subset="v1")]}])
    assert clients(both, route) == {
        ":80 r: a route (7)",
        ":80 d: connection pools (7)",
        ":80 d: balancing (7)",
    }


@pytest.mark.parametrize(("number", "effects"), [(80, {"outlier detection"}), (90, {"connection pools"})])
def test_settings_of_a_port_replace_those_of_the_host_as_a_whole(number: int, effects: set[str]) -> None:
    mesh = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank", port(80), port(90, "http-b"))]
    own = {**POOL, "portLevelSettings": [{"port": {"number": 80}, **OUTLIERS}]}
    done = clients(rule("d", "bank", policy=own), mesh=mesh)
    assert {line for line in done if line.startswith(f":{number}")} == {f":{number} d: {it} (7)" for it in effects}


def test_an_empty_outlier_detection_is_one() -> None:
    assert clients(rule("d", "bank", policy={"outlierDetection": {}})) == {":80 d: outlier detection (7)"}


def test_a_rule_for_some_workloads_holds_in_its_own_namespace_for_them() -> None:
    selected = {"workloadSelector": {"matchLabels": {"app": "cart"}}}
    other = {"workloadSelector": {"matchLabels": {"app": "none"}}}
    everywhere = rule("all", "shop", policy=POOL)
    assert clients(rule("some", "shop", **selected), everywhere) == of("some")
    assert clients(rule("some", "shop", **other), everywhere) == {":80 all: connection pools (7)"}
    assert clients(rule("some", "bank", **selected)) == set()


def test_a_server_has_the_pools_of_its_clients_too() -> None:
    done = lines(*TWO, rule("d", "bank", policy={**POOL, **OUTLIERS}))
    assert {line for line in done if line.startswith("pay<")} == {"pay<:80 d: connection pools (7)"}
    assert not any(line.startswith("pay<") for line in lines(*TWO, rule("d", "shop", policy=POOL)))


def tls(mode: str, **more: Any) -> Json:
    return {"tls": {"mode": mode, **more}}


def test_mutual_tls_that_a_sidecar_begins_by_itself_does_nothing() -> None:
    own = rule("d", "bank", policy=tls("ISTIO_MUTUAL"))
    assert clients(own) == set()
    assert unused_lines(*TWO, own) == {"d: DEFAULT"}


def test_mutual_tls_still_hides_the_rules_of_other_namespaces() -> None:
    assert clients(rule("own", "shop", policy=tls("ISTIO_MUTUAL")), rule("host", "bank")) == set()


MUTUAL = ":80 d: mTLS that the client begins"


def test_mutual_tls_does_something_where_sidecars_would_not_begin_it() -> None:
    own = rule("d", "bank", policy=tls("ISTIO_MUTUAL"))
    off = thing("v1", "ConfigMap", "istio", "istio-system", data={"mesh": "enableAutoMtls: false"})
    assert clients(own, off) == {f"{MUTUAL} (4)"}
    assert clients(own, peer_authentication("p", "bank", mtls={"mode": "DISABLE"})) == {f"{MUTUAL} (4)"}
    ports = {"selector": {"matchLabels": {"app": "pay"}}, "portLevelMtls": {"80": {"mode": "DISABLE"}}}
    assert clients(own, peer_authentication("p", "bank", **ports)) == {f"{MUTUAL} (4)"}
    bare = app("pay2", "bank", labels={"app": "pay"}, annotations={"sidecar.istio.io/inject": "false"})[:1]
    assert clients(own, *bare) == {f"{MUTUAL} (4)"}


LABEL = "security.istio.io/tlsMode"


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ({"labels": {"app": "pay", LABEL: "istio"}}, set()),
        ({"labels": {"app": "pay"}, "serviceAccount": "pay"}, set()),
        ({"labels": {"app": "pay"}}, {f"{MUTUAL} (4)"}),
        ({"labels": {"app": "pay", LABEL: "disabled"}, "serviceAccount": "pay"}, {f"{MUTUAL} (4)"}),
        ({"labels": {"app": "other"}}, set()),
    ],
)
def test_a_machine_has_a_proxy_by_its_label_or_else_by_its_account(machine: Json, expected: set[str]) -> None:
    own = rule("d", "bank", policy=tls("ISTIO_MUTUAL"))
    vm = thing(NETWORKING, "WorkloadEntry", "vm", "bank", spec={"address": "192.0.2.1", **machine})
    assert clients(own, vm) == expected


def test_a_service_without_an_address_has_no_machines() -> None:
    headless = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank")]
    headless[-1]["spec"]["clusterIP"] = "None"
    vm = thing(NETWORKING, "WorkloadEntry", "vm", "bank", spec={"address": "192.0.2.1", "labels": {"app": "pay"}})
    assert clients(rule("d", "bank", policy=tls("ISTIO_MUTUAL")), vm, mesh=headless) == set()


@pytest.mark.parametrize("more", [{"sni": "x"}, {"subjectAltNames": ["x"]}])
def test_mutual_tls_with_names_of_its_own_does_something(more: Json) -> None:
    assert clients(rule("d", "bank", policy=tls("ISTIO_MUTUAL", **more))) == {f"{MUTUAL} (7)"}


def test_other_modes_of_tls() -> None:
    assert clients(rule("d", "bank", policy=tls("DISABLE"))) == {":80 d: plain text (4)"}
    outside = entry(
        "e", hosts=["api.example.com"], ports=[{"number": 443, "name": "tls", "protocol": "TLS"}], resolution="DNS"
    )
    simple = destination_rule("d", host="api.example.com", trafficPolicy=tls("SIMPLE"))
    assert "cart> api.example.com:443 d: TLS (7)" in lines(*TWO, outside, simple)


def test_a_rule_without_a_host_of_the_mesh() -> None:
    assert unused_lines(*TWO, rule("d", "bank", "nothing.bank.svc.cluster.local")) == {"d: NO_HOST"}
    assert unused_lines(*TWO, rule("d", "other")) == {"d: NOT_SEEN"}


def test_what_a_gateway_uses_is_in_force_there() -> None:
    subsets = destination_rule("d", "bank", host=PAY, subsets=[{"name": "v1"}, {"name": "v2"}])
    http = [{"route": [to(PAY, subset="v1")]}]
    edge = virtual_service("edge", hosts=["a.example"], gateways=["gw"], http=http)
    assert unused_lines(*TWO, subsets, edge) == {"d/spec/subsets/1: NO_ROUTE"}
    assert clients(subsets, edge) == set()
    own = rule("d", "edge")  # of the gateway's namespace
    assert unused_lines(*TWO, own) == {"d: NOT_SEEN"}
    assert unused_lines(*TWO, own, edge) == set()


def two_ports(*ports: Json) -> list[Json]:
    return [*injected("shop", "bank"), *app("cart"), *app("pay", "bank", *ports)]


def test_a_cluster_to_which_nothing_leads_does_nothing() -> None:
    away = [to("cart.shop.svc.cluster.local")]
    http = virtual_service("h", "bank", hosts=[PAY], http=[{"route": away}])
    tcp = virtual_service("t", "bank", hosts=[PAY], tcp=[{"route": away}])
    own = rule("d", "bank")
    assert clients(own, http) & of("d") == set()
    detected = two_ports(port(90, "any"))
    assert ":90 d: balancing (7)" in clients(own, http, mesh=detected)
    assert ":90 d: balancing (7)" in clients(own, tcp, mesh=detected)
    assert ":90 d: balancing (7)" not in clients(own, http, tcp, mesh=detected)
    assert clients(own, mesh=two_ports(port(53, "udp", protocol="UDP"))) == set()


def test_a_tcp_route_for_some_addresses_leaves_the_others_to_the_host() -> None:
    mesh = two_ports(port(90, "tcp-a"))
    away = {"route": [to("cart.shop.svc.cluster.local")]}
    some = virtual_service("t", "bank", hosts=[PAY], tcp=[{"match": [{"destinationSubnets": ["10.0.0.0/8"]}], **away}])
    assert ":90 d: balancing (7)" in clients(rule("d", "bank"), some, mesh=mesh)
    every = virtual_service("t", "bank", hosts=[PAY], tcp=[away])
    assert ":90 d: balancing (7)" not in clients(rule("d", "bank"), every, mesh=mesh)


def test_a_host_that_only_a_route_makes_known_is_called_at_the_port_of_the_route() -> None:
    mesh = [*two_ports(port(80), port(81)), *app("log", "bank", port(80))]
    narrow = sidecar("s", "shop", egress=[{"hosts": ["*/log.bank.svc.cluster.local"]}])
    leading = virtual_service("v", "bank", hosts=["log"], http=[{"route": [to(PAY, port={"number": 81})]}])
    assert clients(rule("d", "bank"), narrow, leading, mesh=mesh) == {":81 d: balancing (7)"}


def test_a_route_without_a_port_leads_to_the_port_of_the_request() -> None:
    mesh = [*two_ports(port(90)), *app("log", "bank", port(80))]
    http = virtual_service("h", "bank", hosts=["log"], http=[{"route": [to(PAY)], "timeout": "1s"}])
    away = virtual_service("a", "bank", hosts=[PAY], http=[{"route": [to("cart.shop.svc.cluster.local")]}])
    assert ":90 d: balancing (7)" not in clients(rule("d", "bank"), http, away, mesh=mesh)
    named = virtual_service("h", "bank", hosts=["log"], http=[{"route": [to(PAY, port={"number": 90})]}])
    assert ":90 d: balancing (7)" in clients(rule("d", "bank"), named, away, mesh=mesh)


def test_a_tcp_route_without_a_port_leads_to_the_only_port_of_its_host() -> None:
    mesh = [*two_ports(port(90, "tcp-a")), *app("log", "bank", port(91, "tcp-a"))]
    tcp = virtual_service("t", "bank", hosts=["log"], tcp=[{"route": [to(PAY)]}])
    away = virtual_service("a", "bank", hosts=[PAY], tcp=[{"route": [to("cart.shop.svc.cluster.local")]}])
    assert ":90 d: balancing (7)" in clients(rule("d", "bank"), tcp, away, mesh=mesh)
    assert ":90 d: balancing (7)" not in clients(rule("d", "bank"), away, mesh=mesh)


def test_effects_are_in_the_order_of_hosts_in_each_run() -> None:
    names = [f"app-{number}" for number in range(8)]
    rules = [destination_rule(name, host=name, trafficPolicy=POOL) for name in names]
    _, force = judged(*injected("shop"), *(it for name in reversed(names) for it in app(name)), *rules)
    outbound = [it.resource.object.name for it in force.sidecars[0].effects if it.direction == "outbound"]
    assert outbound == names
