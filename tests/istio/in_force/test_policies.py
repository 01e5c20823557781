"""PeerAuthentication, AuthorizationPolicy, identities, Telemetry, and what is not judged."""

from __future__ import annotations

import time

import pytest

from admc.istio.in_force.calls import EVERY_CALL, Call, Calls
from admc.istio.in_force.judge import in_force
from tests.istio.in_force.meshes import (
    app,
    authorization,
    injected,
    judged,
    lines,
    mesh,
    peer_authentication,
    port,
    resource,
    telemetry,
    to,
    unused_lines,
    virtual_service,
)
from tests.istio.objects import SECURITY, Json, deployment, labelled, thing

MESH = [*injected("shop", "bank"), *app("cart"), *app("pay", "bank")]
ROOT = "istio-system"
OLD, NEW = "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"
STRICT, PERMISSIVE, DISABLE = ({"mode": mode} for mode in ("STRICT", "PERMISSIVE", "DISABLE"))
REQUIRED = "mTLS that is required (4)"
IDENTITY = "the identity of the caller (4)"


def inbound(*documents: Json, kind: str = "PeerAuthentication", of: str = "pay<") -> set[str]:
    made = lines(*MESH, *documents, kind=kind)
    return {line.removeprefix(of).strip() for line in made if line.startswith(of)}


def selecting(name: str) -> Json:
    return {"selector": {"matchLabels": {"app": name}}}


# ---- PeerAuthentication ----


def test_a_port_goes_before_its_workload_that_before_the_namespace_and_that_before_the_mesh() -> None:
    everywhere = peer_authentication("m", ROOT, mtls=STRICT)
    namespace = peer_authentication("n", "bank", mtls=PERMISSIVE)
    workload = peer_authentication("w", "bank", mtls=STRICT, **selecting("pay"))
    ports = peer_authentication("w", "bank", mtls=STRICT, portLevelMtls={"8080": DISABLE}, **selecting("pay"))
    assert inbound(everywhere) == {f"m: {REQUIRED}"}
    assert inbound(everywhere, namespace) == {"n: mTLS that is accepted (4)"}
    assert inbound(everywhere, namespace, workload) == {f"w: {REQUIRED}"}
    assert inbound(everywhere, namespace, ports) == {f"w: {REQUIRED}", ":8080 w: plain text (4)"}


def test_a_mode_that_is_not_set_is_that_of_the_level_above() -> None:
    everywhere = peer_authentication("m", ROOT, mtls=STRICT)
    unset = peer_authentication("n", "bank", mtls={"mode": "UNSET"})
    assert inbound(everywhere, unset) == {f"m: {REQUIRED}"}
    assert unused_lines(*MESH, everywhere, unset) == {"n: DEFAULT"}
    ports = peer_authentication(
        "w", "bank", portLevelMtls={"8080": STRICT, "90": {"mode": "UNSET"}}, **selecting("pay")
    )
    assert inbound(unset, ports) == {f":8080 w: {REQUIRED}"}


def test_of_two_at_one_level_the_older_one_counts() -> None:
    older = peer_authentication("z", "bank", mtls=STRICT, created=OLD)
    younger = peer_authentication("a", "bank", mtls=DISABLE, created=NEW)
    assert inbound(older, younger) == {f"z: {REQUIRED}"}
    assert unused_lines(*MESH, older, younger) == {"a: OLDER_WINS z"}
    older = peer_authentication("z", "bank", mtls=STRICT, created=OLD, **selecting("pay"))
    younger = peer_authentication("a", "bank", mtls=DISABLE, created=NEW, **selecting("pay"))
    assert inbound(older, younger) == {f"z: {REQUIRED}"}
    assert unused_lines(*MESH, older, younger) == {"a: OLDER_WINS z"}


def test_one_with_a_selector_in_the_root_namespace_is_in_force_nowhere() -> None:
    selected = peer_authentication("r", ROOT, mtls=STRICT, **selecting("pay"))
    assert inbound(selected) == set()
    assert unused_lines(*MESH, selected) == {"r/spec/selector/matchLabels: ROOT_SELECTOR"}
    of_root = [*injected(ROOT), *app("own", ROOT), peer_authentication("r", ROOT, mtls=STRICT, **selecting("own"))]
    assert inbound(*of_root, of="own<") == set()


def test_another_root_namespace() -> None:
    settings = thing("v1", "ConfigMap", "istio", ROOT, data={"mesh": "rootNamespace: root"})
    assert inbound(settings, peer_authentication("m", "root", mtls=STRICT)) == {f"m: {REQUIRED}"}
    assert inbound(settings, peer_authentication("m", ROOT, mtls=STRICT)) == set()


