"""Builds the data file of `admc advise` from Istio's and the Gateway API's Go modules.

    python -m tests.istio.schemas       downloads the pinned modules with Go, and writes admc/istio/schemas/data.json.gz

It takes the schemas of the custom resources, without descriptions, and the descriptors of MeshConfig. A schema of a
custom resource admits unknown fields, since an API server removes them. Here they are refused: ignored, a misspelt
selector would make a resource apply to all pods.
"""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from google.protobuf import descriptor_pb2

from tests.isolation import machine_network
from tests.system import HINT, go

TARGET: Final = Path(__file__).parents[2] / "admc" / "istio" / "schemas" / "data.json.gz"
LICENCE: Final = "Apache-2.0"
CHANGED: Final = (
    "The schemas of the custom resources without descriptions and status, with `additionalProperties: false` where "
    "they have properties and do not keep unknown fields, `nullable` as a type, and without rules about changes "
    "(`oldSelf`); and the compiled descriptors of mesh/v1alpha1."
)


class Module(NamedTuple):
    path: str
    version: str
    sum: str
    """What Go's checksum database has for the archive."""


ISTIO: Final = Module(
    "istio.io/api",
    "v1.31.0-rc.0.0.20260824154656-b943409680a7",
    "h1:xAyXvpHQLGIMd5enneW/4zM3dwWRQ2HmiaG6DlhObds=",
)
GATEWAY: Final = Module("sigs.k8s.io/gateway-api", "v1.6.0", "h1:735YBRj5NXFrOGX0GoSjwzUIzbz8kiEOfADsqHFmHgE=")
KEPT: Final = frozenset(
    (
        "additionalProperties", "allOf", "anyOf", "default", "enum", "format", "items", "maximum", "maxItems",
        "maxLength", "maxProperties", "minimum", "minItems", "minLength", "minProperties", "multipleOf", "not",
        "nullable", "oneOf", "pattern", "properties", "required", "type", "uniqueItems",
        "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    )
)  # fmt: skip
"""The keywords of a schema that decide which values are right."""
DROPPED: Final = frozenset(("description", "title", "example", "externalDocs", "x-kubernetes-map-type"))


class MissingError(Exception):
    """There is no Go here, or the modules cannot be downloaded."""


def build() -> dict[str, Any]:
    """The content of the data file. Raises `MissingError`."""
    istio, gateway = download(ISTIO), download(GATEWAY)
    crds = [istio / "kubernetes" / "customresourcedefinitions.gen.yaml"]
    # The experimental channel has all fields of the standard one, and a cluster may have either.
    crds += sorted((gateway / "config" / "crd" / "experimental").glob("gateway.networking.k8s.io_*.yaml"))
    schemas: list[Any] = []
    kinds = [kind for path in crds for kind in _kinds(path, schemas)]
    return {
        "provenance": {
            "modules": [{**module._asdict(), "licence": LICENCE} for module in (ISTIO, GATEWAY)],
            "changed": CHANGED,
            "made_by": "python -m tests.istio.schemas",
        },
        "kinds": kinds,
        "schemas": schemas,
        "descriptors": base64.b64encode(descriptors(istio)).decode(),
    }


def content(document: dict[str, Any]) -> bytes:
    """The bytes of the file: the same ones for the same document."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def download(module: Module) -> Path:
    """The folder of a module. Go verifies it by its checksum database, and this by the sum above."""
    compiler = go()
    if compiler is None:
        raise MissingError(f"this machine lacks Go; {HINT}")
    with tempfile.TemporaryDirectory() as folder, machine_network():
        (Path(folder) / "go.mod").write_text("module schemas\n", encoding="utf-8")
        command = [compiler, "mod", "download", "-json", f"{module.path}@{module.version}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise MissingError(f"{module.path} cannot be downloaded: {(done.stderr or done.stdout).strip()[-300:]}")
    answer = json.loads(done.stdout)
    if answer["Sum"] != module.sum:
        raise SystemExit(f"{module.path} {module.version} has the sum {answer['Sum']}, and not {module.sum}")
    return Path(answer["Dir"])


def descriptors(module: Path) -> bytes:
    """The descriptors of MeshConfig and of what it refers to, without those that protobuf itself has."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "set"
        sources = sorted(str(path) for path in (module / "mesh" / "v1alpha1").glob("*.proto"))
        included = [f"-I{module}", f"-I{module / 'common-protos'}", "--include_imports"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *included, f"--descriptor_set_out={target}", *sources]
        subprocess.run(command, check=True, timeout=120)
        files = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes())
    own = [file for file in files.file if not file.name.startswith("google/protobuf/")]
    return descriptor_pb2.FileDescriptorSet(file=own).SerializeToString(deterministic=True)


def _kinds(path: Path, schemas: list[Any]) -> Iterator[dict[str, Any]]:
    for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
        if not document or document["kind"] != "CustomResourceDefinition":
            continue
        spec = document["spec"]
        versions = {
            version["name"]: _index(_whole(version["schema"]["openAPIV3Schema"]), schemas)
            for version in spec["versions"]
        }
        scope = {"Namespaced": True, "Cluster": False}[spec["scope"]]
        yield {
            "group": spec["group"],
            "kind": spec["names"]["kind"],
            "plural": spec["names"]["plural"],
            "namespaced": scope,
            "versions": versions,
        }


def _index(schema: Any, schemas: list[Any]) -> int:
    """Most versions of a kind have the same schema, which is there once."""
    if schema not in schemas:
        schemas.append(schema)
    return schemas.index(schema)


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the whole object."""
    text = {"type": "string"}
    properties = {
        **schema["properties"],
        "apiVersion": text,
        "kind": text,
        "metadata": {"type": "object"},
        "status": {"x-kubernetes-preserve-unknown-fields": True},
    }
    required = sorted({*schema.get("required", ()), "apiVersion", "kind"})
    return strict({**schema, "type": "object", "properties": properties, "required": required})


def strict(schema: Any) -> Any:
    """A structural schema that refuses unknown fields."""
    if not isinstance(schema, dict):
        return schema
    unknown = schema.keys() - KEPT - DROPPED
    if unknown:
        raise SystemExit(f"the schemas have keywords that this script does not know: {', '.join(sorted(unknown))}")
    made = {key: value for key, value in schema.items() if key in KEPT}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = strict(made[key])
    if "properties" in made:
        made["properties"] = {name: strict(part) for name, part in made["properties"].items()}
        if not made.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    if rules := _rules(made.pop("x-kubernetes-validations", ())):
        made["x-kubernetes-validations"] = rules
    if made.pop("nullable", False):
        made["type"] = [made["type"], "null"]
        if "enum" in made:
            made["enum"] = [*made["enum"], None]
    return made


def _rules(rules: Any) -> list[dict[str, str]]:
    return [
        {key: rule[key] for key in ("rule", "message", "messageExpression") if key in rule}
        for rule in rules
        if "oldSelf" not in rule["rule"]
    ]


if __name__ == "__main__":
    try:
        TARGET.write_bytes(content(build()))
    except MissingError as error:
        raise SystemExit(str(error)) from error
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")
