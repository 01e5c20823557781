"""Who has a sidecar, by the rules of Istio's injector."""

from __future__ import annotations

from typing import Any

import pytest

from admc.istio.mesh.build import is_declared
from admc.istio.mesh.model import Counting, Declaration, Mesh, Proxy, Workload
from admc.manifests.places import span_of
from tests.istio.objects import Json, deployment, labelled, mesh_of, namespace, pod, thing

INJECT = "sidecar.istio.io/inject"
REVISION = "istio.io/rev"
DATAPLANE = "istio.io/dataplane-mode"
ENABLED = {"istio-injection": "enabled"}
SIDECAR = {"name": "istio-proxy", "args": ["proxy", "sidecar"]}
ROUTER = {"name": "istio-proxy", "args": ["proxy", "router"]}
APP = {"name": "app"}
TEMPLATE = {"spec": {"containers": [APP]}}


def only(*documents: Json, **options: Any) -> Workload:
    mesh, findings = mesh_of(*documents, **options)
    assert findings == []
    (workload,) = mesh.workloads
    return workload


@pytest.mark.parametrize(
    ("of_namespace", "labels", "annotations", "proxy", "by"),
    [
        ({}, {}, {}, Proxy.NONE, Declaration.NOTHING),
        (ENABLED, {}, {}, Proxy.SIDECAR, Declaration.NAMESPACE_LABEL),
        ({"istio-injection": "disabled"}, {}, {}, Proxy.NONE, Declaration.NAMESPACE_LABEL),
        # The namespace refuses, so no webhook sees the pod.
        ({"istio-injection": "disabled"}, {INJECT: "true"}, {}, Proxy.NONE, Declaration.NAMESPACE_LABEL),
        ({"istio-injection": "disabled", REVISION: "a"}, {}, {}, Proxy.NONE, Declaration.NAMESPACE_LABEL),
        ({REVISION: "a"}, {}, {}, Proxy.SIDECAR, Declaration.NAMESPACE_LABEL),
        ({**ENABLED, REVISION: "a"}, {}, {}, Proxy.SIDECAR, Declaration.NAMESPACE_LABEL),
        ({}, {REVISION: "a"}, {}, Proxy.SIDECAR, Declaration.POD_LABEL),
        ({}, {REVISION: "a", INJECT: "false"}, {}, Proxy.NONE, Declaration.POD_LABEL),
        ({}, {INJECT: "true"}, {}, Proxy.SIDECAR, Declaration.POD_LABEL),
        (ENABLED, {INJECT: "false"}, {}, Proxy.NONE, Declaration.POD_LABEL),
        (ENABLED, {}, {INJECT: "false"}, Proxy.NONE, Declaration.POD_ANNOTATION),
        # An annotation alone calls no webhook.
        ({}, {}, {INJECT: "true"}, Proxy.NONE, Declaration.NOTHING),
        # The label goes before the annotation; other values count as none.
        (ENABLED, {INJECT: "true"}, {INJECT: "false"}, Proxy.SIDECAR, Declaration.NAMESPACE_LABEL),
        (ENABLED, {INJECT: "no"}, {}, Proxy.SIDECAR, Declaration.NAMESPACE_LABEL),
        (ENABLED, {}, {INJECT: "disabled"}, Proxy.SIDECAR, Declaration.NAMESPACE_LABEL),
        ({DATAPLANE: "ambient"}, {}, {}, Proxy.AMBIENT, Declaration.NAMESPACE_LABEL),
        ({}, {DATAPLANE: "ambient"}, {}, Proxy.AMBIENT, Declaration.POD_LABEL),
        ({DATAPLANE: "ambient"}, {DATAPLANE: "none"}, {}, Proxy.NONE, Declaration.POD_LABEL),
        # A pod with a sidecar is left out of ambient.
        ({DATAPLANE: "ambient", **ENABLED}, {}, {}, Proxy.SIDECAR, Declaration.NAMESPACE_LABEL),
        ({DATAPLANE: "ambient", **ENABLED}, {INJECT: "false"}, {}, Proxy.AMBIENT, Declaration.NAMESPACE_LABEL),
        (ENABLED, {}, {"inject.istio.io/templates": "gateway"}, Proxy.GATEWAY, Declaration.NAMESPACE_LABEL),
    ],
)
def test_labels_and_annotations(
    of_namespace: dict[str, str], labels: dict[str, str], annotations: dict[str, str], proxy: Proxy, by: Declaration
) -> None:
    documents = labelled("shop", of_namespace), deployment("cart", labels=labels, annotations=annotations)
    presence = only(*documents).presence
    assert (presence.proxy, presence.by) == (proxy, by)


