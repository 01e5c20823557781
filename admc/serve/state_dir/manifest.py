"""What stands in the folder of the kept state: `state.json`, and a snapshot as one of its parts.

Whatever is read here may have been touched by a power cut or a hand, so every field is checked.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError

from emitters.envoy import Mode
from xds_server.resources.snapshot import Resource, Snapshot, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION: Final = 1
MAX_GROUPS: Final = 100_000
MODES: Final = tuple(map(str, Mode))
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ManifestError(Exception):
    """The content is not what this admc writes; the message says what is wrong."""


class StoredSnapshot(NamedTuple):
    """The snapshot of one service."""

    version: str
    digest: str
    """Of the part that has it."""
    elsewhere: tuple[str, ...]


def to_json(state: dict[str, Any] | None, groups: Mapping[str, StoredSnapshot]) -> bytes:
    """The content of `state.json`; `state` has the digests of a recipe's parts."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "state": state,
        "groups": {
            name: {"object": item.digest, "elsewhere": list(item.elsewhere)} for name, item in sorted(groups.items())
        },
    }
    return (json.dumps(document) + "\n").encode()


def serialised(snapshot: Snapshot) -> bytes:
    """The content of the part that has a snapshot."""
    response = discovery_pb2.DiscoveryResponse()
    for collection in snapshot.collections.values():
        for resource in collection.resources.values():
            response.resources.add(type_url=resource.type_url, value=resource.body)
    found: bytes = response.SerializeToString(deterministic=True)
    return found


def parsed(content: bytes, elsewhere: list[str]) -> Snapshot:
    """The snapshot that such a part has. Raises `ManifestError`."""
    try:
        response = discovery_pb2.DiscoveryResponse.FromString(content)
        snapshot = Snapshot.of(
            (Resource.parse(item.type_url, item.value) for item in response.resources), elsewhere=elsewhere
        )
        snapshot.check()
    except (DecodeError, SnapshotError) as error:
        raise ManifestError(f"its snapshot cannot be used: {error}") from error
    return snapshot


def from_json(content: bytes) -> dict[str, Any]:
    """The content of `state.json`, every field checked. Raises `ManifestError`."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError("it is not JSON; the file may be cut short") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        raise ManifestError("it has no `schema_version`")
    if version > SCHEMA_VERSION:
        raise ManifestError(f"it has schema version {version}, and this admc reads up to {SCHEMA_VERSION}")
    groups = document.get("groups")
    if document.keys() != {"schema_version", "state", "groups"} or not isinstance(groups, dict):
        raise ManifestError("it does not have the fields that belong there")
    if len(groups) > MAX_GROUPS:
        raise ManifestError(f"it has more than {MAX_GROUPS:,} groups")
    for name, saved in groups.items():
        if (
            not isinstance(saved, dict)
            or saved.keys() != {"object", "elsewhere"}
            or not _is_digest(saved["object"])
            or not _are_names(saved["elsewhere"])
        ):
            raise ManifestError(f"its group `{name[:100]}` does not have the fields that belong there")
    state = document["state"]
    if state is not None and not _is_state(state):
        raise ManifestError("its `state` does not have the fields that belong there")
    found: dict[str, Any] = document
    return found


def _is_state(state: object) -> bool:
    return (
        isinstance(state, dict)
        and state.keys() == {"main", "mode", "inputs", "plan", "endpoints"}
        and isinstance(state["main"], str)
        and state["mode"] in MODES
        and isinstance(state["inputs"], dict)
        and state["main"] in state["inputs"]
        and all(map(_is_digest, state["inputs"].values()))
        and _is_digest(state["plan"])
        and (state["endpoints"] is None or _is_digest(state["endpoints"]))
    )


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and bool(_DIGEST.fullmatch(value))


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
