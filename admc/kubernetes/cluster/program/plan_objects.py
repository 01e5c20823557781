"""The plan of a `Program` in ConfigMaps: packed, in parts with digests. An altered ConfigMap is written again.

plan --plan_objects--> parts and an index --missing--> applied, or removed

    admc-NAME-plan              the index: the digest of the plan, its size, and the names and digests of its parts
    admc-NAME-plan-DIGEST-N     a part, immutable, named by the digest of the packed plan
    admc-NAME-plan-facts-...    the same of the facts that the plan relies on

New parts are written before the index names them, and earlier parts are removed after that. So a reader of an index
finds its parts, unless the plan was replaced in between.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from annotated_types import Le, MaxLen

from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.packing import PackedError, packed, unpacked
from dsl.documents import Count, DocumentError, Given, VersionError, document, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.program.owner import Owner

CONFIG_MAPS: Final = "/api/v1/namespaces/{0}/configmaps"
PLAN_OF: Final = "admc.dev/plan"
"""Label of all objects of a plan; the value is the name of the Program."""
MAX_PART: Final = 384_000
"""Bytes; 512 KB in base 64."""
MAX_PARTS: Final = 500
MAX_PLAN: Final = 512_000_000
"""Bytes of a plan, unpacked."""
INDEX: Final = "index.json"
FACTS: Final = "facts"
"""Field of the index: the document of facts that is an input of the plan, in parts of its own."""
PART: Final = "part"
CONFIG_MAP_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
DIGITS: Final = 16
"""Digits of the digest in a name."""


class PlanReference(NamedTuple):
    """Where the plan is, for the status of its Program."""

    namespace: str
    name: str
    sha256: str
    """The digest of the plan."""


class PlanObjectError(Exception):
    """The plan cannot be joined from its parts. The message is lower case, for the cause of a finding."""


class PlanObjects(NamedTuple):
    """ConfigMaps as JSON, by name. The index is applied after the parts."""

    reference: PlanReference
    directory: dict[str, Any]
    """The index."""
    parts: Mapping[str, dict[str, Any]]


class PlanConfigMap(NamedTuple):
    """A ConfigMap of the cluster that belongs to a plan."""

    uid: str
    digest: str
    """The digest of all fields that matter."""


def index_name(program: str) -> str:
    return f"admc-{program}-plan"


def plan_objects(
    plan: bytes, program: Owner, namespace: str, controller: str, facts: bytes | None = None
) -> PlanObjects:
    """Return the ConfigMaps of a plan. `facts` is the document that is an input of the plan."""
    common = {
        "namespace": namespace,
        "labels": {CONTROLLER: controller, PLAN_OF: program.name},
        "ownerReferences": [program.reference],
    }
    name = index_name(program.name)
    entry, parts = _packed_parts(plan, name, common)
    if facts is not None:
        entry[FACTS], of_facts = _packed_parts(facts, f"{name}-facts", common)
        parts |= of_facts
    text = json.dumps({"schema_version": 1, **entry}, indent=1)
    index = _config_map({**common, "name": name}, data={INDEX: f"{text}\n"})
    return PlanObjects(PlanReference(namespace, name, entry["sha256"]), index, parts)


def _packed_parts(
    content: bytes, prefix: str, common: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the entry of a document in the index, and the ConfigMaps with its parts."""
    small = packed(content)
    name = f"{prefix}-{hashlib.sha256(small).hexdigest()[:DIGITS]}"
    pieces = [small[at : at + MAX_PART] for at in range(0, len(small), MAX_PART)]
    parts = {
        f"{name}-{number}": _config_map(
            {**common, "name": f"{name}-{number}"},
            binaryData={PART: base64.b64encode(piece).decode("ascii")},
            immutable=True,
        )
        for number, piece in enumerate(pieces)
    }
    listed = [
        {"name": part, "sha256": hashlib.sha256(piece).hexdigest()} for part, piece in zip(parts, pieces, strict=True)
    ]
    return {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "parts": listed}, parts


