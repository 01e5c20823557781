"""A cluster of one node, started and ended as one.

with cluster() as node:
    node.load([images.busybox()])
    node.apply(...)
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import credentials, tools
from tests.cluster.api_server import KUBERNETES_SERVICE, ApiError, ApiServer, Place
from tests.cluster.folders import folder
from tests.cluster.node import images, machine, parts
from tests.cluster.node.containers import Containers
from tests.cluster.node.machine import ADDRESS, Machine
from tests.cluster.process import READY_SECONDS, Running, StartError
from tests.cluster.tools import debian
from tests.system import PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tests.cluster.node.images import Image

ROOT: Final = Path(__file__).parents[3]
PORT: Final = 6443
NAMESPACE: Final = "default"
Object = dict[str, Any]

_PATHS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
"""Kinds without a namespace."""
_PLURALS: Final = {"NetworkPolicy": "networkpolicies", "Endpoints": "endpoints", "Ingress": "ingresses"}


def path_of(found: Mapping[str, Any]) -> str:
    """Where the API has an object of a built-in kind."""
    kind, metadata, version = found["kind"], found["metadata"], found["apiVersion"]
    if kind in _PATHS:
        return f"{_PATHS[kind]}/{metadata['name']}"
    start = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return f"{start}/namespaces/{metadata.get('namespace', NAMESPACE)}/{plural}/{metadata['name']}"


class Node:
    """A running cluster. Everything in it ends with the thread that started it."""

    def __init__(self, own: Path, stack: ExitStack, pod_addresses: int | None = None) -> None:
        self.folder = own
        self.machine = Machine(own)
        stack.callback(self.machine.end)
        addresses = ("127.0.0.1", ADDRESS, KUBERNETES_SERVICE)
        made = credentials.make(own / "credentials", addresses)
        self.containers = Containers(self.machine, pod_addresses)
        stack.callback(self.containers.process.kill)
        listening = socket.create_server(("127.0.0.1", 0))
        stack.callback(listening.close)
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        place = Place(ADDRESS, PORT, 2379, 2380, self.machine.network, url)
        self.server = ApiServer(own, place, made, _kubelet(made), accounts=True)
        stack.callback(self.server.end)
        self.inside = made.kubeconfig("inside", f"https://{ADDRESS}:{PORT}")
        """The administrator's kubeconfig for what runs on the node; `kubeconfig` is for what does not."""
        command = [sys.executable, "-m", "tests.cluster.node.forward", str(listening.fileno()), ADDRESS, str(PORT)]
        self.parts: dict[str, Running] = {
            "forward": self.machine.start_in_network("forward", command, _OWN_MODULES, [listening.fileno()])
        }
        self._started: list[Running] = []
        stack.callback(self.kill_parts)
        self.server.wait()
        self.containers.wait()
        self._start_parts(made)
        self.containers.load([images.pause()])
        self.parts["kubelet"].wait_until(self._is_ready)

    def _start_parts(self, made: credentials.Credentials) -> None:
        url = f"https://{ADDRESS}:{PORT}"
        network = [sys.executable, "-m", "tests.cluster.node.network", str(self.inside), ADDRESS]
        started = {
            "kubelet": parts.kubelet(self.machine, made, url),
            "kube-controller-manager": parts.controller_manager(self.machine, self.inside, made),
            "kube-scheduler": parts.scheduler(self.machine, self.inside),
            "kube-proxy": parts.proxy(self.machine, self.inside),
            "network": self.machine.start("network", network, _OWN_MODULES),
        }
        self.parts.update(started)

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig

    def kill_parts(self) -> None:
        for part in [*self._started, *self.parts.values()]:
            part.kill()

    def check(self) -> None:
        """Raises `StartError` where a part of the cluster has ended by itself."""
        for name, part in self.parts.items():
            if not part.is_running:
                raise StartError(f"{name} has ended: {part.last_line()}")

    def _is_ready(self) -> bool:
        self.check()
        try:
            node = self.server.request("GET", f"/api/v1/nodes/{parts.NAME}")
            self.server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default")
        except ApiError:
            return False
        ready = [each["status"] for each in node["status"].get("conditions", ()) if each["type"] == "Ready"]
        return ready == ["True"] and not node["spec"].get("taints")

    # ---- objects ----

    def apply(self, *objects: Object) -> list[Object]:
        """Server-side applies, each at the path of its kind."""
        return [self.server.apply(path_of(each), each) for each in objects]

    def get(self, kind: str, name: str, namespace: str = NAMESPACE, version: str = "v1") -> Object:
        """Raises `ApiError`."""
        wanted = {"kind": kind, "apiVersion": version, "metadata": {"name": name, "namespace": namespace}}
        found: Object = self.server.request("GET", path_of(wanted))
        return found

    def delete(self, each: Object, *, grace: int | None = None) -> None:
        """Raises `ApiError`."""
        options = "" if grace is None else f"?gracePeriodSeconds={grace}"
        self.server.request("DELETE", path_of(each) + options)

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Make a namespace, and wait until pods can be made in it."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}})
        self.wait_for(lambda: self._found("ServiceAccount", "default", name), f"the service account of {name}")

    def pods(self, namespace: str = NAMESPACE, selector: str = "") -> list[Object]:
        options = f"?labelSelector={selector}" if selector else ""
        found: list[Object] = self.server.request("GET", f"/api/v1/namespaces/{namespace}/pods{options}")["items"]
        return found

    def ready_pods(self, namespace: str = NAMESPACE, selector: str = "") -> list[Object]:
        """Those that are ready and stay."""
        return [
            pod
            for pod in self.pods(namespace, selector)
            if "deletionTimestamp" not in pod["metadata"]
            and any(
                each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ())
            )
        ]

    def _found(self, kind: str, name: str, namespace: str) -> bool:
        try:
            self.get(kind, name, namespace)
        except ApiError:
            return False
        return True

    def wait_for(self, condition: Callable[[], object], what: str, seconds: float = READY_SECONDS) -> None:
        """Raises `TimeoutError` with what the pods say, and `StartError` where a part of the cluster has ended."""
        until = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > until:
                raise TimeoutError(f"{what}: not within {seconds:.0f} s; {self.summary()}")
            time.sleep(0.05)

    def summary(self) -> str:
        """One line a pod that is not ready, with why."""
        lines = []
        for pod in self.server.request("GET", "/api/v1/pods")["items"]:
            status = pod["status"]
            states = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
            said = [f"{each['name']} {json.dumps(each['state'])}" for each in states if not each["ready"]]
            if said or status["phase"] == "Pending":
                metadata = pod["metadata"]
                lines.append(f"{metadata['namespace']}/{metadata['name']}: {status['phase']} {'; '.join(said)}")
        return "\n".join(lines) or "all pods are ready"

    # ---- containers and processes ----

    def load(self, wanted: Iterable[Image]) -> None:
        """Images for pods, which name them with `imagePullPolicy: Never` or a tag."""
        self.containers.load(wanted)

    def log(self, pod: str, container: str, namespace: str = NAMESPACE) -> str:
        """What a container has printed."""
        return str(self.server.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}"))

    def execute(self, pod: str, container: str, command: Sequence[str], namespace: str = NAMESPACE) -> str:
        """What a command in a container prints. Raises `OSError` where it fails."""
        return self.execute_in(self.container(pod, container, namespace), command)

    def execute_in(self, container: str, command: Sequence[str]) -> str:
        """The same by the container's id, which needs no API server."""
        name = f"exec-{os.getpid()}-{time.monotonic_ns()}"
        return self.containers.ctr("task", "exec", "--exec-id", name, container, *command)

    def container(self, pod: str, container: str, namespace: str = NAMESPACE) -> str:
        """The id of a running container."""
        status = self.get("Pod", pod, namespace)["status"]
        states = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        return next(
            str(each["containerID"]).removeprefix("containerd://") for each in states if each["name"] == container
        )

    def signal(self, pod: str, container: str, name: str = "KILL", namespace: str = NAMESPACE) -> None:
        """Send a signal to the first process of a container."""
        task = self.container(pod, container, namespace)
        self.containers.ctr("task", "kill", "--signal", f"SIG{name}", task)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Running:
        """A process of the repository in the node's network, where it reaches the API (`inside`), pods and Services."""
        started = self.machine.start_in_network(name, command, {**_OWN_MODULES, **(environment or {})})
        self._started.append(started)
        return started


_OWN_MODULES: Final = {"PYTHONPATH": str(ROOT), "PATH": PATH}


def _kubelet(made: credentials.Credentials) -> list[str]:
    """Options of kube-apiserver: how it reaches kubelet, for logs of containers."""
    certificate, key = made.pair("kubelet-client", "kube-apiserver", credentials.MASTERS)
    return [
        f"--kubelet-client-certificate={certificate}",
        f"--kubelet-client-key={key}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def require() -> None:
    """Raises `tools.MissingError` where this machine cannot start a node."""
    machine.require()
    for program in tools.NODE:
        tools.find(program)
    debian.find()


@contextmanager
def cluster(pod_addresses: int | None = None) -> Iterator[Node]:
    """A cluster of one's own; `pod_addresses` is how many there are for its pods. Raises `tools.MissingError`."""
    require()
    with ExitStack() as stack:
        own = stack.enter_context(folder())
        yield Node(own, stack, pod_addresses)
