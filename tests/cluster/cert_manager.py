"""cert-manager beside an API server: its controllers as a process, with its own definitions.

Its webhook is left out: it checks and converts objects that are right already.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests import golang
from tests.cluster import tools
from tests.cluster.api_server import ApiError
from tests.cluster.node.cluster import path_of
from tests.cluster.process import Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.api_server import ApiServer

    Json = dict[str, Any]

MODULE: Final = "github.com/cert-manager/cert-manager"
VERSION: Final = "cert-manager.io/v1"
SECONDS: Final = 60.0


@contextmanager
def cert_manager(api: ApiServer, folder: Path) -> Iterator[Running]:
    """Raises `MissingError`."""
    program = tools.find(tools.CERT_MANAGER)
    for file in sorted((golang.required(tools.sources(tools.CERT_MANAGER), MODULE) / "deploy" / "crds").glob("*.yaml")):
        definition = yaml.safe_load(file.read_text(encoding="utf-8"))
        api.apply(path_of(definition), definition)
        spec = definition["spec"]
        _until_served(api, f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
    running = Running("cert-manager", [str(program), str(api.kubeconfig)], folder / "cert-manager.log")
    try:
        yield running
    finally:
        running.kill()


def _until_served(api: ApiServer, path: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            api.request("GET", path)
        except ApiError as error:
            if error.status not in (404, 429) or time.monotonic() > deadline:  # not yet served, or its storage is made
                raise
            time.sleep(0.1)
        else:
            return


def applied(api: ApiServer, namespace: str, kind: str, name: str, spec: Json) -> str:
    """Apply an object of cert-manager. Returns its path."""
    path = f"/apis/{VERSION}/namespaces/{namespace}/{kind.lower()}s/{name}"
    api.apply(path, {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec})
    return path
