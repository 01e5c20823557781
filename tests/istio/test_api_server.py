"""A real API server with the modules' own custom resource definitions takes what admc takes, and refuses the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admc.istio.inputs.reading import problems_of
from admc.istio.schemas.data import kinds
from admc.istio.schemas.rules import Effort
from admc.istio.schemas.used_fields import group_and_kind, kept
from tests.cluster.api_server import ApiError
from tests.istio import schemas
from tests.istio.samples import changed, right

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer
    from tests.istio.objects import Json

CHANGES = 30
"""Changed copies of each sample."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definitions() -> Iterator[Json]:
    """The definitions of all kinds in the data file, as the modules have them."""
    try:
        istio, gateway = schemas.download(schemas.ISTIO), schemas.download(schemas.GATEWAY)
    except schemas.MissingError as error:
        pytest.skip(str(error))
    paths = [istio / "kubernetes" / "customresourcedefinitions.gen.yaml"]
    paths += sorted((gateway / "config" / "crd" / "experimental").glob("gateway.networking.k8s.io_*.yaml"))
    for path in paths:
        for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            if document and document["kind"] == "CustomResourceDefinition":
                yield document


def install(server: ApiServer) -> None:
    names = []
    for definition in definitions():
        names.append(definition["metadata"]["name"])
        server.request("POST", DEFINITIONS, definition)
    deadline = time.monotonic() + 60
    for name in names:
        while not is_established(server, name):
            assert time.monotonic() < deadline, name
            time.sleep(0.2)


def is_established(server: ApiServer, name: str) -> bool:
    conditions = server.request("GET", f"{DEFINITIONS}/{name}").get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def verdict(server: ApiServer, document: Json) -> str:
    """Empty if the API server takes it; its message if it refuses it. Nothing is stored."""
    kind = kinds()[group_and_kind(document)]
    path = f"/apis/{document['apiVersion']}/namespaces/default/{kind.plural}"
    body = {**document, "metadata": {**document["metadata"], "namespace": "default"}}
    try:
        server.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", body)
    except ApiError as error:
        return str(error)
    return ""


def test_admc_and_an_api_server_agree(new_cluster_api: Callable[..., ApiServer]) -> None:
    server = new_cluster_api()
    install(server)
    taken = refused = 0
    differences: list[tuple[Any, ...]] = []
    for number, document in enumerate(right()):
        assert verdict(server, document) == ""
        assert list(problems_of(kept(document), Effort())) == []
        for seed in range(CHANGES):
            made = changed(document, number * 1000 + seed)
            theirs, ours = verdict(server, made), list(problems_of(kept(made), Effort()))
            taken, refused = taken + (not theirs), refused + bool(theirs)
            if bool(theirs) != bool(ours):
                differences.append((made["kind"], made["spec"], theirs[-400:], ours))
    assert differences == []
    assert taken > 20
    assert refused > 100
