"""A cluster without an API server: what its watches show is what a test says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.follow import Cluster
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.program.spec import ProgramObject
from admc.kubernetes.cluster.program_source import ClusterPrograms
from admc.kubernetes.cluster.records import Key, Namespace, ServicePort
from admc.serve.compiling.source import Source, State, read
from tests.cluster.memory_api import MemoryApi
from tests.cluster.objects import service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.records import Pod
    from admc.serve.storage.position import Recipe

CONTROLLER_NAME = "main"
PROGRAM = """\
app shop
service search { http 8080  namespace shop }
service rate   { http 9000  namespace shop }
call search -> rate
"""
WITH_POLICY = PROGRAM + 'policy p = set_request_header(name: "x-tier", value: "gold") on search -> rate\n'


class Shown(Cluster):
    """Everything is listed; the methods are what the watches show then."""

    def __init__(self) -> None:
        self.memory = MemoryApi()
        super().__init__(self.memory, CONTROLLER_NAME, "admc-system", lambda item: None)  # type: ignore[arg-type]
        for each in self._watches:
            each.synced.set()
        self._versions = 0
        self.namespace_is("shop")

    def namespace_is(self, name: str, controller: str | None = CONTROLLER_NAME) -> None:
        labels = {} if controller is None else {CONTROLLER: controller}
        self.shows(self.namespaces, Key("", name), Namespace(name, labels))

    def pod_is(self, *pods: Pod) -> None:
        for each in pods:
            self.shows(self.pods, each.key, each)

    def pod_is_gone(self, pod: Pod) -> None:
        self.shows(self.pods, pod.key, None)

    def service_is(self, name: str, *addresses: str, port: int = 9000, **fields: Any) -> None:
        made = service(name, *addresses, ports=(ServicePort(port, port),), **fields)
        self.shows(self.services, made.key, made)

    def service_is_gone(self, name: str) -> None:
        self.shows(self.services, Key("shop", name), None)

    def program_is(self, text: Any, name: str = "shop", uid: str = "uid-1", created: str = "1", **spec: Any) -> None:
        self._versions += 1
        files = {"policies.adm": text} if isinstance(text, str) else text
        body = {"controller": CONTROLLER_NAME, "files": files, **spec}
        body = {name: value for name, value in body.items() if value is not None}
        version = str(self._versions)
        self.shows(self.programs, Key("", name), ProgramObject(name, uid, created, version, self._versions, body, {}))

    def program_is_gone(self, name: str = "shop") -> None:
        self.shows(self.programs, Key("", name), None)

    def shows(self, watched: Any, key: Key, record: Any) -> None:
        found = dict(watched.items)
        found.pop(key, None)
        if record is not None:
            found[key] = record
        watched._replace(found, {})


def shop() -> Shown:
    shown = Shown()
    shown.service_is("search", "10.96.0.1", port=8080)
    shown.service_is("rate", "10.96.0.2")
    return shown


def wanted_of(shown: Shown) -> ClusterPrograms:
    return ClusterPrograms(shown, None)


def compiled(wanted: ClusterPrograms, source: Source) -> tuple[State, Recipe]:
    """As the server would make it, at the current addresses."""
    wanted.advance()
    found = read(source, (wanted.outputs.addresses.document,), with_recipe=True)
    assert found.state is not None, found.findings
    assert found.recipe is not None
    return found.state, found.recipe._replace(endpoints=None)


def listed(wanted: ClusterPrograms) -> Mapping[str, Any]:
    wanted.advance()
    found: Mapping[str, Any] = json.loads(wanted.outputs.addresses.document)["services"]
    return found