def _config_map(metadata: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def plan_config_map(document: Mapping[str, Any]) -> PlanConfigMap:
    """Return the record of a ConfigMap, which can be compared with the wanted one."""
    return PlanConfigMap(document["metadata"].get("uid", ""), _digest(document))


def _digest(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    matters = {
        "data": document.get("data") or {},
        "binaryData": document.get("binaryData") or {},
        "immutable": document.get("immutable", False),
        "labels": {name: (metadata.get("labels") or {}).get(name) for name in (CONTROLLER, PLAN_OF)},
        "owners": sorted(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
    }
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()


class Changes(NamedTuple):
    """The writes that give the cluster a plan, in this order."""

    replaced: tuple[tuple[str, str], ...]
    """Names and uids of altered parts: an immutable object has to be removed before it is written again."""
    applied: tuple[dict[str, Any], ...]
    """Parts, then the index."""
    removed: tuple[tuple[str, str], ...]
    """Names and uids of ConfigMaps that no index names any more."""

    @property
    def is_empty(self) -> bool:
        return not (self.replaced or self.applied or self.removed)


def changes(wanted: PlanObjects, there: Mapping[str, PlanConfigMap]) -> Changes:
    """Return the differences. `there` has the ConfigMaps with the label of the plan, by name."""
    altered = {name for name, part in wanted.parts.items() if name in there and there[name].digest != _digest(part)}
    applied = [part for name, part in wanted.parts.items() if name in altered or name not in there]
    index = wanted.directory["metadata"]["name"]
    if index not in there or there[index].digest != _digest(wanted.directory):
        applied.append(wanted.directory)
    return Changes(
        tuple((name, there[name].uid) for name in sorted(altered)),
        tuple(applied),
        tuple((name, item.uid) for name, item in sorted(there.items()) if name not in wanted.parts and name != index),
    )


# ---- reading ----


@document
class Part:
    name: str
    sha256: str


@document
class Stored:
    """A document in parts."""

    sha256: str
    size: Annotated[Count, Le(MAX_PLAN)]
    parts: Annotated[tuple[Part, ...], MaxLen(MAX_PARTS)]


@document
class _Index(Stored):
    """The index of the plan and of its facts."""

    schema_version: Literal[1]
    facts: Given[Stored] = None


class Index(NamedTuple):
    plan: Stored
    facts: Stored | None


def read_index(config_map: Mapping[str, Any]) -> Index:
    """Raises `PlanObjectError`."""
    name = config_map["metadata"]["name"]
    try:
        index = read(_Index, (config_map.get("data") or {})[INDEX].encode())
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError, DocumentError) as error:
        if isinstance(error, VersionError) and error.newer:
            raise PlanObjectError("it was written by a newer admc") from error
        raise PlanObjectError(f"the ConfigMap `{name}` is not what admc wrote") from error
    plan = Stored(index.sha256, index.size, index.parts)
    for part in (*plan.parts, *(index.facts.parts if index.facts is not None else ())):
        if not (part.name.startswith(f"{name}-") and CONFIG_MAP_NAME.fullmatch(part.name)):
            raise PlanObjectError(f"the ConfigMap `{name}` names parts of another plan")
    return Index(plan, index.facts)


def read_part(part: Part, document: Mapping[str, Any]) -> bytes:
    """Raises `PlanObjectError`."""
    try:
        content = base64.b64decode((document.get("binaryData") or {})[PART], validate=True)
    except (LookupError, TypeError, binascii.Error) as error:
        raise PlanObjectError(f"the ConfigMap `{part.name}` is not what admc wrote") from error
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise PlanObjectError(f"the ConfigMap `{part.name}` does not have the digest that its index names")
    return content


def put_together(stored: Stored, pieces: list[bytes]) -> bytes:
    """Join the parts of the plan, or of its facts. Raises `PlanObjectError`."""
    try:
        content = unpacked(b"".join(pieces), stored.size)
    except PackedError as error:
        raise PlanObjectError(str(error)) from error
    if len(content) != stored.size or hashlib.sha256(content).hexdigest() != stored.sha256:
        raise PlanObjectError("the plan does not have the digest that its index names")
    return content
