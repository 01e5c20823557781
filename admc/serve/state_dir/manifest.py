"""The files of the state directory: `state.json` as typed rows, and a snapshot as one object.

A power cut or a user may have damaged any of them, so every field is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError

from admc.typed_json import JsonTypeError, parse
from emitters.envoy import Mode
from xds_server.resources.snapshot import Resource, Snapshot, SnapshotError

SCHEMA_VERSION: Final = 1
MAX_GROUPS: Final = 100_000
MODES: Final = tuple(map(str, Mode))
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ManifestError(Exception):
    """The content is not what this admc writes; the message says what is wrong."""


class StateRow(NamedTuple):
    """The recipe of a state. Contents are objects, by their digests."""

    main: str
    """The path of the program among the inputs."""
    mode: Mode
    inputs: Mapping[str, str]
    """Path -> digest."""
    plan: str
    endpoints: str | None

    @property
    def objects(self) -> frozenset[str]:
        """The digests of all its objects."""
        return frozenset({*self.inputs.values(), self.plan} | (set() if self.endpoints is None else {self.endpoints}))


class SnapshotRow(NamedTuple):
    """The snapshot of one service."""

    object: str
    """The digest of the object that holds its resources."""
    elsewhere: tuple[str, ...]
    """Clusters that its resources name, and that Envoy has from its bootstrap."""


class Manifest(NamedTuple):
    """The content of `state.json`."""

    schema_version: int
    state: StateRow | None
    groups: Mapping[str, SnapshotRow]
    """By service."""


def to_json(state: StateRow | None, groups: Mapping[str, SnapshotRow]) -> bytes:
    """The content of `state.json`."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "state": None if state is None else state._asdict(),
        "groups": {name: row._asdict() for name, row in sorted(groups.items())},
    }
    return (json.dumps(document) + "\n").encode()


def from_json(content: bytes) -> Manifest:
    """The rows of `state.json`. Raises `ManifestError`."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError("it is not JSON; the file may be cut short") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        raise ManifestError("it has no `schema_version`")
    if version > SCHEMA_VERSION:
        raise ManifestError(f"it has schema version {version}, and this admc reads up to {SCHEMA_VERSION}")
    try:
        manifest = parse(Manifest, document)
    except JsonTypeError as error:
        field = f"`{error.where[:100]}`" if error.where else "it"
        raise ManifestError(f"{field} {error.what}") from error
    if len(manifest.groups) > MAX_GROUPS:
        raise ManifestError(f"it has more than {MAX_GROUPS:,} groups")
    for name, row in manifest.groups.items():
        if not _are_digests((row.object,)):
            raise ManifestError(f"`groups.{name[:100]}.object` is not a digest")
    if manifest.state is not None:
        if not _are_digests(manifest.state.objects):
            raise ManifestError("`state` has a digest that is not one")
        if manifest.state.main not in manifest.state.inputs:
            raise ManifestError("`state.main` is not among its inputs")
    return manifest


def _are_digests(texts: Collection[str]) -> bool:
    return all(_DIGEST.fullmatch(text) for text in texts)


def snapshot_to_bytes(snapshot: Snapshot) -> bytes:
    """The object of a snapshot: a `DiscoveryResponse` with all its resources."""
    response = discovery_pb2.DiscoveryResponse()
    for collection in snapshot.collections.values():
        for resource in collection.resources.values():
            response.resources.add(type_url=resource.type_url, value=resource.body)
    content: bytes = response.SerializeToString(deterministic=True)
    return content


def snapshot_from_bytes(content: bytes, row: SnapshotRow) -> Snapshot:
    """The snapshot of an object. Raises `ManifestError`."""
    try:
        response = discovery_pb2.DiscoveryResponse.FromString(content)
        snapshot = Snapshot.of(
            (Resource.parse(item.type_url, item.value) for item in response.resources), elsewhere=row.elsewhere
        )
        snapshot.check()
    except (DecodeError, SnapshotError) as error:
        raise ManifestError(f"its snapshot cannot be used: {error}") from error
    return snapshot
