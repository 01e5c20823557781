"""The objects of the cluster, and pods that are replaced: kwok plays the kubelet, and no process runs in them."""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.template import injected
from tests.bench.cluster.application import SEED
from tests.cluster.many import pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.bench.cluster.application import Application
    from tests.cluster.many import ManyPods
    from tests.cluster.serve.installation import Installation

ACCOUNT: Final = "default"
READY_SECONDS: Final = 300.0
AT_ONCE: Final = 500
"""Pods that are made before the clock is looked at."""
END_SECONDS: Final = 10.0


class Replaced(NamedTuple):
    """What became of a time in which pods were replaced."""

    pods: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.pods / self.seconds


class Mesh:
    """The services of an application with all of their pods."""

    def __init__(self, installation: Installation, many: ManyPods, application: Application) -> None:
        self._installation, self._many, self._application = installation, many, application
        self._path = f"/api/v1/namespaces/{installation.namespace}"
        self._numbers = itertools.count(1)
        self._templates: dict[str, Mapping[str, Any]] = {}
        self._pods: list[tuple[str, str]] = []
        """Service and name of each pod."""
        self._random = random.Random(SEED)  # noqa: S311
        self._failures: list[BaseException] = []

    def make(self) -> None:
        """All Services and pods, and wait until the pods run. Raises `TimeoutError`."""
        application, many = self._application, self._many
        services = (_service(application, name) for name in application.pods)
        until = time.monotonic() + READY_SECONDS
        many.create(f"{self._path}/services", services)
        names = [name for name, count in application.pods.items() for _ in range(count)]
        for start in range(0, len(names), AT_ONCE):
            if time.monotonic() > until:
                raise TimeoutError(f"{start} of {len(names)} pods were made in {READY_SECONDS:.0f} s")
            many.create(f"{self._path}/pods", (self._pod(name) for name in names[start : start + AT_ONCE]))
        many.wait(self._installation.namespace, len(names), max(1.0, until - time.monotonic()))

    def replace(self, rate: float, seconds: float) -> Replaced:
        """Replace so many pods a second, at random, of services whose addresses some proxy needs: each gets its
        successor first, and is removed then."""
        count = round(rate * seconds)
        wanted = self._application.wanted
        needed = [index for index, (service, _) in enumerate(self._pods) if wanted[service].anything]
        turns = threading.BoundedSemaphore(max(1, round(rate)))  # one second's, so that it cannot fall far behind
        done = threading.Semaphore(0)

        def one(index: int) -> None:
            try:
                service, old = self._pods[index]
                made = self._pod(service, index)
                many.create_one(f"{self._path}/pods", made)
                many.delete_one(f"{self._path}/pods/{old}")
            except Exception as error:
                self._failures.append(error)
            finally:
                turns.release()
                done.release()

        many, started = self._many, 0
        self._random.shuffle(needed)
        began = time.monotonic()
        for number, index in enumerate(itertools.islice(itertools.cycle(needed), count)):
            due = began + number / rate
            if (now := time.monotonic()) < due:
                time.sleep(due - now)
            elif now - began > seconds * 1.2:
                break
            turns.acquire()
            many.submit(one, index)
            started += 1
        for _ in range(started):
            done.acquire(timeout=END_SECONDS)
        if self._failures:
            raise self._failures[0]
        return Replaced(started, time.monotonic() - began)

    def _pod(self, service: str, index: int | None = None) -> Mapping[str, Any]:
        """A new pod, in the place of another one or beside all others."""
        number = next(self._numbers)
        template = self._template(service)
        name = f"{self._application.objects[service]}-{number}"
        if index is None:
            self._pods.append((service, name))
        else:
            self._pods[index] = service, name
        labels = template["metadata"]["labels"]
        return pod(name, self._installation.namespace, number, labels, template["spec"])

    def _template(self, service: str) -> Mapping[str, Any]:
        if service not in self._templates:
            wanted: PodNeeds = self._application.wanted[service]
            made = injected(_bare(self._application, service), wanted, self._installation.injection)
            assert made.template is not None, made.findings
            self._templates[service] = made.template
        return self._templates[service]


def _service(application: Application, name: str) -> Mapping[str, Any]:
    ports = [{"name": f"p{port}", "port": port} for port in application.ports[name]]
    spec = {"selector": {"app": application.objects[name]}, "ports": ports}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": application.objects[name]},
        "spec": spec,
    }


def _bare(application: Application, name: str) -> dict[str, Any]:
    """About as large as pods are: probes, variables, mounts, and two containers."""
    own = application.objects[name]
    context = {"runAsUser": 1000, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    container = {
        "image": f"registry.example/generated/{own}:1.2.3",
        "env": [{"name": f"VARIABLE_{number}", "value": f"value {number}"} for number in range(8)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": context,
    }
    ports = [{"name": f"p{port}", "containerPort": port} for port in application.ports[name]]
    labels = {"app": own, "app.kubernetes.io/part-of": "generated", "pod-template-hash": "7d9f8b6c5"}
    return {
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": ACCOUNT,
            "containers": [{**container, "name": "main", "ports": ports}, {**container, "name": "logs"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }
