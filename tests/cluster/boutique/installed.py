"""An installation by the chart's manifests on a node, and the boutique in a namespace that takes part.

Everything is done as a user does it: manifests are applied as they are, and nothing edits them.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.names import ENVOY_IMAGE, IMAGE
from tests.cluster.boutique import shop
from tests.cluster.node import images
from tests.cluster.traffic.requests import Requests
from tests.deploy.chart import NAME, NAMESPACE, installed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.node.cluster import Node
    from tests.cluster.traffic.requests import Sent

SECONDS: Final = 300.0
STEADY_SECONDS: Final = 50.0
"""More than three periods of the slowest liveness probe, after which a kubelet restarts a container."""
PROGRAMS: Final = "/apis/admc.dev/v1alpha1/programs"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{shop.NAMESPACE}/deployments"


class Shop:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.requests = Requests(node.machine.folder / "log", shop.NAMESPACE, "main")

    def close(self) -> None:
        self.requests.close()

    def install(self) -> None:
        node = self.node
        node.machine.favour_pods()
        callee = images.python(shop.IMAGE, ("grpc",), ("tests/cluster/boutique", "tests/cluster/traffic"))
        node.load([callee, images.envoy(ENVOY_IMAGE), images.server(IMAGE)])
        node.apply(*installed())
        self.until(lambda: self._are_available(NAMESPACE, [NAME]), "the servers")

    def open(self) -> None:
        """The boutique without ADMs: all of its pods are ready."""
        self.node.namespace(shop.NAMESPACE, {"admc.dev/controller": "main"})
        self.node.apply(*shop.manifests())
        self.until_ready()

    def program(self, side: str, value: str) -> None:
        text = shop.PROGRAM.replace("SIDE", side).replace("VALUE", value)
        spec = {"controller": "main", "files": {"policies.adm": text}}
        body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Program", "metadata": {"name": "boutique"}, "spec": spec}
        self.node.server.apply(f"{PROGRAMS}/boutique", body)

    def restart(self, *names: str) -> None:
        """`kubectl rollout restart`."""
        change = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": f"{time.time()}"}}}
        for name in names or self.names:
            self._patch(name, {"spec": {"template": change}})

    def scale(self, name: str, replicas: int) -> None:
        self._patch(name, {"spec": {"replicas": replicas}})

    def label(self, name: str, **labels: str) -> None:
        """The template of a Deployment gets labels."""
        self._patch(name, {"spec": {"template": {"metadata": {"labels": labels}}}})

    def copy(self, name: str, other: str, **labels: str) -> None:
        """Another Deployment with the containers of one, and more labels."""
        (made,) = (
            each for each in shop.manifests() if each["kind"] == "Deployment" and each["metadata"]["name"] == name
        )
        chosen = {**made["spec"]["selector"]["matchLabels"], **labels}
        made["metadata"]["name"] = other
        made["spec"]["selector"]["matchLabels"] = made["spec"]["template"]["metadata"]["labels"] = chosen
        self.node.apply(made)

    def select(self, name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> None:
        """The Service gets another selector."""
        change = {"metadata": {"annotations": annotations or {}}, "spec": {"selector": labels}}
        path = f"/api/v1/namespaces/{shop.NAMESPACE}/services/{name}"
        self.node.server.request("PATCH", path, change, "application/merge-patch+json")

    @property
    def names(self) -> tuple[str, ...]:
        return (*shop.SERVICES, shop.CALLER)

    def until_ready(self, *more: str) -> None:
        """`more`: Deployments besides those of the boutique."""
        self.until(lambda: self._are_available(shop.NAMESPACE, (*self.names, *more)), "the pods of the boutique")

    def until_steady(self) -> None:
        """Until no container was restarted for a while: liveness probes are answered, too."""
        before, since = self._restarts(), time.monotonic()

        def is_steady() -> bool:
            nonlocal before, since
            now = self._restarts()
            if now != before:
                before, since = now, time.monotonic()
            return time.monotonic() - since > STEADY_SECONDS

        self.until(is_steady, "no restart of a container")

    def _restarts(self) -> int:
        statuses = (pod["status"].get("containerStatuses", ()) for pod in self.node.pods(shop.NAMESPACE))
        return sum(container["restartCount"] for listed in statuses for container in listed)

    def until_programmed(self) -> None:
        self.until(lambda: self._is("Programmed"), "the program in force")

    def until_accepted(self) -> None:
        self.until(lambda: self._is("Accepted"), "the accepted program")

    def until(self, condition: Callable[[], object], what: str) -> None:
        try:
            self.node.wait_for(condition, what, SECONDS)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{json.dumps(self.status(), indent=1)}\n{self.logs()}") from error

    def status(self) -> dict[str, Any]:
        listed = self.node.server.request("GET", PROGRAMS)["items"]
        return {each["metadata"]["name"]: each.get("status") for each in listed}

    def logs(self) -> str:
        pods = self.node.pods(NAMESPACE)
        return "\n".join(self.node.log(each["metadata"]["name"], "server", NAMESPACE)[-3000:] for each in pods)

    def sent(self, since: float = 0.0) -> list[Sent]:
        return self.requests.between(since)

    def with_adm(self) -> set[str]:
        """The services whose pods, which stay, have an ADM."""
        return {
            pod["metadata"]["labels"]["app"]
            for pod in self.node.pods(shop.NAMESPACE)
            if "deletionTimestamp" not in pod["metadata"]
            and any(each["name"] == "admc-proxy" for each in pod["spec"].get("initContainers", ()))
        }

    def _patch(self, name: str, change: dict[str, Any]) -> None:
        self.node.server.request("PATCH", f"{DEPLOYMENTS}/{name}", change, "application/merge-patch+json")

    def _are_available(self, namespace: str, names: tuple[str, ...] | list[str]) -> bool:
        """As `kubectl rollout status` says it."""
        listed = self.node.server.request("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
        states = {each["metadata"]["name"]: each for each in listed}
        return all(name in states and _is_available(states[name]) for name in names)

    def _is(self, kind: str) -> bool:
        program = self.node.server.request("GET", f"{PROGRAMS}/boutique")
        status = program.get("status") or {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        return status.get("observedGeneration") == program["metadata"]["generation"] and conditions.get(kind) == "True"


def _is_available(deployment: dict[str, Any]) -> bool:
    status, wanted = deployment.get("status") or {}, deployment["spec"]["replicas"]
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and all(
        status.get(name, 0) == wanted for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
