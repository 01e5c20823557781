"""Probes of each kind on a real node, of ports with a guard that admits one service, and with a quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.node.cluster import cluster
from tests.cluster.tools import MissingError
from tests.cluster.traffic.mesh import Mesh
from tests.serve.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = """\
app life
service web  { http 8080  namespace life }
service cart {
  http main 8081
  tcp secure 8443
  grpc rpc 9000
  tcp plain 7000
  namespace life
}
call web -> cart:main, cart:secure, cart:rpc, cart:plain
@ingress
policy known = allow(callers: [web]) on * -> cart
@ingress
policy quota = rate_limit(requests: 3, per: 3600s) on * -> cart:main
"""
PORTS = {"http": 8081, "https": 8443, "grpc": 9000, "tcp": 7000}
ASKS: dict[str, dict[str, Any]] = {
    "http": {"httpGet": {"port": "main", "path": "/healthz?deep=1", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
    "https": {"httpGet": {"port": 8443, "path": "/healthz", "scheme": "HTTPS"}},
    "grpc": {"grpc": {"port": 9000, "service": "shop.v1.Cart"}},
    "tcp": {"tcpSocket": {"port": 7000}},
}
ASK = """
import urllib.request, urllib.error
def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
print(*(ask(url) for url in {}))
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    try:
        with cluster() as node:
            made = Mesh(node, tmp_path_factory.mktemp("probes"))
            made.begin()
            yield made
            made.end()
    except MissingError as error:
        pytest.skip(str(error))


def container(kind: str) -> dict[str, Any]:
    probe = {**ASKS[kind], "periodSeconds": 1, "timeoutSeconds": 5}
    pair = Authority("pods").issue(dns=("other.example",))
    return {
        "name": kind,
        "image": "admc:test",
        "command": ["python", "/admc/own/tests/cluster/traffic/probed.py", kind, str(PORTS[kind])],
        "env": [{"name": "PEM", "value": (pair.key + pair.certificate).decode()}],
        "ports": [{"name": "main", "containerPort": 8081}] if kind == "http" else [],
        # Without a request, a container has next to no share of a machine that does other work.
        "resources": {"requests": {"cpu": "50m"}},
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        "startupProbe": {**probe, "failureThreshold": 600},
        "readinessProbe": {**probe, "failureThreshold": 1},
        "livenessProbe": {**probe, "failureThreshold": 10},
    }


def statuses(mesh: Mesh) -> dict[str, dict[str, Any]]:
    (pod,) = mesh.node.pods("life", "app=cart")
    return {each["name"]: each for each in pod["status"].get("containerStatuses", ())}


def ready(mesh: Mesh, *, is_ready: bool) -> Callable[[], bool]:
    def all_are() -> bool:
        found = statuses(mesh)
        return found.keys() == PORTS.keys() and all(each["ready"] is is_ready for each in found.values())

    return all_are


def asked(mesh: Mesh, *urls: str) -> list[int]:
    """What the container of the service `web` gets."""
    (pod,) = mesh.node.ready_pods("life", "app=web")
    command = ["python", "-c", ASK.format(repr(urls))]
    return [int(status) for status in mesh.node.execute(pod["metadata"]["name"], "web", command, "life").split()]


@pytest.mark.cluster
def test_a_pod_is_ready_when_its_processes_are_and_restarts_those_that_are_not(mesh: Mesh) -> None:
    node = mesh.node
    mesh.workload("web", "callee.py", "8080", port=8080, replicas=1)
    mesh.workload("cart", "unused", port=8081, replicas=1)
    ports = [{"name": kind, "port": port} for kind, port in PORTS.items()]
    metadata = {"name": "cart", "namespace": "life"}
    spec = {"selector": {"app": "cart"}, "ports": ports}
    node.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    mesh.manifests["cart"]["spec"]["template"]["spec"]["containers"] = list(map(container, PORTS))
    mesh.write(PROGRAM)
    mesh.serve()
    mesh.until(lambda: node.get("ConfigMap", "admc-life", "life"), "the configuration of proxies")
    mesh.until(lambda: node.get("Injection", "life", "life", "admc.dev/v1alpha1"), "the `Injection`")
    mesh.inject("web", "cart")
    mesh.rolled_out("web", "cart")
    mesh.until_programmed()
    mesh.until(ready(mesh, is_ready=True), "ready processes")
    assert all(each["restartCount"] == 0 for each in statuses(mesh).values())

    (pod,) = node.pods("life", "app=cart")
    name, address = pod["metadata"]["name"], pod["status"]["podIP"]
    listener = [f"http://{address}:15022{path}" for path in ("/", "/healthz?deep=1", "/probe/http/8081/healthz")]
    assert asked(mesh, *listener) == [404] * 3
    assert set(node.log(name, "http", "life").splitlines()) == {"GET /healthz?deep=1"}, "only the checks reach it"

    for kind in PORTS:
        node.execute(name, kind, ["touch", "/tmp/ill"], "life")  # noqa: S108
    mesh.until(ready(mesh, is_ready=False), "processes that are not ready")
    mesh.until(lambda: all(each["restartCount"] > 0 for each in statuses(mesh).values()), "restarted processes")
    mesh.until(ready(mesh, is_ready=True), "ready processes after a restart")

    # All those checks took no token of the quota, and the guard admits none of the kubelet's addresses. The address of
    # the Service would be refused until the network has heard that the pod is ready again.
    assert asked(mesh, *[f"http://{address}:8081/"] * 5) == [200, 200, 200, 429, 429]
