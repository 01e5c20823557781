"""The guard as deploy/install.yaml has it, for an installation of the tests, and a namespace that it guards."""

from __future__ import annotations

import http.client
import json
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.injections.objects import PATH
from admc.kubernetes.inject.spec import Captures, Required, ServiceInjection, injection_spec, to_json
from tests.cluster.node.cluster import path_of
from tests.deploy.chart import NAME, definitions, installed
from tests.inject.test_recognised import INSTALLATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.kubernetes.inject.model import Installation
    from tests.cluster.api_server import ApiServer

    Json = dict[str, Any]

REFUSED: Final = "ValidatingAdmissionPolicy "
NEEDS: Final = {
    "rate": Required(waits=True, captures=Captures((9000,), (27017,))),
    "geo": Required(waits=False, captures=Captures((8082, 9000), ())),
    "search": Required(waits=True, captures=Captures((), (8082, 8083))),
    "plain": Required(waits=False, captures=Captures((), ())),
    "caller": Required(waits=True),
}
"""The guarded services of the tests."""
UNGUARDED: Final = ServiceInjection({"app": "calm"}, waits=True, captures=Captures((7000,), ()))


def selector(service: str) -> dict[str, str]:
    return {"app": "geo", "tier": "back"} if service == "geo" else {"app": service}


def rows(needs: Mapping[str, Required] = NEEDS) -> dict[str, ServiceInjection]:
    return {
        name: ServiceInjection(selector(name), own.waits, captures=own.captures, required=own)
        for name, own in needs.items()
    }


def injection(
    services: Mapping[str, ServiceInjection], namespace: str, installation: Installation = INSTALLATION
) -> Json:
    spec = to_json(injection_spec("shop", installation.server, services))
    metadata = {"name": installation.name, "namespace": namespace}
    return {"apiVersion": "admc.dev/v1alpha1", "kind": "Injection", "metadata": metadata, "spec": spec}


def guard(installation: Installation = INSTALLATION) -> list[Json]:
    """The policies of the guard, each with its binding, with the names and the images of another installation."""
    found = [each for each in installed() if each["metadata"]["name"].startswith(f"{NAME}-guard")]
    assert len(found) == 8
    text = json.dumps(found)
    for old, new in (
        (NAME, f"admc-{installation.name}"),
        ("admc.dev/main", f"admc.dev/{installation.name}"),
        ('"main"', f'"{installation.name}"'),
        ("'main'", f"'{installation.name}'"),
        ("inject main ", f"inject {installation.name} "),
        ("admc:0.1.0", installation.image),
        ("envoyproxy/envoy:v1.40-latest", installation.envoy_image),
    ):
        assert old in text, old
        text = text.replace(old, new)
    objects: list[Json] = json.loads(text)
    return sorted(objects, key=lambda each: (each["metadata"]["name"], each["kind"]))


class Connection:
    """Requests of the administrator on one connection: thousands of them take a third of the time."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._open()

    def _open(self) -> None:
        place = self._api.place
        self._connection = http.client.HTTPSConnection(
            place.address,
            place.port,
            timeout=30,
            context=self._api._tls,
        )

    def close(self) -> None:
        self._connection.close()

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {self._api.admin_token}", "Content-Type": kind}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
        except (http.client.HTTPException, OSError):
            self._connection.close()
            self._open()
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
        document: Json = json.loads(response.read())
        return response.status, document


@dataclass
class Guarded:
    """A namespace whose pods the guard judges."""

    api: ApiServer
    namespace: str
    request: Connection

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def create(self, pod: Json, *, dry: bool = True) -> tuple[int, Json]:
        return self.request("POST", f"{self.pods}{'?dryRun=All' if dry else ''}", pod)

    def merge(self, name: str, change: Json, *, dry: bool = True, part: str = "") -> tuple[int, Json]:
        """A strategic merge patch of a pod, or of a part (a subresource)."""
        path = f"{self.pods}/{name}{part}{'?dryRun=All' if dry else ''}"
        return self.request("PATCH", path, change, "application/strategic-merge-patch+json")

    def inject(self, services: Mapping[str, ServiceInjection]) -> None:
        self.api.apply(PATH.format(self.namespace, INSTALLATION.name), injection(services, self.namespace))


@contextmanager
def guarded(api: ApiServer, namespace: str, controller: str = INSTALLATION.name) -> Iterator[Guarded]:
    """A namespace of the installation, without an `Injection`."""
    labels = {"admc.dev/controller": controller}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    api.apply(f"/api/v1/namespaces/{namespace}", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts/default", account)
    with closing(Connection(api)) as connection:
        yield Guarded(api, namespace, connection)


def install(api: ApiServer, objects: Iterable[Json] = ()) -> None:
    """Without objects: the definitions alone."""
    for each in objects or definitions():
        api.apply(path_of(each), each)


def said(answer: tuple[int, Json]) -> str:
    """Why a policy refused a request; empty if none did."""
    status, document = answer
    message = str(document.get("message", "")) if status >= 400 else ""
    if REFUSED not in message:
        return ""
    for separator in ("denied request: ", "resulted in error: "):
        _, found, why = message.partition(separator)
        if found:
            return why
    return message