def test_the_host_network_and_namespaces_of_kubernetes_have_none() -> None:
    hosts = only(namespace("shop", **ENABLED), deployment("cart", hostNetwork=True))
    assert (hosts.presence.proxy, hosts.presence.by) == (Proxy.NONE, Declaration.HOST_NETWORK)
    ambient = only(labelled("shop", {DATAPLANE: "ambient"}), deployment("cart", hostNetwork=True))
    assert ambient.presence.proxy is Proxy.NONE
    system = only(namespace("kube-system", **ENABLED), deployment("dns", "kube-system"))
    assert (system.presence.proxy, system.presence.by) == (Proxy.NONE, Declaration.SYSTEM_NAMESPACE)


@pytest.mark.parametrize(
    ("spec", "proxy"),
    [
        ({"containers": [APP, SIDECAR]}, Proxy.SIDECAR),
        ({"containers": [APP], "initContainers": [{**SIDECAR, "restartPolicy": "Always"}]}, Proxy.SIDECAR),
        ({"containers": [APP], "initContainers": [SIDECAR]}, Proxy.NONE),
        ({"containers": [ROUTER]}, Proxy.GATEWAY),
        ({"containers": [{"name": "istio-proxy"}]}, Proxy.SIDECAR),
        ({"containers": [APP]}, Proxy.NONE),
    ],
)
def test_the_container_says_it(spec: Json, proxy: Proxy) -> None:
    assert only(pod("a", **spec)).presence.proxy is proxy


def test_a_running_pod_is_what_its_containers_say() -> None:
    before = only(namespace("shop", **ENABLED), pod("a", containers=[APP]))
    assert (before.presence.proxy, before.presence.by) == (Proxy.NONE, Declaration.LIVE)
    manifest = only(namespace("shop", **ENABLED), pod("a", live=False, containers=[APP]))
    assert (manifest.presence.proxy, manifest.presence.by) == (Proxy.SIDECAR, Declaration.NAMESPACE_LABEL)


def test_a_gateway_is_what_a_gateway_selects_and_is_a_proxy_alone() -> None:
    gateway = thing("networking.istio.io/v1", "Gateway", "g", spec={"selector": {"app": "edge"}})
    edge = {"containers": [{"name": "istio-proxy", "image": "auto"}]}
    assert only(gateway, pod("edge", **edge)).presence.proxy is Proxy.GATEWAY
    assert only(gateway, pod("other", **edge)).presence.proxy is Proxy.SIDECAR
    # An application of that name, with its sidecar
    assert only(gateway, pod("edge", containers=[APP, SIDECAR])).presence.proxy is Proxy.SIDECAR
    assert only(gateway, pod("edge", containers=[APP, {"name": "istio-proxy"}])).presence.proxy is Proxy.SIDECAR


def test_a_declaration_has_its_place() -> None:
    mesh, _ = mesh_of(namespace("shop", **ENABLED), deployment("cart"), pod("a", containers=[APP, SIDECAR]))
    places = [workload.presence.place for workload in mesh.workloads]
    texts = []
    for place in places:
        assert place is not None
        span = span_of(place.object.document, (*place.object.where, *place.where))
        texts.append(span.source.line(span.line).strip())
    assert texts == ['"istio-injection": "enabled"', "{"]


def test_injected_speaks_for_namespaces_that_say_nothing() -> None:
    documents = (
        namespace("shop"),
        namespace("off", **{"istio-injection": "disabled"}),
        deployment("cart"),
        deployment("cart", "off"),
        deployment("cart", "other"),
        deployment("no", labels={INJECT: "false"}),
    )
    for injected, expected in (
        (None, {"shop/cart", "other/cart"}),
        (frozenset({"shop", "off"}), {"shop/cart"}),
        (frozenset[str](), set()),
    ):
        mesh, _ = mesh_of(*documents, injected=injected)
        assert {f"{it.namespace}/{it.name}" for it in mesh.workloads if it.number(Proxy.SIDECAR)} == expected


def test_all_namespaces_are_injected_by_a_setting() -> None:
    values = {"sidecarInjectorWebhook": {"enableNamespacesByDefault": True}}
    istio = thing("install.istio.io/v1alpha1", "IstioOperator", "i", "istio-system", spec={"values": values})
    assert only(istio, deployment("cart")).presence.by is Declaration.ALL_NAMESPACES
    assert only(istio, deployment("cart", labels={INJECT: "no"})).presence.proxy is Proxy.NONE
    assert only(istio, namespace("shop", **{"istio-injection": "off"}), deployment("cart")).presence.proxy is Proxy.NONE
    webhook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "w", "labels": {REVISION: "default"}},
        "webhooks": [{"name": "auto.sidecar-injector.istio.io"}],
    }
    assert only(webhook, deployment("cart")).presence.by is Declaration.ALL_NAMESPACES
    webhook["webhooks"] = [{"name": "namespace.sidecar-injector.istio.io"}]
    assert only(webhook, deployment("cart")).presence.by is Declaration.NOTHING


