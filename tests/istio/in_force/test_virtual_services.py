"""VirtualServices: order, scope, first route, catch-alls, delegates, connections, and routes that do nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.istio.in_force.meshes import app, entry, injected, lines, port, to, unused_lines, virtual_service
from tests.istio.objects import NETWORKING, Json, thing

MESH = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank")]
PAY = "pay.bank.svc.cluster.local"
OLD, NEW = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
HTTP = {"number": 80, "name": "http", "protocol": "HTTP"}
TIMEOUT = {"timeout": "1s"}


def client(*documents: Json, mesh: list[Json] = MESH) -> set[str]:
    """The resources that a client in `shop` has, with their host and port."""
    done = lines(*mesh, *documents, kind="VirtualService")
    return {line.removeprefix("cart> ").removesuffix(": a route (7)") for line in done if line.startswith("cart>")}


def route(name: str, space: str = "bank", /, host: str = PAY, http: list[Json] | None = None, **spec: Any) -> Json:
    return virtual_service(name, space, hosts=[host], http=http or [{"route": [to(host)], **TIMEOUT}], **spec)


def test_a_route_for_sidecars_holds_at_each_that_sees_it() -> None:
    assert client(route("v")) == {"pay.bank:80 v"}
    assert client(route("v", gateways=["mesh", "gw"])) == {"pay.bank:80 v"}
    assert client(route("v", gateways=["gw"])) == set()


def test_private_goes_before_named_and_named_before_public_whatever_their_age() -> None:
    private = route("private", "shop", exportTo=["."], created="2023-01-01T00:00:00Z")
    named = route("named", "bank", exportTo=["shop"], created="2022-01-01T00:00:00Z")
    public = route("public", "bank", created=OLD)
    assert client(public) == {"pay.bank:80 public"}
    assert client(public, named) == {"pay.bank:80 named"}
    assert client(public, named, private) == {"pay.bank:80 private"}


def test_of_two_with_the_same_scope_the_older_one_counts_alone() -> None:
    older, younger = route("z", created=OLD), route("a", created=NEW)
    assert client(older, younger) == {"pay.bank:80 z"}
    assert unused_lines(*MESH, older, younger) == {"a: OLDER_WINS z"}


def test_export_hides() -> None:
    assert client(route("v", exportTo=["."])) == set()
    assert client(route("v", exportTo=["other"])) == set()
    settings = {"mesh": "defaultVirtualServiceExportTo: ['.']"}
    assert client(route("v"), thing("v1", "ConfigMap", "istio", "istio-system", data=settings)) == set()
    assert unused_lines(*MESH, route("v", exportTo=["other"])) == {"v: NOT_SEEN"}


def test_a_plain_route_of_a_host_to_itself_does_nothing() -> None:
    plain = [{"route": [to(PAY)]}]
    assert client(route("v", http=plain)) == set()
    assert unused_lines(*MESH, route("v", http=plain)) == {"v: DEFAULT"}
    assert client(route("v", http=[{"match": [{"uri": {"prefix": "/"}}], "route": [to(PAY)]}])) == set()
    assert client(route("v", http=[{"route": [to(PAY, port={"number": 80})]}])) == set()


@pytest.mark.parametrize(
    "http",
    [
        [{"match": [{"uri": {"prefix": "/a"}}], "route": [to(PAY)]}],  # all other paths are answered with 404
        [{"route": [to(PAY, subset="v1")]}],
        [{"route": [to("cart.shop.svc.cluster.local")]}],
        [{"route": [to(PAY)], "retries": {"attempts": 0}}],
        [{"route": [to(PAY) | {"headers": {"request": {"set": {"a": "b"}}}}]}],
        [{"route": [to(PAY) | {"weight": 50}, to(PAY) | {"weight": 50}]}],
        [{"redirect": {"uri": "/x"}}],
        [{"route": [to(PAY)], "fault": {"abort": {"httpStatus": 500, "percentage": {"value": 1}}}}],
    ],
)
def test_routes_that_do_something(http: list[Json]) -> None:
    assert client(route("v", http=http)) == {"pay.bank:80 v"}


def test_a_route_behind_one_that_takes_all_requests_does_nothing() -> None:
    behind = [{"route": [to(PAY)]}, {"route": [to(PAY)], **TIMEOUT}]
    assert client(route("v", http=behind)) == set()
    shown = [{"route": [to(PAY)], **TIMEOUT}, {"match": [{"uri": {"prefix": "/a"}}], "route": [to("x")]}]
    assert unused_lines(*MESH, route("v", http=shown)) == {"v/spec/http/1: BEHIND_ANOTHER v"}


def test_a_match_with_a_header_takes_not_all_requests() -> None:
    header = {"uri": {"prefix": "/"}, "headers": {"a": {"exact": "b"}}}
    http = [{"match": [header], "route": [to(PAY)]}, {"route": [to(PAY)], **TIMEOUT}]
    assert client(route("v", http=http)) == {"pay.bank:80 v"}


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({"sourceLabels": {"app": "cart"}}, True),
        ({"sourceLabels": {"app": "other"}}, False),
        ({"sourceNamespace": "shop"}, True),
        ({"sourceNamespace": "bank"}, False),
        ({"port": 80}, True),
        ({"port": 90}, False),
        ({"gateways": ["mesh"]}, True),
        ({"gateways": ["gw"]}, False),
    ],
)
def test_matches_that_are_decided_at_the_sidecar(match: Json, holds: bool) -> None:
    http = [{"match": [match], "route": [to(PAY)], **TIMEOUT}]
    assert client(route("v", http=http)) == ({"pay.bank:80 v"} if holds else set())


def test_a_resource_without_a_route_for_a_sidecar_leaves_the_host_to_the_next_one() -> None:
    first = route("a", http=[{"match": [{"sourceLabels": {"app": "other"}}], "route": [to(PAY)], **TIMEOUT}])
    assert client(first, route("b")) == {"pay.bank:80 b"}


def test_an_exact_host_goes_before_a_wildcard_and_a_long_wildcard_before_a_short_one() -> None:
    short, long = route("a", host="*.cluster.local"), route("b", host="*.bank.svc.cluster.local")
    assert client(short) == {"pay.bank:80 a", "cart.shop:80 a"}
    assert client(short, long) == {"pay.bank:80 b", "cart.shop:80 a"}
    assert client(short, long, route("c")) == {"pay.bank:80 c", "cart.shop:80 a"}


def test_http_routes_hold_at_ports_with_http_or_a_protocol_that_is_detected() -> None:
    ports = [port(80), port(81, "grpc-a"), port(82, "tcp-a"), port(83, "any"), port(3306, "any2")]
    ports += [port(84, "x", appProtocol="http2"), port(85, "https-a")]
    mesh = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank", *ports)]
    assert client(route("v"), mesh=mesh) == {f"pay.bank:{number} v" for number in (80, 81, 83, 84)}
    only_tcp = [*injected("shop", "bank"), *app("cart", "shop", port(81, "tcp")), *app("pay", "bank", port(82, "tcp"))]
    assert unused_lines(*only_tcp, route("v")) == {"v: NO_PORT"}


def test_a_host_that_is_none_of_the_mesh_has_routes_at_port_80_alone() -> None:
    outside = route("v", "shop", "www.example.com")
    assert client(outside) == {"www.example.com:80 v"}
    mesh = [*injected("shop"), *app("cart", "shop", port(8080))]
    assert client(outside, mesh=mesh) == set()
    assert unused_lines(*mesh, outside) == {"v: NO_HOST"}


def test_a_host_is_none_of_the_mesh_at_a_port_that_it_lacks() -> None:
    mesh = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank", port(90))]
    assert client(route("v"), mesh=mesh) == {"pay.bank:80 v", "pay.bank:90 v"}
    both = virtual_service("v", "bank", hosts=[PAY, "www.example.com"], http=[{"route": [to(PAY)], **TIMEOUT}])
    assert client(both, mesh=mesh) == {
        f"{host}:{number} v" for host in ("pay.bank", "www.example.com") for number in (80, 90)
    }
    detected = [*injected("shop", "bank"), *app("cart", "shop", port(91)), *app("pay", "bank", port(90, "any"))]
    assert client(both, mesh=detected) == {"pay.bank:90 v"}


def test_routes_of_connections() -> None:
    mesh = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank", port(82, "tcp-a"), port(443, "tls"))]
    tcp = virtual_service("t", "bank", hosts=[PAY], tcp=[{"route": [to("cart.shop.svc.cluster.local")]}])
    assert client(tcp, mesh=mesh) == {"pay.bank:82 t"}
    plain = virtual_service("t", "bank", hosts=[PAY], tcp=[{"route": [to(PAY)]}])
    assert client(plain, mesh=mesh) == set()
    other_port = virtual_service("t", "bank", hosts=[PAY], tcp=[{"route": [to(PAY, port={"number": 443})]}])
    assert client(other_port, mesh=mesh) == {"pay.bank:82 t"}
    tls = [{"match": [{"sniHosts": ["x"]}], "route": [to(PAY, port={"number": 443})]}]
    assert client(virtual_service("s", "bank", hosts=[PAY], tls=tls), mesh=mesh) == {"pay.bank:443 s"}
    wrong = [{"match": [{"sniHosts": ["x"], "port": 1}], "route": [to(PAY)]}]
    assert client(virtual_service("s", "bank", hosts=[PAY], tls=wrong), mesh=mesh) == set()


def test_the_first_tcp_route_takes_all_connections() -> None:
    mesh = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank", port(82, "tcp-a"))]
    other = {"route": [to("cart.shop.svc.cluster.local")]}
    first = virtual_service("a", "bank", hosts=[PAY], tcp=[other], created=OLD)
    second = virtual_service("b", "bank", hosts=[PAY], tcp=[other], created=NEW)
    assert client(first, second, mesh=mesh) == {"pay.bank:82 a"}
    assert unused_lines(*mesh, first, second) == {"b: OLDER_WINS a"}
    some = {"match": [{"destinationSubnets": ["10.0.0.0/8"]}], **other}
    subnets = virtual_service("a", "bank", hosts=[PAY], tcp=[some], created=OLD)
    assert client(subnets, second, mesh=mesh) == {"pay.bank:82 a", "pay.bank:82 b"}


def test_a_plain_tcp_route_does_nothing() -> None:
    mesh = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank", port(82, "tcp-a"))]
    assert client(virtual_service("t", "bank", hosts=[PAY], tcp=[{"route": [to(PAY)]}]), mesh=mesh) == set()


def test_delegates() -> None:
    inner = virtual_service("inner", "bank", http=[{"route": [to(PAY)], **TIMEOUT}])
    outer = virtual_service("outer", "bank", hosts=[PAY], http=[{"delegate": {"name": "inner"}}])
    assert client(outer, inner) == {"pay.bank:80 outer", "pay.bank:80 inner"}
    assert client(inner) == set()
    assert unused_lines(*MESH, inner) == {"inner: NO_DELEGATION"}
    hidden = virtual_service("inner", "shop", http=[{"route": [to(PAY)], **TIMEOUT}], exportTo=["."])
    named = virtual_service("outer", "bank", hosts=[PAY], http=[{"delegate": {"name": "inner", "namespace": "shop"}}])
    assert client(named, hidden) == set()


@pytest.mark.parametrize(
    ("outer", "inner", "holds"),
    [
        ({"prefix": "/a"}, {"prefix": "/a/b"}, True),
        ({"prefix": "/a"}, {"exact": "/a/b"}, True),
        ({"prefix": "/a/b"}, {"prefix": "/a"}, False),
        ({"exact": "/a"}, {"prefix": "/a"}, False),
        ({"exact": "/a"}, {"exact": "/a"}, True),
        ({"regex": "/a.*"}, {"prefix": "/a"}, False),
    ],
)
def test_a_delegate_whose_match_is_not_within_that_of_its_root_has_no_route(
    outer: Json, inner: Json, holds: bool
) -> None:
    root = virtual_service("outer", "bank", hosts=[PAY], http=[{"match": [{"uri": outer}], "delegate": {"name": "i"}}])
    leaf = virtual_service("i", "bank", http=[{"match": [{"uri": inner}], "route": [to(PAY)], **TIMEOUT}])
    assert bool(client(root, leaf)) is holds


def test_a_resource_for_another_revision_is_not_read() -> None:
    other = thing(
        NETWORKING,
        "VirtualService",
        "v",
        "bank",
        metadata={"labels": {"istio.io/rev": "canary"}},
        spec={"hosts": [PAY], "http": [{"route": [to(PAY)], **TIMEOUT}]},
    )
    assert client(other) == set()
    assert unused_lines(*MESH, other) == {"v: OTHER_REVISION"}


def test_hosts_of_a_service_entry() -> None:
    outside = entry("e", "bank", hosts=["*.example.com"], ports=[HTTP])
    assert client(outside, route("v", "shop", "*.example.com")) == {"*.example.com:80 v"}
    hidden = entry("e", "bank", hosts=["api.test"], ports=[{**HTTP, "number": 90}], exportTo=["."])
    assert client(hidden, route("v", "shop", "api.test")) == {"api.test:80 v"}  # none that the client knows


def test_gateways_that_are_not_there() -> None:
    gateway = thing(NETWORKING, "Gateway", "gw", "bank", spec={"selector": {"istio": "x"}, "servers": []})
    http = [{"route": [to(PAY)], **TIMEOUT}]
    there = virtual_service("v", "shop", hosts=["x"], gateways=["bank/gw"], http=http)
    gone = virtual_service("v", "shop", hosts=["x"], gateways=["gw"], http=http)
    assert unused_lines(*MESH, gateway, there) == set()
    assert unused_lines(*MESH, gateway, gone) == {"v/spec/gateways/0: NO_GATEWAY"}
