"""What a proxy says of itself, and whether the server says the same.

Nothing was refused, nothing is waited for, and the versions of what is active make the very digests that the server's
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
    """Where a proxy and the server's row about it differ, in words. `types` is of the status."""
    found = [f"{name}: {counter} is {value}" for counter, value in refused(get)]
    waiting = json.loads(get("/init_dump")).get("unready_targets_dumps", [])
    found += [f"{name} waits for {each}" for each in waiting]
    versions = {short(kind): version for kind, version in _active(json.loads(get("/config_dump"))).items()}
    for row in types:
        if row["error"]:
            found.append(f"{name} refused {row['type']}: {row['error']}")
        if row["type"] in versions and versions[row["type"]] != row["wanted"]:
            found.append(f"{name} has {row['type']} {versions[row['type']]}, and {row['wanted']} is wanted")
    return found


def refused(get: Get) -> Iterator[tuple[str, int]]:
    """Counters of updates that were refused, where they are not zero."""
    for line in get("/stats?filter=update_rejected").decode().splitlines():
        counter, _, value = line.rpartition(": ")
        if counter.endswith("update_rejected") and int(value):
            yield counter, int(value)


def _active(dump: Mapping[str, Any]) -> dict[str, str]:
    """Digest of the names and versions of all that is in use, by type."""
    held: dict[str, dict[str, ClientResource]] = {CLUSTER: {}, LISTENER: {}, ROUTES: {}, EXTENSION: {}}
    for part in dump["configs"]:
        for each in part.get("dynamic_active_clusters", ()):
            held[CLUSTER][each["cluster"]["name"]] = Claimed(each["version_info"])
        for each in part.get("dynamic_listeners", ()):
            # Where only filter chains are replaced, Envoy goes on to show the version before.
            held[LISTENER][each["name"]] = _resource(each["active_state"]["listener"])
            if "warming_state" in each or "error_state" in each:
                held[LISTENER][each["name"]] = Claimed("not active")
        for each in part.get("dynamic_route_configs", ()):
            held[ROUTES][each["route_config"]["name"]] = Claimed(each["version_info"])
        for each in part.get("ecds_filters", ()):
            held[EXTENSION][each["ecds_filter"]["name"]] = Claimed(each["version_info"])
    return {kind: version_of(dict(sorted(resources.items()))) for kind, resources in held.items()}


def _resource(shown: Mapping[str, Any]) -> Resource:
    """What a message that is shown as JSON would be if it came from a server."""
    held = json_format.ParseDict(shown, any_pb2.Any())
    return Resource.parse(held.type_url, held.value)