def test_a_policy_for_no_pod() -> None:
    strict = peer_authentication("p", "empty", mtls=STRICT)
    assert unused_lines(*MESH, strict) == {"p: NO_WORKLOAD"}
    nothing = peer_authentication("p", "bank", mtls=STRICT, **selecting("other"))
    assert unused_lines(*MESH, nothing) == {"p: NO_WORKLOAD"}
    bare = [deployment("job", "batch"), peer_authentication("p", "batch", mtls=STRICT)]
    assert unused_lines(*MESH, *bare) == {"p: NO_SIDECAR"}
    ambient = [labelled("batch", {"istio.io/dataplane-mode": "ambient"}), *bare]
    assert unused_lines(*MESH, *ambient) == set()


# ---- AuthorizationPolicy ----

AUTHORIZATION = "AuthorizationPolicy"
ANY_CALLER = {"from": [{"source": {"ipBlocks": ["10.0.0.0/8"]}}]}


def allowed(*documents: Json) -> set[str]:
    return inbound(*documents, kind=AUTHORIZATION)


def test_a_policy_of_the_root_namespace_holds_in_all() -> None:
    assert allowed(authorization("a", ROOT, rules=[ANY_CALLER])) == {"a: authorization (4)"}
    assert allowed(authorization("a", "bank", rules=[ANY_CALLER])) == {"a: authorization (4)"}
    assert allowed(authorization("a", "shop", rules=[ANY_CALLER])) == set()
    assert allowed(authorization("a", ROOT, rules=[ANY_CALLER], **selecting("pay"))) == {"a: authorization (4)"}
    assert allowed(authorization("a", ROOT, rules=[ANY_CALLER], **selecting("cart"))) == set()


def test_an_allow_without_rules_refuses_all_and_other_actions_without_rules_nothing() -> None:
    assert allowed(authorization("a", "bank")) == {"a: authorization (4)"}
    for action in ("DENY", "AUDIT"):
        nothing = authorization("a", "bank", action=action)
        assert allowed(nothing) == set()
        assert unused_lines(*MESH, nothing) == {"a: NEVER_MATCHES"}


def test_an_allow_of_everything_voids_each_allow_beside_it() -> None:
    everything, some = authorization("all", "bank", rules=[{}]), authorization("some", "bank", rules=[ANY_CALLER])
    deny = authorization("deny", "bank", action="DENY", rules=[ANY_CALLER])
    void = "an ALLOW beside an ALLOW of everything (4)"
    assert allowed(everything, some, deny) == {f"all: {void}", f"some: {void}", "deny: authorization (4)"}
    dry = authorization("all", "bank", rules=[{}])
    dry["metadata"]["annotations"] = {"istio.io/dry-run": "true"}
    assert allowed(dry, some) == {"all: authorization as a dry run (7)", "some: authorization (4)"}


@pytest.mark.parametrize(
    ("rule", "layer"),
    [
        ({"from": [{"source": {"principals": ["a"], "notNamespaces": ["b"]}}]}, 4),
        ({"from": [{"source": {"ipBlocks": ["10.0.0.0/8"]}}], "to": [{"operation": {"ports": ["80"]}}]}, 4),
        ({"when": [{"key": "source.namespace", "values": ["a"]}, {"key": "destination.port", "values": ["80"]}]}, 4),
        ({"from": [{"source": {"remoteIpBlocks": ["10.0.0.0/8"]}}]}, 7),
        ({"from": [{"source": {"requestPrincipals": ["a"]}}]}, 7),
        ({"to": [{"operation": {"methods": ["GET"]}}]}, 7),
        ({"to": [{"operation": {"notPaths": ["/a"]}}]}, 7),
        ({"when": [{"key": "request.headers[a]", "values": ["b"]}]}, 7),
        ({"when": [{"key": "connection.sni", "values": ["b"]}]}, 7),
    ],
)
def test_what_a_proxy_has_to_read(rule: Json, layer: int) -> None:
    assert allowed(authorization("a", "bank", rules=[rule])) == {f"a: authorization ({layer})"}
    assert allowed(authorization("a", "bank", rules=[rule], action="DENY")) == {f"a: authorization ({layer})"}


def test_other_actions_are_of_requests() -> None:
    audit = authorization("a", "bank", action="AUDIT", rules=[ANY_CALLER])
    custom = authorization("c", "bank", action="CUSTOM", provider={"name": "x"}, rules=[ANY_CALLER])
    assert allowed(audit, custom) == {"a: authorization (7)", "c: authorization (7)"}


def test_a_policy_of_a_waypoint_holds_at_no_sidecar() -> None:
    target = {"targetRefs": [{"kind": "Service", "group": "", "name": "pay"}]}
    assert allowed(authorization("a", "bank", rules=[ANY_CALLER], **target)) == set()
    assert unused_lines(*MESH, authorization("a", "bank", rules=[ANY_CALLER], **target)) == set()


