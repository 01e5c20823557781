"""A snapshot as an object of the kept state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError

from admc.serve.storage.manifest import ManifestError
from xds_server.resources.snapshot import Resource, Snapshot, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterable


def serialised(snapshot: Snapshot) -> bytes:
    """The content of the object."""
    response = discovery_pb2.DiscoveryResponse()
    for collection in snapshot.collections.values():
        for resource in collection.resources.values():
            response.resources.add(type_url=resource.type_url, value=resource.body)
    found: bytes = response.SerializeToString(deterministic=True)
    return found


def parsed(content: bytes, elsewhere: Iterable[str]) -> Snapshot:
    """The snapshot that an object has. Raises `ManifestError`."""
    try:
        response = discovery_pb2.DiscoveryResponse.FromString(content)
        resources = (Resource.parse(item.type_url, item.value) for item in response.resources)
        snapshot = Snapshot.of(resources, elsewhere=elsewhere)
        snapshot.check()
    except (DecodeError, SnapshotError) as error:
        raise ManifestError(f"its snapshot cannot be used: {error}") from error
    return snapshot
