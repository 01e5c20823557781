"""What connections that are older than a snapshot need of earlier ones.

    published, new, subscribed -> what to publish

By their names by chain, filter chains of earlier snapshots keep route tables and filter configurations of their own,
which stay as they are for as long as some proxy subscribes to them, with the clusters and endpoints that they refer to.
One thing goes on changing there: arguments and addresses of guards that stay where they are. A caller that
a guard no longer admits is refused on older connections, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.rollout.enforcement import Frame
from emitters.envoy.names import filter_name
from xds_server.resources.references import Reference
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import EXTENSION, LISTENER, ROUTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.rollout.model import Placed


class Guard(NamedTuple):
    """The filter of a guard in one hop, in whatever chain."""

    service: str
    hop: str
    filter: str


def steady_guards(old: Placed, new: Placed) -> frozenset[Guard]:
    """Guards that stay in their hops and change in arguments alone, or not at all."""
    frame = Frame(old, new)
    return frozenset(
        Guard(key.service, hop.name, filter_name("", policy))
        for key, hop in frame.hops[1].items()
        for policy in frame.steady_guards(key)
    )


def retained(
    published: Mapping[str, Snapshot],
    new: Mapping[str, Snapshot],
    subscribed: Mapping[str, frozenset[Reference]],
    guards: frozenset[Guard] = frozenset(),
) -> dict[str, Snapshot]:
    """What to publish for each service of `new`: that, and what older connections need of what is published.

    `subscribed` has route tables and filter configurations. Of a service that it does not name, all are kept.
    """
    return {
        service: _with_older(service, snapshot, published.get(service), subscribed.get(service), guards)
        for service, snapshot in new.items()
    }


def _with_older(
    service: str,
    new: Snapshot,
    published: Snapshot | None,
    subscribed: frozenset[Reference] | None,
    guards: frozenset[Guard],
) -> Snapshot:
    if published is None:
        return new
    held = _by_reference(new)
    earlier = {key: each for key, each in _by_reference(published).items() if key.type_url != LISTENER}
    left = [key for key in earlier if key.type_url in (ROUTES, EXTENSION) and (subscribed is None or key in subscribed)]
    kept: dict[Reference, Resource] = {}
    while left:
        key = left.pop()
        if key in earlier and key not in held and key not in kept:
            kept[key] = earlier[key]
            left.extend(earlier[key].references)
    # Where a guard has two chains, between two plans, both have the same configuration.
    current = {guard: each for key, each in held.items() if (guard := _guard(service, key)) in guards}
    older = (_following(each, current.get(_guard(service, key))) for key, each in kept.items())
    return Snapshot.of((*held.values(), *older), elsewhere=new.elsewhere | published.elsewhere)


def _following(resource: Resource, now: Resource | None) -> Resource:
    """A kept resource; of a guard that stays, with the content that it has now."""
    if now is None:
        return resource
    from envoy.config.core.v3 import extension_pb2

    config = extension_pb2.TypedExtensionConfig.FromString(now.body)
    config.name = resource.name
    return Resource.of(config)


def _guard(service: str, key: Reference) -> Guard:
    """Whose filter a configuration is, by its name: `egress/search:8082@1f3a9c02/POLICY:KIND`."""
    hop, _, rest = key.name.partition("@")
    _, found, name = rest.partition("/")
    return Guard(service, hop, found + name)


def _by_reference(snapshot: Snapshot) -> dict[Reference, Resource]:
    return {
        Reference(each.type_url, each.name): each
        for collection in snapshot.collections.values()
        for each in collection.resources.values()
    }
