"""Classes of clients: those of one class have what each of them has alone, and a large mesh has few classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from admc.istio.in_force import clients, sidecar_scope
from admc.istio.in_force.calls import EVERY_CALL, Call, Calls
from admc.istio.in_force.destination_rules import Rules
from admc.istio.in_force.judge import InForce, in_force
from admc.istio.mesh.model import Mesh
from admc.istio.reasons import answer, group_of
from tests.istio.in_force.meshes import (
    app,
    authorization,
    destination_rule,
    entry,
    injected,
    mesh,
    peer_authentication,
    port,
    resource,
    sidecar,
    telemetry,
    to,
    virtual_service,
)
from tests.istio.objects import Json, mesh_of, thing
from tests.istio.oracle.by_hand import CASES
from tests.istio.oracle.meshes import random_mesh

PAY, CART = "pay.bank.svc.cluster.local", "cart.shop.svc.cluster.local"
DB = "db.bank.svc.cluster.local"
POOL = {"connectionPool": {"tcp": {"maxConnections": 1}}}
STRICT = {"mode": "STRICT"}
TEAMS = 6
"""The namespaces of a large mesh."""
TIMEOUT = [{"route": [to(PAY)], "timeout": "1s"}]
SOME: Json = {"workloadSelector": {"matchLabels": {"app": "cart"}}}
MESH: list[Json] = [
    *injected("shop", "bank", "mall", "istio-system"),
    *app("cart"),
    *app("stock"),
    *app("pay", "bank"),
    *app("cart", "mall"),
    *app("gate", "istio-system"),
]
HIDDEN = {"annotations": {"networking.istio.io/exportTo": "shop"}}
EXTERNAL = {"hosts": ["a.example"], "ports": [{"number": 443, "name": "t", "protocol": "TLS"}]}

Effects = dict[str, set[tuple[object, ...]]]


def effects(force: InForce) -> Effects:
    """What each sidecar has. Of two effects of one resource at one peer the rest is the same, too."""
    return {
        f"{it.workload.namespace}/{it.workload.name}": {
            (effect.direction, effect.port, effect.peer, id(effect.resource.object), effect.resource.where, effect.what)
            for effect in it.effects
        }
        for it in force.sidecars
    }


def each_alone(made: Mesh, calls: Calls) -> InForce:
    """What is in force where each sidecar is a class of its own."""

    class Alone(clients.Classes):
        def of(self, workload: object) -> clients.Clients:
            self._outbound.clear()
            self._clients.clear()
            self._selecting.clear()
            self._scopes = sidecar_scope.Scopes(self._view, self._routes, {it.namespace for it in made.workloads})
            return super().of(workload)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("admc.istio.in_force.judge.Classes", Alone)
        return in_force(made, calls)


def routed(**more: object) -> Json:
    return virtual_service("v", "bank", hosts=[PAY], **{"http": TIMEOUT, **more})


def named(**fields: list[str]) -> Json:
    return authorization("a", "bank", rules=[{"from": [{"source": fields}]}])


CASES_OF_CLIENTS: dict[str, tuple[Json, ...]] = {
    "rules of the host's namespace": (destination_rule("d", "bank", host=PAY, trafficPolicy=POOL),),
    "rules of a client's namespace": (destination_rule("d", "shop", host=PAY, trafficPolicy=POOL),),
    "a wildcard of a client's namespace": (destination_rule("d", "shop", host="*", trafficPolicy=POOL),),
    "a wildcard of the host's namespace": (
        destination_rule("d", "bank", host="*.bank.svc.cluster.local", trafficPolicy=POOL),
    ),
    "rules for one namespace": (destination_rule("d", "bank", host=PAY, trafficPolicy=POOL, exportTo=["shop"]),),
    "private rules": (destination_rule("d", "bank", host=PAY, trafficPolicy=POOL, exportTo=["."]),),
    "rules of the root": (destination_rule("d", "istio-system", host=PAY, trafficPolicy=POOL),),
    "private rules of the root": (destination_rule("d", "istio-system", host="*", trafficPolicy=POOL, exportTo=["."]),),
    "rules for some workloads": (destination_rule("d", "shop", host=PAY, trafficPolicy=POOL, **SOME),),
    "private routes": (routed(exportTo=["."]),),
    "routes for one namespace": (routed(exportTo=["shop"]),),
    "routes for the labels of a client": (
        routed(http=[{"match": [{"sourceLabels": {"app": "cart"}}], "route": [to(PAY)], "timeout": "1s"}]),
    ),
    "routes for the namespace of a client": (
        routed(http=[{"match": [{"sourceNamespace": "shop"}], "route": [to(CART)]}, {"route": [to(PAY)]}]),
    ),
    "TCP routes for the namespace of a client": (
        *app("db", "bank", port(5432, "tcp")),
        virtual_service("v", "bank", hosts=[DB], tcp=[{"match": [{"sourceNamespace": "shop"}], "route": [to(CART)]}]),
    ),
    "hosts for one namespace": (
        *app("far", "bank"),
        thing("v1", "Service", "near", "bank", metadata=HIDDEN, spec={"selector": {"app": "far"}, "ports": [port(80)]}),
        destination_rule("d", "bank", host="near", trafficPolicy=POOL),
    ),
    "a host of two namespaces": (
        entry("e", "shop", **EXTERNAL),
        entry("e", "bank", **EXTERNAL),
        destination_rule("d", "bank", host="a.example", trafficPolicy=POOL),
    ),
    "a Sidecar of the root": (
        sidecar("s", "istio-system", egress=[{"hosts": ["./*", "istio-system/*"]}]),
        routed(),
    ),
    "a Sidecar of the root without its own namespace": (
        sidecar("s", "istio-system", egress=[{"hosts": ["*/*", "~./*"]}]),
        destination_rule("d", "bank", host=PAY, trafficPolicy=POOL),
    ),
    "a Sidecar of a namespace": (sidecar("s", "shop", egress=[{"hosts": ["bank/*"]}]), routed()),
    "mTLS of a server": (peer_authentication("p", "bank", mtls=STRICT),),
    "mTLS of all servers": (peer_authentication("p", "istio-system", mtls=STRICT),),
    "a policy that names a namespace": (named(namespaces=["shop"]),),
    "a policy that names a caller": (named(principals=["cluster.local/ns/shop/sa/default"]),),
    "a policy that names others": (named(notNamespaces=["shop"]),),
    "a route of the Gateway API": (
        resource(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "h",
            "bank",
            None,
            {"parentRefs": [{"kind": "Service", "group": "", "name": "pay", "port": 80}]},
        ),
    ),
    "telemetry": (telemetry("t", "shop", accessLogging=[{}]), routed()),
}
SOME_CALLS = Calls(frozenset((Call("shop", "cart", PAY), Call("mall", "cart", CART), Call("bank", "pay", PAY))))


@pytest.mark.parametrize("calls", [EVERY_CALL, SOME_CALLS], ids=["every call", "some calls"])
@pytest.mark.parametrize("case", CASES_OF_CLIENTS)
def test_a_sidecar_has_in_its_class_what_it_has_alone(case: str, calls: Calls) -> None:
    made = mesh(*MESH, *CASES_OF_CLIENTS[case])
    assert effects(in_force(made, calls)) == effects(each_alone(made, calls))


@pytest.mark.parametrize(
    "case", [*(it.case for it in CASES), *map(random_mesh, range(2000, 2030))], ids=lambda it: it.name
)
def test_a_sidecar_of_a_random_mesh_has_in_its_class_what_it_has_alone(case: object) -> None:
    made, _ = mesh_of(*case.documents())
    assert effects(in_force(made)) == effects(each_alone(made, EVERY_CALL))


def no_namespace(*_: object) -> frozenset[str]:
    return frozenset()


@pytest.mark.parametrize(
    ("case", "of", "name", "change"),
    [
        ("rules of a client's namespace", Rules, "apart", no_namespace),
        ("a wildcard of a client's namespace", Rules, "apart", no_namespace),
        ("rules for one namespace", Rules, "apart", no_namespace),
        ("private rules", Rules, "apart", no_namespace),
        ("private rules of the root", Rules, "apart", no_namespace),
        ("private routes", sidecar_scope, "_apart", no_namespace),
        ("routes for one namespace", sidecar_scope, "_apart", no_namespace),
        ("routes for the namespace of a client", sidecar_scope, "_asked", no_namespace),
        ("TCP routes for the namespace of a client", sidecar_scope, "_asked", no_namespace),
        ("hosts for one namespace", sidecar_scope, "_apart", no_namespace),
        ("a host of two namespaces", sidecar_scope, "_apart", no_namespace),
        ("a Sidecar of the root", sidecar_scope, "_names_own", lambda _: False),
        ("a Sidecar of the root without its own namespace", sidecar_scope, "_names_own", lambda _: False),
        ("rules for some workloads", Rules, "selectors", lambda *_: []),
        ("routes for the labels of a client", clients, "has_labels", lambda *_: False),
        ("mTLS of a server", clients.Clients, "effects_of", lambda self, _: iter(self.effects)),
    ],
)
def test_a_difference_that_is_not_looked_at_is_noticed(
    case: str, of: object, name: str, change: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = mesh(*MESH, *CASES_OF_CLIENTS[case])
    alone = effects(each_alone(made, EVERY_CALL))
    monkeypatch.setattr(of, name, change)
    assert effects(in_force(made)) != alone


def large(number: int) -> Mesh:
    spaces = [f"team-{it}" for it in range(TEAMS)]
    documents = [*injected(*spaces, "istio-system"), peer_authentication("p", "istio-system", mtls=STRICT)]
    for it in range(number):
        name, space = f"app-{it}", spaces[it % len(spaces)]
        host = f"{name}.{space}.svc.cluster.local"
        documents += [
            *app(name, space),
            destination_rule(name, space, host=host, trafficPolicy=POOL),
            virtual_service(name, space, hosts=[host], http=[{"route": [to(host)], "timeout": "1s"}]),
            authorization(name, space, selector={"matchLabels": {"app": name}}, rules=[{"from": [{"source": {
                "namespaces": [space], "principals": [f"cluster.local/ns/team-0/sa/app-{it}"]}}]}]),
        ]  # fmt: skip
    return mesh(*documents)


@pytest.mark.parametrize("calls", ["every", "some"])
def test_the_work_grows_with_the_mesh_and_not_with_its_square(calls: str) -> None:
    def work(number: int) -> int:
        own = {Call(f"team-{it % TEAMS}", f"app-{it}", f"app-{it // 2}.team-0.svc.cluster.local")
               for it in range(number)}  # fmt: skip
        force = in_force(large(number), EVERY_CALL if calls == "every" else Calls(frozenset(own)))
        made = answer(force)
        shared = {id(it.shared): len(it.shared.reasons) for it in made.workloads}
        assert made.kept == number
        assert sum(len(it.own) for it in made.workloads) < 8 * number
        return len(force.effects) + sum(shared.values())

    few, many = work(30), work(120)
    assert many < 5 * few


def counted_one_by_one(force: InForce) -> dict[str, dict[tuple[object, str], tuple[set[object], object]]]:
    """The reasons of each workload, with what they do there and their layer."""
    made: dict[str, dict[tuple[object, str], tuple[set[object], object]]] = {}
    for it in force.sidecars:
        own = made.setdefault(f"{it.workload.namespace}/{it.workload.name}", {})
        for effect in it.effects:
            if effect.what.needs_sidecar:
                of = effect.resource.object
                key = group_of(effect), f"{of.kind} {of.namespace}/{of.name}"
                whats, layer = own.get(key, (set(), effect.layer))
                own[key] = {*whats, effect.what}, max(layer, effect.layer)
    return made


@pytest.mark.parametrize("calls", [EVERY_CALL, SOME_CALLS], ids=["every call", "some calls"])
@pytest.mark.parametrize("case", CASES_OF_CLIENTS)
def test_reasons_are_counted_as_if_one_by_one(case: str, calls: Calls) -> None:
    force = in_force(mesh(*MESH, *CASES_OF_CLIENTS[case]), calls)
    made, expected = answer(force), counted_one_by_one(force)
    groups = [it.group for it in made.reasons]
    assert expected == {
        f"{it.workload.namespace}/{it.workload.name}": {
            (groups[cited.position], cited.name): (set(cited.whats), cited.layer) for cited in it.reasons
        }
        for it in made.workloads
    }
    assert {it.workload.name: it.number for it in made.workloads} == {
        it.workload.name: len(it.reasons) for it in made.workloads
    }
    for reason in made.reasons:
        having = [own for own in expected.values() if (reason.group, reason.name) in own]
        assert (reason.sidecars, reason.alone) == (len(having), sum(len(own) == 1 for own in having))
