"""Finds the resources of earlier snapshots that older connections still need.

    published, new, subscribed -> what to publish

Each filter chain has route tables and filter configurations of its own, by their names. Those of earlier snapshots stay
unchanged, with the clusters and endpoints that they refer to, for as long as some proxy subscribes to them. The one
exception are guards that stay in their hops: their arguments and addresses are updated, so that a caller that a guard
no longer admits is refused on older connections, too.

An earlier release may have given a chain other names, and this server may not have what that release sent. It keeps
nothing of such a chain: the proxy does, until the connections are closed. But the proxy reports the version of each of
its filters. If that is the version of a guard of the plan with which the server began, under the other name, the server
knows the guard (`recognised`), and updates it as those of its own chains.

Several plans may follow each other while such a connection is open. The connection's guard is updated if it equals the
guard of that name in the plan that is replaced. It may differ: a guard with another `when` or scope can have the same
name.
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
    """The filter of a guard in one hop, in any of its chains."""

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
    known: Mapping[str, frozenset[Reference]] = MappingProxyType({}),
) -> dict[str, Snapshot]:
    """Return the snapshots to publish: those of `new`, with the published resources that older connections need.

    `subscribed` has the route tables and filter configurations that proxies subscribe to; if a service is absent
    there, all
    of its resources are kept. `latest` has the snapshots that were published last, where proxies rejected one of them
    and `published` has earlier versions of resources. `known` has the guards of `recognised`, by service.
    """
    snapshots = dict(new)
    for service, snapshot in new.items():
        before = published.get(service)
        if before is None:
            continue
        kept = _kept(snapshot, before, subscribed.get(service))
        older = _with_guards(service, kept, snapshot, latest.get(service, before), guards)
        older += _of_earlier_release(service, known.get(service, frozenset()) - kept.keys(), snapshot)
        held = _by_reference(snapshot).values()
        snapshots[service] = Snapshot.of((*held, *older), elsewhere=snapshot.elsewhere | before.elsewhere)
    return snapshots


def recognised(
    service: str, began: Snapshot, versions: Mapping[str, frozenset[str]], guards: frozenset[Guard]
) -> frozenset[Reference]:
    """Return the filters of guards in chains of an earlier release. `versions` has, by name, the versions of filters
    that proxies have and this server does not. `began` is the snapshot with which this server began, and `guards` have
    stayed since then."""
    own = {
        guard: resource
        for key, resource in _by_reference(began).items()
        if key.type_url == EXTENSION and (guard := _guard(service, key)) in guards
    }
    keys = (Reference(EXTENSION, name) for name in versions)
    return frozenset(
        key
        for key in keys
        if (same := own.get(_guard(service, key))) is not None
        and versions[key.name] == {_renamed(same, key.name).version}
    )


def _of_earlier_release(service: str, keys: frozenset[Reference], new: Snapshot) -> list[Resource]:
    current = {_guard(service, key): resource for key, resource in _by_reference(new).items()}
    return [_renamed(now, key.name) for key in sorted(keys) if (now := current.get(_guard(service, key))) is not None]


def _kept(new: Snapshot, published: Snapshot, subscribed: frozenset[Reference] | None) -> dict[Reference, Resource]:
    """Return the resources that only older connections need."""
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
    """Return the kept resources, with the present content of the guards that stay."""
    followers = {key for key in kept if key.type_url == EXTENSION and _guard(service, key) in guards}
    if not followers:
        return list(kept.values())
    followers &= _same_as_in_force(service, published, guards)
    # Between two plans a guard may be in two chains. Its configuration is the same in both.
    current = {_guard(service, key): resource for key, resource in _by_reference(new).items()}
    return [
        _following(resource, current.get(_guard(service, key))) if key in followers else resource
        for key, resource in kept.items()
    ]


def _same_as_in_force(service: str, published: Snapshot, guards: frozenset[Guard]) -> frozenset[Reference]:
    """Return the filters of guards, in all chains, that equal the guard of that name in a chain in force."""
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
    """Return a kept resource. The filter of a guard that stays gets the content of the current filter `now`."""
    return resource if now is None else _renamed(now, resource.name)


def _renamed(extension: Resource, name: str) -> Resource:
    from envoy.config.core.v3 import extension_pb2

    config = extension_pb2.TypedExtensionConfig.FromString(extension.body)
    config.name = name
    return Resource.of(config)


def _typed_config(resource: Resource) -> tuple[str, bytes]:
    """Return the configuration of a filter without its name."""
    from envoy.config.core.v3 import extension_pb2

    config = extension_pb2.TypedExtensionConfig.FromString(resource.body).typed_config
    return config.type_url, config.value


def _guard(service: str, key: Reference) -> Guard:
    """Return the guard of a filter configuration from its name: `egress/search:8082@1f3a9c02/POLICY:KIND`."""
    hop, _, rest = key.name.partition("@")
    _, slash, name = rest.partition("/")
    return Guard(service, hop, slash + name)


def _by_reference(snapshot: Snapshot) -> dict[Reference, Resource]:
    return {
        Reference(resource.type_url, resource.name): resource
        for collection in snapshot.collections.values()
        for resource in collection.resources.values()
    }
