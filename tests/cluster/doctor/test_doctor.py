"""`admc doctor --cluster NAME` at an API server: half an installation, a whole one, and an older Kubernetes."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web

from admc.kubernetes.doctor.policies import policies_of
from tests.cluster.api.made_server import kubeconfig, served
from tests.cluster.node.cluster import path_of
from tests.deploy.chart import NAME, NAMESPACE, installed
from tests.serve.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.command import Admc
    from tests.cluster.api_server import ApiServer


def test_half_an_installation_and_a_whole_one(
    new_cluster_api: Callable[..., ApiServer], admc: Admc, tmp_path: Path
) -> None:
    api = new_cluster_api()
    arguments = ("doctor", "--cluster", "main", "--kubeconfig", str(api.kubeconfig))
    nothing = admc(*arguments)
    assert nothing.code == 1
    assert "the cluster does not have the kinds of admc; `helm install" in nothing.out
    assert "no Deployment of an installation `main`" in nothing.out
    assert "there is no ValidatingAdmissionPolicy `admc-main-injections`" in nothing.out
    for each in installed():
        api.apply(path_of(each), each)
    half = admc(*arguments)
    assert half.code == 1
    assert "ok       definitions     Program, Injection" in half.out
    assert "ok       admission       admc-main-injections" in half.out
    assert f"0 of 2 replicas of `{NAMESPACE}/{NAME}` are ready" in half.out
    assert "none yet: there is no Lease" in half.out
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": f"{datetime.now(UTC):%FT%T.000000Z}"}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NAME}, "spec": spec}
    api.apply(path, body)
    status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}
    server: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "status": status,
    }
    api.request(
        "PATCH",
        f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}/status",
        server,
        "application/merge-patch+json",
    )
    untrusted = admc(*arguments)
    assert "it has no `caBundle`" in untrusted.out
    assert f"no replica in `{NAMESPACE}` answers it" in untrusted.out
    trust(api)
    whole = admc(*arguments)
    assert whole.code == 0, whole.out
    assert "ok       active replica  `one`" in whole.out
    for policy in policies_of("main"):
        assert f"ok       admission       {policy.name}\n" in whole.out
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/admc-main-guard-labels"
    api.request("PATCH", path, {"spec": {"validationActions": ["Audit"]}}, "application/merge-patch+json")
    audited = admc(*arguments)
    assert audited.code == 1
    assert "of the ValidatingAdmissionPolicyBinding `admc-main-guard-labels` are not the chart's: Audit" in audited.out


def trust(api: ApiServer) -> None:
    """What the active replica and the controller of EndpointSlices write."""
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"
    bundle = base64.b64encode(Authority().certificate).decode()
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    api.request("PATCH", path, patch, "application/json-patch+json")
    metadata = {"name": "webhook-1", "labels": {"kubernetes.io/service-name": f"{NAME}-webhook"}}
    endpoints = [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]
    body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/webhook-1"
    api.apply(path, {**body, "addressType": "IPv4", "endpoints": endpoints, "ports": []})


def test_an_older_kubernetes_is_refused(admc: Admc, tmp_path: Path) -> None:
    """By a server by hand: a real one is of one version."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.29.14"})
        body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}
        return web.json_response(body, status=403)

    async def run() -> tuple[int, str]:
        async with served(answer) as address:
            path = kubeconfig(tmp_path / "config", address)
            done = await asyncio.to_thread(admc, "doctor", "--cluster", "main", "--kubeconfig", str(path))
            return done.code, done.out

    code, out = asyncio.run(run())
    assert code == 1
    assert "wrong    kubernetes" in out
    assert "v1.29.14; admc needs 1.30 or later" in out
    assert "unknown  server" in out


def test_no_api_server(admc: Admc, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://127.0.0.1:9")
    done = admc("doctor", "--cluster", "main", "--kubeconfig", str(path))
    assert done.code == 1
    assert "ADM935" in done.err
    assert "the API server does not answer" in done.err
