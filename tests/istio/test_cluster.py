"""`admc advise --cluster` reads a real API server with the rights of the caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster import snapshot
from tests.cli.command import Admc
from tests.istio.objects import SECURITY, deployment, labelled, service, thing
from tests.istio.test_api_server import install

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

SPACE = "advised"
PASSWORD = "hunter2"  # noqa: S105 - no such account
MESH = "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"


def fill(server: ApiServer) -> None:
    """A namespace with two workloads, a policy, a mesh configuration and a Secret."""
    path = f"/api/v1/namespaces/{SPACE}"
    server.apply(path, labelled(SPACE, {"istio-injection": "enabled"}))
    server.apply("/api/v1/namespaces/istio-system", labelled("istio-system", {}))
    for name in ("cart", "pay"):
        made = deployment(name, SPACE, replicas=2)
        made["spec"]["selector"] = {"matchLabels": {"app": name}}
        made["spec"]["template"]["metadata"].pop("annotations")
        server.apply(f"/apis/apps/v1/namespaces/{SPACE}/deployments/{name}", made)
    server.apply(f"{path}/services/cart", service("cart", SPACE))
    secret = {**thing("v1", "Secret", "s", SPACE), "stringData": {"password": PASSWORD}}
    server.apply(f"{path}/secrets/s", secret)
    config = thing("v1", "ConfigMap", "istio", "istio-system", data={"mesh": MESH})
    server.apply("/api/v1/namespaces/istio-system/configmaps/istio", config)
    policy = thing(SECURITY, "PeerAuthentication", "strict", SPACE, spec={"mtls": {"mode": "STRICT"}})
    server.apply(f"/apis/security.istio.io/v1/namespaces/{SPACE}/peerauthentications/strict", policy)


def advised(admc: Admc, server: ApiServer, *options: str) -> dict[str, Any]:
    run = admc("advise", "--cluster", "--kubeconfig", server.kubeconfig, "--format", "json", *options)
    made: dict[str, Any] = json.loads(run.out)
    assert made["exit_code"] == run.code
    assert PASSWORD not in run.out
    return made


def test_a_cluster_is_read_in_pages(
    new_cluster_api: Callable[..., ApiServer], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_cluster_api()
    install(server)
    fill(server)
    monkeypatch.setattr(snapshot, "PAGE", 1)
    made = advised(Admc(capfd), server)
    assert made["diagnostics"] == []
    assert made["sidecars"]["today"] == 4
    assert {(item["kind"], item["concerns"]) for item in made["resources"]} == {("PeerAuthentication", "sidecars")}
    paths = {item["location"]["path"] for item in made["workloads"] if item["namespace"] == SPACE}
    assert paths == {"<deployments of the cluster, page 1>", "<deployments of the cluster, page 2>"}
    (revision,) = made["revisions"]
    assert revision["settings"]["outboundTrafficPolicy.mode"] == {"value": "REGISTRY_ONLY", "default": False}


def test_config_maps_are_read_to_guess_calls_and_only_then(
    new_cluster_api: Callable[..., ApiServer], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_cluster_api()
    install(server)
    fill(server)
    made = deployment("web", SPACE, volumes=[{"name": "v", "configMap": {"name": "web"}}])
    made["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    container = {"name": "a", "image": "x", "envFrom": [{"configMapRef": {"name": "absent"}}]}
    made["spec"]["template"]["spec"]["containers"] = [container]
    made["spec"]["template"]["metadata"].pop("annotations")
    server.apply(f"/apis/apps/v1/namespaces/{SPACE}/deployments/web", made)
    text = "address: cart:80"
    config = thing("v1", "ConfigMap", "web", SPACE, data={"settings.yaml": text})
    server.apply(f"/api/v1/namespaces/{SPACE}/configmaps/web", config)
    monkeypatch.setattr(snapshot, "PAGE_OF_CONFIG_MAPS", 1)
    calls = advised(Admc(capfd), server, "--guess-calls")["calls"]
    assert [(it["workload"], it["host"]) for it in calls["guesses"]] == [("web", f"cart.{SPACE}.svc.cluster.local")]
    assert calls["guesses"][0]["location"]["path"].startswith("<configmaps of the cluster, page ")
    assert calls["source"].endswith("(1 ConfigMap is not given)")
    read = [page.text for page in asyncio.run(snapshot.snapshot(server.kubeconfig)).texts]
    assert not any(text in page for page in read)


def test_a_cluster_without_istio_declares_nothing(
    new_cluster_api: Callable[..., ApiServer], capfd: pytest.CaptureFixture[str]
) -> None:
    server = new_cluster_api()
    made = deployment("cart", "default")
    made["spec"]["selector"] = {"matchLabels": {"app": "cart"}}
    server.apply("/apis/apps/v1/namespaces/default/deployments/cart", made)
    assert [item["code"] for item in advised(Admc(capfd), server)["diagnostics"]] == ["ADM915"]
    assert advised(Admc(capfd), server, "--injected", "default")["sidecars"]["today"] == 1


def test_what_the_caller_may_not_list_is_named(
    new_cluster_api: Callable[..., ApiServer], capfd: pytest.CaptureFixture[str]
) -> None:
    server = new_cluster_api()
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "reader"}],
    }
    server.apply("/apis/rbac.authorization.k8s.io/v1/clusterroles/reader", role)
    server.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/reader", binding)
    user = server.credentials.client("reader", "readers")
    kubeconfig = server.credentials.kubeconfig("reader", server.url, user)
    run = Admc(capfd)("advise", "--cluster", "--kubeconfig", kubeconfig, "--format", "json")
    made = json.loads(run.out)
    assert run.code == 1
    refused = {item["message"] for item in made["diagnostics"] if item["code"] == "ADM986"}
    assert "the API server does not list deployments" in refused
    assert "the API server does not list pods" not in refused


def test_a_server_that_does_not_answer_is_one_error(
    new_cluster_api: Callable[..., ApiServer], capfd: pytest.CaptureFixture[str]
) -> None:
    server = new_cluster_api()
    server.kill()
    made = advised(Admc(capfd), server)
    assert [item["code"] for item in made["diagnostics"]] == ["ADM935"]