METHODS = {"to": [{"operation": {"methods": ["GET"]}}]}


@pytest.mark.parametrize(
    ("action", "name", "is_lost"),
    [
        ("ALLOW", "tcp", True),
        ("DENY", "tcp", False),
        ("AUDIT", "mongo", False),
        ("DENY", "http", None),
        ("DENY", "x", None),
    ],
)
def test_http_fields_at_a_port_without_http(action: str, name: str, is_lost: bool | None) -> None:
    documents = [
        *injected("shop"),
        *app("cart", "shop", port(90, name)),
        authorization("a", action=action, rules=[METHODS]),
    ]
    widened = judged(*documents)[1].widened
    assert [it.is_lost for it in widened] == ([] if is_lost is None else [is_lost])
    assert [it.port for it in widened] == ([] if is_lost is None else [90])


def test_an_operation_for_other_ports_is_not_widened() -> None:
    rule = {"to": [{"operation": {"methods": ["GET"], "ports": ["80"]}}]}
    ports = [port(80), port(90, "tcp")]
    assert judged(*injected("shop"), *app("cart", "shop", *ports), authorization("a", rules=[rule]))[1].widened == ()


# ---- identities ----


def callers(*documents: Json, calls: Calls = EVERY_CALL) -> set[str]:
    mesh_of = [*injected("shop", "bank"), *app("a", serviceAccountName="a"), *app("b"), *app("pay", "bank")]
    done = lines(*mesh_of, *documents, calls=calls)
    return {line.partition(">")[0] for line in done if line.endswith(IDENTITY)}


def source(**fields: list[str]) -> Json:
    return authorization("p", "bank", rules=[{"from": [{"source": fields}]}], **selecting("pay"))


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (source(principals=["cluster.local/ns/shop/sa/a"]), {"a"}),
        (source(principals=["*/sa/a"]), {"a"}),
        (source(principals=["cluster.*/ns/*/sa/a"]), {"a"}),
        (source(principals=["cluster?local/ns/shop/sa/[a]"]), set()),
        (source(principals=["cluster.local/ns/shop/*"]), {"a", "b"}),
        (source(principals=["*"]), {"a", "b"}),
        (source(notPrincipals=["cluster.local/ns/shop/sa/a"]), {"a", "b"}),
        (source(namespaces=["shop"]), {"a", "b"}),
        (source(serviceAccounts=["shop/a"]), {"a"}),
        (source(serviceAccounts=["shop/default"]), {"b"}),
        (source(serviceAccounts=["a"]), set()),  # one of the policy's own namespace
        (source(trustDomains=["other"]), set()),
        (source(ipBlocks=["10.0.0.0/8"]), set()),
        (authorization("p", "bank", rules=[METHODS]), set()),
        (authorization("p", "bank"), set()),
        (
            authorization(
                "p", "bank", action="DENY", rules=[{"when": [{"key": "source.namespace", "notValues": ["shop"]}]}]
            ),
            {"a", "b"},
        ),
        (peer_authentication("p", "bank", mtls=STRICT), {"a", "b"}),
        (peer_authentication("p", "bank", mtls=PERMISSIVE), set()),
        (peer_authentication("p", "empty", mtls=STRICT), set()),
    ],
)
def test_callers_whose_identity_is_asked_for(policy: Json, names: set[str]) -> None:
    assert callers(policy) == names


def test_a_name_with_many_stars_takes_little_time() -> None:
    account = "a" * 100
    documents = [*injected("shop", "bank"), *app("a", serviceAccountName=account), *app("pay", "bank")]
    start = time.process_time()
    lines(*documents, source(principals=[f"{'*a' * 5}*b"]))
    assert time.process_time() - start < 1


def test_callers_are_those_that_call() -> None:
    calls = Calls(frozenset((Call("shop", "b", "pay.bank.svc.cluster.local"),)))
    assert callers(peer_authentication("p", "bank", mtls=STRICT), calls=calls) == {"b"}


def test_a_port_that_requires_no_mtls_needs_no_identity() -> None:
    ports = {"portLevelMtls": {"80": DISABLE}, "mtls": STRICT}
    assert callers(peer_authentication("p", "bank", **ports, **selecting("pay"))) == set()


def test_a_server_in_ambient_mode_needs_the_identity_of_a_sidecar() -> None:
    ambient = labelled("bank", {"istio.io/dataplane-mode": "ambient"})
    documents = [*injected("shop"), ambient, *app("a"), *app("pay", "bank")]
    done = lines(*documents, peer_authentication("p", "bank", mtls=STRICT))
    assert done == {f"a> pay.bank p: {IDENTITY}"}


# ---- calls ----


