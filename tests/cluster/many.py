"""Many pods without a machine for them: kwok plays kubelet beside an API server.

    with api_server() as server, many_pods(server) as pods:
        pods.create([pod(...), ...])

A pod gets the address that its number gives it and is ready at once. No process runs in it, and none answers.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import tools
from tests.cluster.api_server import SECONDS, ApiError
from tests.cluster.process import READY_SECONDS, Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from tests.cluster.api_server import ApiServer

NODES: Final = 20
ADDRESSES: Final = ipaddress.IPv4Network("10.128.0.0/10")
"""Of the pods."""
_MARK: Final = ("kwok.x-k8s.io/node", "fake")
"""The annotation of its nodes."""
_ADDRESS: Final = "tests.cli.dev/address"
"""The annotation with the address that a pod gets. By itself kwok gives a new pod the address of one that is just
gone."""
_CONNECTIONS: Final = 8
_PAUSE_SECONDS: Final = 0.2
_IDLE_SECONDS: Final = 20.0
_CAPACITY: Final = {"cpu": "1000", "memory": "1Ti", "pods": "5000"}
_STATUS: Final = """\
{{ $now := Now | Quote }}
phase: Running
startTime: {{ $now }}
podIP: {{ index .metadata.annotations "ADDRESS" | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state: {running: {startedAt: {{ $now }}}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  {{ if eq .restartPolicy "Always" }}
  started: true
  state: {running: {startedAt: {{ $now }}}}
  {{ else }}
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now }}, finishedAt: {{ $now }}}}
  {{ end }}
{{ end }}
"""
"""What kwok writes as the status of a pod."""
Object = dict[str, Any]


def pod(
    name: str,
    namespace: str,
    number: int,
    labels: Mapping[str, str],
    spec: Mapping[str, Any] | None = None,
    nodes: int = NODES,
) -> Object:
    """A pod on one of the nodes; `number` says on which, and at which address."""
    own = {"nodeName": node_name(number % nodes), "containers": [{"name": "main", "image": "none"}], **(spec or {})}
    annotations = {_ADDRESS: str(ADDRESSES[number + 1])}
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own}


def node_name(number: int) -> str:
    return f"many-{number}"


class ManyPods:
    """Makes and removes objects over a few connections that stay open."""

    def __init__(self, server: ApiServer, kwok: Running) -> None:
        self.server = server
        self.kwok = kwok
        self._own = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []
        self._tls = ssl.create_default_context(cafile=str(server.ca))
        self._workers = ThreadPoolExecutor(_CONNECTIONS)

    def create(self, path: str, objects: Iterable[Mapping[str, Any]]) -> None:
        """Add objects to a collection, such as `/api/v1/namespaces/shop/pods`. Raises `ApiError`."""
        list(self._workers.map(lambda each: self.create_one(path, each), objects))

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects without a time of grace. Raises `ApiError`."""
        list(self._workers.map(self.delete_one, paths))

    def submit(self, function: Callable[[int], None], argument: int) -> Future[None]:
        """Call a function in a thread that has a connection of its own."""
        return self._workers.submit(function, argument)

    def create_one(self, path: str, body: Mapping[str, Any]) -> None:
        self._send("POST", path, body)

    def delete_one(self, path: str) -> None:
        self._send("DELETE", f"{path}?gracePeriodSeconds=0", None)

    def count_ready(self, namespace: str) -> int:
        """How many pods run and have an address."""
        path = f"/api/v1/namespaces/{namespace}/pods?resourceVersion=0"
        statuses = [each["status"] for each in self.server.request("GET", path)["items"]]
        return sum(status.get("phase") == "Running" and "podIP" in status for status in statuses)

    def wait(self, namespace: str, count: int, seconds: float = READY_SECONDS) -> None:
        """Until so many pods run. Raises `TimeoutError`."""
        until = time.monotonic() + seconds
        while self._are_waiting(namespace) or (found := self.count_ready(namespace)) < count:
            if time.monotonic() > until:
                found = self.count_ready(namespace)
                raise TimeoutError(f"{found} of {count} pods run after {seconds:.0f} s: {self.kwok.last_line()}")
            time.sleep(_PAUSE_SECONDS)

    def _are_waiting(self, namespace: str) -> bool:
        """Whether there are pods that do not run: to list these is cheap where there are many others."""
        path = f"/api/v1/namespaces/{namespace}/pods?fieldSelector=status.phase%3DPending&resourceVersion=0"
        return bool(self.server.request("GET", path)["items"])

    def end(self) -> None:
        self._workers.shutdown(cancel_futures=True)
        for connection in self._connections:
            connection.close()
        self.kwok.kill()

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        connection = self._connection()
        headers = {"Authorization": f"Bearer {self.server.admin_token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        content = response.read()
        if response.status >= 400:
            raise ApiError(response.status, content.decode(errors="replace")[:1000])

    def _connection(self) -> http.client.HTTPSConnection:
        """Of this thread. The server ends one that was idle for long."""
        connection: http.client.HTTPSConnection | None = getattr(self._own, "connection", None)
        if connection is None or time.monotonic() > self._own.used + _IDLE_SECONDS:
            place = self.server.place
            with place.network():
                connection = http.client.HTTPSConnection(place.address, place.port, timeout=SECONDS, context=self._tls)
                connection.connect()
            self._own.connection = connection
            self._connections.append(connection)
        self._own.used = time.monotonic()
        return connection


@contextmanager
def many_pods(server: ApiServer, nodes: int = NODES) -> Iterator[ManyPods]:
    """Raises `tools.MissingError` where the cache lacks kwok."""
    config = server.folder / "kwok.yaml"
    config.write_text(json.dumps(_stage()), encoding="utf-8")  # JSON is YAML
    options = [
        f"--kubeconfig={server.kubeconfig}",
        f"--config={config}",
        "--manage-nodes-with-annotation-selector=" + "=".join(_MARK),
        "--node-lease-duration-seconds=0",
    ]
    command = [str(tools.find(tools.KWOK)), *options]
    made = ManyPods(server, Running("kwok", command, server.folder / "kwok.log"))
    try:
        made.create("/api/v1/nodes", map(_node, range(nodes)))
        yield made
    finally:
        made.end()


def _node(number: int) -> Object:
    metadata = {"name": node_name(number), "annotations": dict([_MARK])}
    status = {"capacity": _CAPACITY, "allocatable": _CAPACITY}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def _stage() -> Object:
    """What happens to a pod that has no address yet."""
    nowhere = {"key": ".status.podIP", "operator": "DoesNotExist"}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "run"},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [nowhere]},
            "next": {"statusTemplate": _STATUS.replace("ADDRESS", _ADDRESS)},
        },
    }
