"""The Secrets of the kept state, as objects of the API server.

    admc-NAME-state           names the parts; its annotation `admc.dev/written-by` names the replica that wrote it
    admc-NAME-part-SHA256     a part, never changed
    admc-NAME-rollout         exists while proxies may have more than one plan. It is apart from the others: if they are
                              damaged, it shows that the server must not begin anew

All have the type `admc.dev/state`, and the label `admc.dev/controller`.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final, Literal, NamedTuple

from admc.kubernetes.cluster.names import CONTROLLER, GROUP
from admc.kubernetes.cluster.storage.packs import MAX_PARTS, MAX_UNPACKED, Pack, digest_of
from admc.serve.storage.manifest import ManifestError
from dsl.documents import DocumentError, plain, read, record

TYPE: Final = f"{GROUP}/state"
WRITER: Final = f"{GROUP}/written-by"
INDEX: Final = "state.json"
PART: Final = "part"
MAX_INDEX: Final = 256 * 1024
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Document = dict[str, Any]


@record
class Index:
    """The content of `admc-NAME-state`."""

    schema_version: Literal[1]
    manifest: str
    """The digest of the object that is the manifest."""
    packs: tuple[Pack, ...]

    @property
    def parts(self) -> frozenset[str]:
        return frozenset(part for pack in self.packs for part in pack.parts)


class Record(NamedTuple):
    """The digest and the writer of a Secret, which a replica learns from its watch."""

    digest: str
    """The digest of its content."""
    writer: str


class Names(NamedTuple):
    """The names of an installation's Secrets."""

    installation: str
    namespace: str

    @property
    def collection(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets"

    @property
    def state(self) -> str:
        return f"admc-{self.installation}-state"

    @property
    def under_way(self) -> str:
        return f"admc-{self.installation}-rollout"

    def part(self, digest: str) -> str:
        return f"admc-{self.installation}-part-{digest}"

    def digest(self, name: str) -> str | None:
        """Return the digest in the name of a part; None for a Secret that is no part of this installation."""
        head, digits = name[:-64], name[-64:]
        return digits if head == self.part("") and _DIGEST.fullmatch(digits) else None

    @property
    def selectors(self) -> dict[str, str]:
        """The selectors of all Secrets of the kept state, for a list or watch."""
        return {"labelSelector": f"{CONTROLLER}={self.installation}", "fieldSelector": f"type={TYPE}"}

    def secret(
        self, name: str, data: dict[str, bytes], writer: str = "", *, version: str = "", immutable: bool = False
    ) -> Document:
        """Return a Secret. With `version`, it replaces that version only."""
        metadata: Document = {"name": name, "namespace": self.namespace, "labels": {CONTROLLER: self.installation}}
        if writer:
            metadata["annotations"] = {WRITER: writer}
        if version:
            metadata["resourceVersion"] = version
        secret: Document = {"apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": metadata}
        secret["data"] = {key: base64.b64encode(value).decode() for key, value in data.items()}
        return secret | ({"immutable": True} if immutable else {})


def index_to_json(index: Index) -> bytes:
    return (json.dumps(plain(index), sort_keys=True) + "\n").encode()


def index_from_json(content: bytes) -> Index:
    """Raises `ManifestError`."""
    if len(content) > MAX_INDEX:
        raise ManifestError(f"it has more than {MAX_INDEX:,} bytes")
    try:
        index = read(Index, content)
    except DocumentError as error:
        raise ManifestError(error.message) from error
    if not all(map(_DIGEST.fullmatch, (index.manifest, *index.parts))):
        raise ManifestError("a part of it is not named by a digest")
    check(index)
    return index


def check(index: Index) -> None:
    """Check the size. Raises `ManifestError` if it is too large."""
    if sum(len(pack.parts) for pack in index.packs) > MAX_PARTS:
        raise ManifestError(f"it has more than {MAX_PARTS} parts")
    if sum(pack.length for pack in index.packs) > MAX_UNPACKED:
        raise ManifestError(f"it has more than {MAX_UNPACKED // 2**20} MB")


def decode(secret: Document) -> Record:
    """Return the record of a Secret, for a watch."""
    content = next((text for key in (INDEX, PART) if (text := content_of(secret, key)) is not None), b"")
    return Record(digest_of(content), writer_of(secret))


def content_of(secret: Document | None, key: str) -> bytes | None:
    """Return a value of a Secret; None if the Secret has none, or none that can be read."""
    data = secret.get("data") if secret else None
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return None


def writer_of(secret: Document) -> str:
    """Return the replica that wrote the state; empty if unknown."""
    annotations = _metadata(secret).get("annotations")
    return str(annotations.get(WRITER) or "") if isinstance(annotations, dict) else ""


def version_of(secret: Document) -> str:
    return str(_metadata(secret).get("resourceVersion") or "")


def uid_of(secret: Document) -> str:
    return str(_metadata(secret).get("uid") or "")


def name_of(secret: Document) -> str:
    return str(_metadata(secret).get("name") or "")


def _metadata(secret: Document) -> Document:
    metadata = secret.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
