"""The handover of clients of gRPC from one cluster to another, without the loss of a call.

Such a client uses new routes before its balancer has their clusters, and fails the calls in between ("unknown cluster
selected for RPC"). These failures also occur if the client already has the clusters, because its balancer has only the
clusters in its virtual host. So routes that lead to other clusters come in three steps, some time apart:

    1. the routes that the client has, and the new clusters in routes that match no request
    2. the new routes, and the old clusters in routes that match no request
    3. the new routes

The old clusters are removed after step 3. Other clients apply routes and clusters together, and need no handover.

Which virtual host a client uses depends on its target, which the server does not know. So each virtual host names the
clusters of all virtual hosts that change.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from xds_server.resources.references import message_class, references
from xds_server.resources.snapshot import Resource
from xds_server.resources.types import CLUSTER, PREFIX, ROUTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

    from xds_server.resources.snapshot import ClientResource

MOST: Final = 2_000
"""The most routes that are added to a table. A table that needs more is sent without a handover."""
KEPT: Final = 64
"""The number of tables that are cached for the next client."""
NEVER: Final = "never"
"""A route that requires both the presence and the absence of this header matches no request."""


class HandoverStep(Enum):
    """The step of a client."""

    PENDING = auto()
    ADD_NEW_CLUSTERS = auto()
    KEEP_OLD_CLUSTERS = auto()


def with_new_clusters(held: Mapping[str, ClientResource], wanted: Mapping[str, Resource]) -> dict[str, Resource]:
    """Step 1: the client's route tables whose new versions lead to other clusters, with these clusters."""
    return {
        name: table
        for name, new in wanted.items()
        if isinstance(old := held.get(name), Resource)
        and old.version != new.version
        and (table := with_clusters_of(old, new)) is not old
    }


def with_old_clusters(held: Mapping[str, ClientResource], wanted: Mapping[str, Resource]) -> dict[str, Resource]:
    """Step 2: the new route tables that no longer lead to some old clusters, with these clusters."""
    return {
        name: table
        for name, new in wanted.items()
        if isinstance(old := held.get(name), Resource)
        and old.version != new.version
        and (table := with_clusters_of(new, old)) is not new
    }


@lru_cache(maxsize=KEPT)
def with_clusters_of(table: Resource, other: Resource) -> Resource:
    """Return `table` with routes at the end of its virtual hosts that match no request and lead to clusters of `other`.

    These are the clusters of virtual hosts of `other` that `table` does not have in the same form. If no virtual host
    lacks one of these clusters, or the routes would be too many, the result is `table` itself.
    """
    message = _parsed(table)
    hosts = {_bytes(host) for host in message.virtual_hosts}
    others = [_clusters(host) for host in _parsed(other).virtual_hosts if _bytes(host) not in hosts]
    clusters = frozenset[str]().union(*others)
    # A host with a tree of matchers has no list of routes, and clients of gRPC do not support it.
    missing = [(host, clusters - _clusters(host)) for host in message.virtual_hosts if not host.HasField("matcher")]
    if not 0 < sum(len(names) for _, names in missing) <= MOST:
        return table
    for host, names in missing:
        for name in sorted(names):
            route = host.routes.add()
            route.match.prefix = ""
            route.match.headers.add(name=NEVER, present_match=True)
            route.match.headers.add(name=NEVER, present_match=True, invert_match=True)
            route.route.cluster = name
    return Resource.of(message)


def _parsed(table: Resource) -> Any:
    kind: Any = message_class(ROUTES.removeprefix(PREFIX))
    return kind.FromString(table.body)


def _bytes(host: Message) -> bytes:
    return host.SerializeToString(deterministic=True)


def _clusters(host: Message) -> frozenset[str]:
    return frozenset(reference.name for reference in references(host) if reference.type_url == CLUSTER)
