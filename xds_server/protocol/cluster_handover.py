"""How clients of gRPC are led from one cluster to another without losing a call.

Such a client begins to use new routes before its balancer knows their clusters, and fails the calls of the time between
("unknown cluster selected for RPC"). It makes no difference whether it had the clusters already: its balancer knows
those that its virtual host names. So routes that lead to other clusters come in three steps, some time apart:

    ahead     the routes that the client has, and the new clusters in routes that no request reaches
    behind    the new routes, and the clusters that are gone in routes that no request reaches
    over      the new routes as they are

Only then are clusters that are gone taken away. Other clients use routes and clusters together, and need none of this.

Which virtual host a client uses depends on its target, which the server does not know. So each virtual host names the
clusters of all that change.
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
"""So many routes are added to a table at most: where it would be more the client is not led."""
KEPT: Final = 64
"""So many tables are kept for the next client that needs them."""
NEVER: Final = "never"
"""A header that a request would have to have, and not to have."""


class HandoverStep(Enum):
    """Which step the client is at."""

    PENDING = auto()
    ADD_NEW_CLUSTERS = auto()
    KEEP_OLD_CLUSTERS = auto()


def ahead(held: Mapping[str, ClientResource], wanted: Mapping[str, Resource]) -> dict[str, Resource]:
    """Of the route tables that a client has, those that are about to lead to other clusters, with these."""
    return {
        name: led
        for name, new in wanted.items()
        if isinstance(old := held.get(name), Resource)
        and old.version != new.version
        and (led := with_clusters_of(old, new)) is not old
    }


def behind(held: Mapping[str, ClientResource], wanted: Mapping[str, Resource]) -> dict[str, Resource]:
    """Of the route tables that a client is to have, those that do not lead to clusters of before, with these."""
    return {
        name: led
        for name, new in wanted.items()
        if isinstance(old := held.get(name), Resource)
        and old.version != new.version
        and (led := with_clusters_of(new, old)) is not new
    }


@lru_cache(maxsize=KEPT)
def with_clusters_of(table: Resource, other: Resource) -> Resource:
    """A route table whose virtual hosts name, in routes at their ends that match nothing, the clusters of those virtual
    hosts of another one that it has not just so. The table itself if there are none."""
    message = _parsed(table)
    hosts = {_bytes(host) for host in message.virtual_hosts}
    others = [_clusters(host) for host in _parsed(other).virtual_hosts if _bytes(host) not in hosts]
    clusters = frozenset[str]().union(*others)
    # A host with a tree of matchers has no list of routes, and clients of gRPC do not know it.
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
