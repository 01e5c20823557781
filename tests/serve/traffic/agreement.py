"""Compares the state of a proxy with what the server's status says about it.

The proxy has rejected nothing and waits for nothing, and the versions of its active resources have the digests that the
status calls acknowledged.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from google.protobuf import any_pb2, json_format

from xds_server.resources.snapshot import Claimed, Resource, version_of
from xds_server.resources.types import CLUSTER, EXTENSION, LISTENER, ROUTES, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from xds_server.resources.snapshot import ClientResource

    Get = Callable[[str], bytes]
    """The body of a page of the admin interface."""


def disagreements(name: str, get: Get, types: list[Mapping[str, Any]]) -> list[str]:
    """A sentence for each difference between a proxy and its row in the status. `types` is of that row."""
    found = [f"{name}: {counter} is {value}" for counter, value in update_rejections(get)]
    waiting = json.loads(get("/init_dump")).get("unready_targets_dumps", [])
    found += [f"{name} waits for {each}" for each in waiting]
    versions = {short(kind): version for kind, version in _active(json.loads(get("/config_dump"))).items()}
    for row in types:
        if row["error"]:
            found.append(f"{name} rejected {row['type']}: {row['error']}")
        if row["type"] in versions and versions[row["type"]] != row["wanted"]:
            found.append(f"{name} has {row['type']} {versions[row['type']]}, and {row['wanted']} is wanted")
    return found


def update_rejections(get: Get) -> Iterator[tuple[str, int]]:
    """Counters of rejected updates that are not zero."""
    for line in get("/stats?filter=update_rejected").decode().splitlines():
        counter, _, value = line.rpartition(": ")
        if counter.endswith("update_rejected") and int(value):
            yield counter, int(value)


def _active(dump: Mapping[str, Any]) -> dict[str, str]:
    """Digest of the names and versions of the active resources, by type."""
    held: dict[str, dict[str, ClientResource]] = {CLUSTER: {}, LISTENER: {}, ROUTES: {}, EXTENSION: {}}
    for part in dump["configs"]:
        for each in part.get("dynamic_active_clusters", ()):
            held[CLUSTER][each["cluster"]["name"]] = Claimed(each["version_info"])
        for each in part.get("dynamic_listeners", ()):
            # After an update of filter chains alone, Envoy still shows the previous version.
            held[LISTENER][each["name"]] = _resource(each["active_state"]["listener"])
            if "warming_state" in each or "error_state" in each:
                held[LISTENER][each["name"]] = Claimed("not active")
        for each in part.get("dynamic_route_configs", ()):
            held[ROUTES][each["route_config"]["name"]] = Claimed(each["version_info"])
        for each in part.get("ecds_filters", ()):
            held[EXTENSION][each["ecds_filter"]["name"]] = Claimed(each["version_info"])
    return {kind: version_of(dict(sorted(resources.items()))) for kind, resources in held.items()}


def _resource(shown: Mapping[str, Any]) -> Resource:
    """The resource that a server sends for a message in JSON."""
    held = json_format.ParseDict(shown, any_pb2.Any())
    return Resource.parse(held.type_url, held.value)
