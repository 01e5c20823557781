"""The API server that other tests build on: tokens, roles, and what happens when it or etcd goes away."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.api_server import ISSUER, ApiError, ApiServer
from tests.cluster.process import is_running

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def _account(server: ApiServer, name: str) -> None:
    server.apply(f"{ACCOUNTS}/{name}", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})


def _claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def test_a_token_of_a_pod_names_its_audience_and_the_pod(cluster_api: ApiServer) -> None:
    _account(cluster_api, "bound")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bound"},
        "spec": {"serviceAccountName": "bound", "containers": [{"name": "a", "image": "none"}]},
    }
    made = cluster_api.apply("/api/v1/namespaces/default/pods/bound", pod)
    uid = made["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "bound", "uid": uid}
    asked = {"spec": {"audiences": ["admc.dev/mesh"], "expirationSeconds": 600, "boundObjectRef": bound}}
    token = cluster_api.request("POST", f"{ACCOUNTS}/bound/token", asked)["status"]["token"]
    claims = _claims(token)
    assert (claims["iss"], claims["aud"]) == (ISSUER, ["admc.dev/mesh"])
    assert claims["kubernetes.io"]["pod"] == {"name": "bound", "uid": uid}
    keys = cluster_api.request("GET", "/openid/v1/jwks")
    header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    assert header["kid"] in [key["kid"] for key in keys["keys"]]


def test_roles_are_in_force(cluster_api: ApiServer) -> None:
    _account(cluster_api, "powerless")
    asked = {"spec": {"expirationSeconds": 600}}
    token = cluster_api.request("POST", f"{ACCOUNTS}/powerless/token", asked)["status"]["token"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:serviceaccount:default:powerless",
            "resourceAttributes": {"verb": "list", "resource": "secrets", "namespace": "default"},
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert cluster_api.request("POST", path, review)["status"]["allowed"] is False
    assert _claims(token)["aud"] == [ISSUER]


def test_a_killed_api_server_comes_back_with_what_it_had(new_cluster_api: Callable[..., ApiServer]) -> None:
    server = new_cluster_api()
    _account(server, "kept")
    server.kill()
    with pytest.raises(ConnectionError):
        server.request("GET", "/readyz")
    server.restart()
    assert server.request("GET", f"{ACCOUNTS}/kept")["metadata"]["name"] == "kept"


def test_a_stopped_etcd_hangs_writes_until_it_goes_on(new_cluster_api: Callable[..., ApiServer]) -> None:
    server = new_cluster_api()
    server.stop_etcd()
    with pytest.raises((ApiError, TimeoutError)):
        server.request("POST", f"{ACCOUNTS}?timeout=2s", {"metadata": {"name": "late"}})
    server.continue_etcd()
    server.wait()
    _account(server, "late")


def test_a_watch_from_a_revision_that_is_compacted_ends_with_410(new_cluster_api: Callable[..., ApiServer]) -> None:
    server = new_cluster_api()
    old = server.request("GET", ACCOUNTS)["metadata"]["resourceVersion"]
    for name in ("a", "b", "c"):
        _account(server, name)
    server.kill()
    server.compact()
    server.restart()
    assert _watch_code(server, f"{ACCOUNTS}?watch=1&resourceVersion={old}&timeoutSeconds=2") == 410


def _watch_code(server: ApiServer, path: str) -> int:
    """The code by which the only event of a watch, or the answer, refuses it."""
    try:
        event = server.request("GET", path)
    except ApiError as error:
        return error.status
    return int(event["object"]["code"])


def test_nothing_is_left_when_the_test_is_killed(cluster_api: ApiServer) -> None:
    assert cluster_api.is_ready
    script = (
        "from tests.cluster.api_server import api_server\n"
        "with api_server() as server:\n"
        "    print(server.process.pid, server.etcd.pid, server.folder, flush=True)\n"
        "    input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    *pids, path = process.stdout.readline().split()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while any(map(is_running, pids)) or Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