def test_effects_for_hosts_that_are_not_called() -> None:
    pay, cart = "pay.bank.svc.cluster.local", "cart.shop.svc.cluster.local"
    route = virtual_service("v", "bank", hosts=[pay], http=[{"route": [to(cart)]}])

    def sidecars(host: str) -> set[str]:
        return {line.split()[0] for line in lines(*MESH, route, calls=Calls(frozenset((Call("shop", "cart", host),))))}

    assert sidecars(pay) == {"cart>"}
    assert sidecars(cart) == {"cart>"}  # metrics name the host to which the route led
    assert sidecars("other") == set()
    made = mesh(*MESH, route)
    nothing = in_force(made, Calls(frozenset()))
    assert [len(it.clients.outbound.effects) - len(it.clients.effects) for it in nothing.sidecars] == [1, 1]
    assert unused_lines(*MESH, route, calls=Calls(frozenset())) == {"v: NO_CALLER"}


# ---- Telemetry ----


def logs(name: str, space: str, **more: object) -> Json:
    return telemetry(name, space, accessLogging=[{"providers": [{"name": "envoy"}]}], **more)


def reports(*documents: Json) -> set[str]:
    return inbound(*documents, kind="Telemetry", of="pay=")


def test_telemetry_of_the_root_of_the_namespace_and_of_the_workload_add_up() -> None:
    root, own, some = logs("r", ROOT), logs("n", "bank"), logs("w", "bank", **selecting("pay"))
    assert reports(root, own, some) == {"r: telemetry (7)", "n: telemetry (7)", "w: telemetry (7)"}
    assert reports(logs("x", ROOT, **selecting("pay"))) == set()
    assert reports(logs("x", "bank", **selecting("cart"))) == set()


def test_of_two_for_a_namespace_the_older_one_counts() -> None:
    older, younger = logs("z", "bank", created=OLD), logs("a", "bank", created=NEW)
    assert reports(older, younger) == {"z: telemetry (7)"}
    assert unused_lines(*MESH, older, younger) == {"a: OLDER_WINS z"}


@pytest.mark.parametrize(
    ("part", "needs"),
    [
        ({"tracing": [{"disableSpanReporting": True}]}, False),
        ({"tracing": [{"randomSamplingPercentage": 10}]}, True),
        ({"accessLogging": [{"disabled": True}]}, False),
        ({"accessLogging": [{}]}, True),
        ({"metrics": [{"overrides": [{"match": {"metric": "ALL_METRICS"}, "disabled": True}]}]}, False),
        ({"metrics": [{"overrides": [{"tagOverrides": {"a": {"operation": "REMOVE"}}}]}]}, True),
    ],
)
def test_what_only_turns_something_off_needs_no_sidecar(part: Json, needs: bool) -> None:
    assert bool(reports(telemetry("t", "bank", **part))) is needs


# ---- what is not judged ----


def kept(*documents: Json) -> set[str]:
    return {line.split()[0] for line in lines(*MESH, *documents) if line.endswith("not judged (7)")}


def envoy_filter(space: str, context: str = "SIDECAR_INBOUND", **more: object) -> Json:
    patch = {"applyTo": "HTTP_FILTER", "match": {"context": context}, "patch": {"operation": "MERGE"}}
    return resource("networking.istio.io/v1alpha3", "EnvoyFilter", "f", space, None, {"configPatches": [patch], **more})


def test_what_is_not_judged_keeps_the_sidecars_that_it_concerns() -> None:
    assert kept(envoy_filter(ROOT)) == {"cart=", "pay="}
    assert kept(envoy_filter("bank")) == {"pay="}
    assert kept(envoy_filter("bank", workloadSelector={"labels": {"app": "x"}})) == set()
    assert kept(envoy_filter(ROOT, "GATEWAY")) == set()
    jwt = {"jwtRules": [{"issuer": "a", "jwksUri": "https://a/b"}]}
    assert kept(resource(SECURITY, "RequestAuthentication", "r", "shop", None, jwt)) == {"cart="}
    empty = resource(SECURITY, "RequestAuthentication", "r", "shop", None, {})
    assert kept(empty) == set()
    assert unused_lines(*MESH, empty) == {"r: NEVER_MATCHES"}
    wasm = resource("extensions.istio.io/v1alpha1", "WasmPlugin", "w", "shop", None, {"url": "oci://x"})
    assert kept(wasm) == {"cart="}


def test_routes_of_the_gateway_api_for_a_service_keep_its_clients() -> None:
    parent = {"kind": "Service", "group": "", "name": "pay", "port": 80}
    mesh_route = resource("gateway.networking.k8s.io/v1", "HTTPRoute", "h", "bank", None, {"parentRefs": [parent]})
    assert kept(mesh_route) == {"cart>", "pay>"}
    gateway = {"parentRefs": [{"name": "gw"}]}
    assert kept(resource("gateway.networking.k8s.io/v1", "HTTPRoute", "h", "bank", None, gateway)) == set()
