"""What connections that are older than a snapshot need of earlier ones.

    published, new, subscribed -> what to publish

By their names by chain, filter chains of earlier snapshots keep route tables and filter configurations of their own,
which stay as they are for as long as some proxy subscribes to them, with the clusters and endpoints that they refer to.
One thing goes on changing there: arguments and addresses of guards that stay where they are. A caller that
a guard no longer admits is refused on older connections, too. Several plans may have followed each other while such a
connection is open. Its guard stays if it does what the guard of that name does in the plan that is replaced: a guard
with another `when` or scope may have the same name.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.rollout.enforcement import Frame
from emitters.envoy.names import filter_name
from xds_server.resources.references import Reference
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import EXTENSION, LISTENER, ROUTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.serve.rollout.model import Placed


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
    latest: Mapping[str, Snapshot] = MappingProxyType({}),
) -> dict[str, Snapshot]:
    """What to publish for each service of `new`: that, and what older connections need of what is published.

    `subscribed` has route tables and filter configurations. Of a service that it does not name, all are kept. `latest`:
    the snapshots that were published last, if proxies rejected one and `published` has earlier versions of resources.
    """
    snapshots = dict(new)
    for service, snapshot in new.items():
        before = published.get(service)
        if before is None:
            continue
        kept = _kept(snapshot, before, subscribed.get(service))
        older = _with_guards(service, kept, snapshot, latest.get(service, before), guards)
        held = _by_reference(snapshot).values()
        snapshots[service] = Snapshot.of((*held, *older), elsewhere=snapshot.elsewhere | before.elsewhere)
    return snapshots


def _kept(new: Snapshot, published: Snapshot, subscribed: frozenset[Reference] | None) -> dict[Reference, Resource]:
    """The resources that only older connections need."""
    held = _by_reference(new)
    earlier = {key: resource for key, resource in _by_reference(published).items() if key.type_url != LISTENER}
    left = [key for key in earlier if key.type_url in (ROUTES, EXTENSION) and (subscribed is None or key in subscribed)]
    kept: dict[Reference, Resource] = {}
    while left:
        key = left.pop()
        if key in earlier and key not in held and key not in kept:
            kept[key] = earlier[key]
            left.extend(earlier[key].references)
    return kept


def _with_guards(
    service: str, kept: Mapping[Reference, Resource], new: Snapshot, published: Snapshot, guards: frozenset[Guard]
) -> list[Resource]:
    """The kept resources, with the present content of guards that stay."""
    followers = {key for key in kept if key.type_url == EXTENSION and _guard(service, key) in guards}
    if not followers:
        return list(kept.values())
    followers &= _same_as_in_force(service, published, guards)
    # Where a guard has two chains, between two plans, both have the same configuration.
    current = {_guard(service, key): resource for key, resource in _by_reference(new).items()}
    return [
        _following(resource, current.get(_guard(service, key))) if key in followers else resource
        for key, resource in kept.items()
    ]


def _same_as_in_force(service: str, published: Snapshot, guards: frozenset[Guard]) -> frozenset[Reference]:
    """The filters of guards, of all chains, that do what the guard of that name does in a chain in force."""
    listeners = published.of_type(LISTENER).resources.values()
    in_force = frozenset(key for listener in listeners for key in listener.references)
    own = {
        key: (guard, _typed_config(resource))
        for key, resource in _by_reference(published).items()
        if key.type_url == EXTENSION and (guard := _guard(service, key)) in guards
    }
    same = {own[key] for key in own.keys() & in_force}
    return frozenset(key for key, configuration in own.items() if configuration in same)


def _following(resource: Resource, now: Resource | None) -> Resource:
    """A kept resource; of a guard that stays, with the content that it has now."""
    if now is None:
        return resource
    from envoy.config.core.v3 import extension_pb2

    config = extension_pb2.TypedExtensionConfig.FromString(now.body)
    config.name = resource.name
    return Resource.of(config)


def _typed_config(resource: Resource) -> tuple[str, bytes]:
    """What a filter does, whatever its name is."""
    from envoy.config.core.v3 import extension_pb2

    config = extension_pb2.TypedExtensionConfig.FromString(resource.body).typed_config
    return config.type_url, config.value


def _guard(service: str, key: Reference) -> Guard:
    """Whose filter a configuration is, by its name: `egress/search:8082@1f3a9c02/POLICY:KIND`."""
    hop, _, rest = key.name.partition("@")
    _, slash, name = rest.partition("/")
    return Guard(service, hop, slash + name)


def _by_reference(snapshot: Snapshot) -> dict[Reference, Resource]:
    return {
        Reference(resource.type_url, resource.name): resource
        for collection in snapshot.collections.values()
        for resource in collection.resources.values()
    }