def test_an_injector_may_wait_for_the_pod_to_ask() -> None:
    values = {"global": {"proxy": {"autoInject": "disabled"}}}
    istio = thing("sailoperator.io/v1", "Istio", "default", "", spec={"values": values})
    quiet = only(istio, namespace("shop", **ENABLED), deployment("cart"))
    assert (quiet.presence.proxy, quiet.presence.by) == (Proxy.NONE, Declaration.POLICY_DISABLED)
    asking = only(istio, namespace("shop", **ENABLED), deployment("cart", annotations={INJECT: "true"}))
    assert asking.presence.proxy is Proxy.SIDECAR


def declared(*documents: Json) -> bool:
    return is_declared(mesh_of(*documents)[0])


def test_a_mesh_in_which_nothing_is_declared_is_noticed() -> None:
    assert not declared(namespace("shop"), deployment("cart"), deployment("x", hostNetwork=True))
    assert not declared(deployment("cart"), pod("edge", live=False, containers=[ROUTER]))
    assert declared(deployment("cart", labels={INJECT: "false"}))
    assert declared(labelled("shop", {DATAPLANE: "ambient"}), deployment("cart"))
    assert declared(pod("running"))


def test_pods_belong_to_the_workload_at_the_top() -> None:
    hashed = {"pod-template-hash": "5d"}
    replica_set = thing("apps/v1", "ReplicaSet", "cart-5d", metadata={"ownerReferences": owner("Deployment", "cart")})
    job = thing("batch/v1", "Job", "nightly-1", metadata={"ownerReferences": owner("CronJob", "nightly")})
    mesh, _ = mesh_of(
        deployment("cart", replicas=7),
        replica_set,
        job,
        pod("a", owner="ReplicaSet/cart-5d", containers=[APP, SIDECAR]),
        pod("b", owner="ReplicaSet/cart-5d", containers=[APP]),
        pod("c", owner="ReplicaSet/pay-5d", labels=hashed),
        pod("d", owner="ReplicaSet/alone-x1", labels=hashed),
        pod("e", owner="Job/nightly-1", phase="Succeeded"),
        pod("f", owner="Job/nightly-1"),
        pod("g", owner="StatefulSet/db"),
        pod("static", owner="Node/n1"),
    )
    assert [(it.kind, it.name, it.replicas, it.counting) for it in mesh.workloads] == [
        ("CronJob", "nightly", 1, Counting.PODS),
        ("Deployment", "cart", 2, Counting.PODS),
        ("Deployment", "pay", 1, Counting.PODS),
        ("Pod", "static", 1, Counting.PODS),
        ("ReplicaSet", "alone-x1", 1, Counting.PODS),
        ("StatefulSet", "db", 1, Counting.PODS),
    ]
    cart = mesh.workloads[1]
    assert [cart.number(proxy) for proxy in (Proxy.SIDECAR, Proxy.NONE)] == [1, 1]


def owner(kind: str, name: str) -> list[Json]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}]


def autoscaler(name: str, **spec: Any) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return thing("autoscaling/v2", "HorizontalPodAutoscaler", name, spec={"scaleTargetRef": target, **spec})


@pytest.mark.parametrize(
    ("documents", "replicas", "counting"),
    [
        ([deployment("a", replicas=4)], 4, Counting.REPLICAS),
        ([deployment("a", replicas=0)], 0, Counting.REPLICAS),
        ([deployment("a", replicas=4), autoscaler("a", minReplicas=2)], 2, Counting.MINIMUM),
        ([deployment("a", replicas=4), autoscaler("a")], 1, Counting.MINIMUM),
        ([deployment("a", replicas=4), autoscaler("b", minReplicas=2)], 4, Counting.REPLICAS),
        ([{**deployment("a"), "kind": "DaemonSet", "spec": {"template": TEMPLATE}}], 1, Counting.MINIMUM),
        ([pod("a", live=False)], 1, Counting.PODS),
        (
            [{**deployment("a", replicas=3), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}],
            3,
            Counting.REPLICAS,
        ),
    ],
)
def test_the_number_of_pods(documents: list[Json], replicas: int, counting: Counting) -> None:
    workload = only(*documents)
    assert (workload.replicas, workload.counting) == (replicas, counting)


def test_kinds_without_pods_are_no_workloads() -> None:
    mesh: Mesh = mesh_of(thing("example.com/v1", "Thing", "a", spec={"template": {"spec": {}}}))[0]
    assert mesh.workloads == ()
