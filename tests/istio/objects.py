"""Objects for the tests, as text. Each function gives one document."""

from __future__ import annotations

import json
from typing import Any, Final

from admc.istio.inputs.reading import Inputs, Reading, Source, read_objects
from admc.istio.mesh.build import build
from admc.istio.mesh.model import Mesh
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics
from dsl.text import SourceText

Json = dict[str, Any]
NETWORKING: Final = "networking.istio.io/v1"
SECURITY: Final = "security.istio.io/v1"


def objects(*documents: Json) -> str:
    return "---\n".join(json.dumps(document, indent=1) + "\n" for document in documents)


def thing(version: str, kind: str, name: str, namespace: str = "shop", /, **fields: Any) -> Json:
    metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def namespace(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def labelled(name: str, labels: dict[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def deployment(name: str, space: str = "shop", /, replicas: int = 1, **template: Any) -> Json:
    labels = {"app": name, **template.pop("labels", {})}
    metadata = {"labels": labels, "annotations": template.pop("annotations", {})}
    spec = {"containers": [{"name": name, "image": "x"}], **template}
    inner = {"metadata": metadata, "spec": spec}
    return thing("apps/v1", "Deployment", name, space, spec={"replicas": replicas, "template": inner})


def pod(name: str, space: str = "shop", /, owner: str | None = None, live: bool = True, **fields: Any) -> Json:
    metadata: Json = {"labels": {"app": name, **fields.pop("labels", {})}}
    metadata["annotations"] = fields.pop("annotations", {})
    if live:
        metadata["uid"] = f"uid-{name}"
    if owner is not None:
        kind, _, of = owner.partition("/")
        metadata["ownerReferences"] = [{"apiVersion": "x/v1", "kind": kind, "name": of, "controller": True}]
    status = {"phase": fields.pop("phase", "Running")}
    spec = {"containers": [{"name": "app"}], **fields}
    return thing("v1", "Pod", name, space, metadata=metadata, spec=spec, status=status)


def service(name: str, space: str = "shop", /) -> Json:
    return thing("v1", "Service", name, space, spec={"selector": {"app": name}, "ports": [{"port": 80}]})


def read(*texts: str, raw: bool = False, named: bool = True) -> tuple[Inputs, list[Diagnostic]]:
    findings = Diagnostics()
    sources = [Source(SourceText(f"{number}.yaml", text), named) for number, text in enumerate(texts)]
    return read_objects(sources, findings, reading=Reading(raw)), findings.items


def mesh_of(*documents: Json, injected: frozenset[str] | None = frozenset()) -> tuple[Mesh, list[Diagnostic]]:
    """The mesh of documents that are right."""
    inputs, wrong = read(objects(*documents))
    assert wrong == []
    findings = Diagnostics()
    return build(inputs.objects, findings, injected), findings.items
