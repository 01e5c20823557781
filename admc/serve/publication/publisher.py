"""Publishes the snapshots of a label, and observes which proxies have them.

Label --content--> snapshots + what older connections need --> SnapshotCache --> proxies
ClientRegistry --observe--> Observation
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.serve.publication.plans import hosts, replicas
from admc.serve.rollout.reducer import Client, Observation
from admc.serve.rollout.retention import recognised, retained
from admc.serve.rollout.rollout_state import Chain
from xds_server.resources.references import Reference
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import EXTENSION, ROUTES, TRIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from admc.serve.compiling.snapshots import SnapshotSet
    from admc.serve.compiling.source import State
    from admc.serve.publication.plans import Plans
    from admc.serve.rollout.retention import Guard
    from admc.serve.rollout.rollout_state import RolloutState
    from xds_server.transport.client_registry import ClientView
    from xds_server.transport.server import XdsServer

SETTLE_SECONDS: Final = 1.0
"""A proxy's main thread sends the ACK. Its workers apply the configuration on their next turn, within this time."""
AT_ONCE: Final = 50
"""How many snapshots are published before the event loop serves streams again."""

NONE: Final[frozenset[str]] = frozenset()

Proxy = tuple[str, str]
"""Service and node id."""


class Prepared(NamedTuple):
    """The snapshots to publish for a label."""

    services: frozenset[str]
    """All services with a snapshot."""
    content: Mapping[str, Snapshot]
    """Service -> its snapshot, if it changes."""
    whole: Mapping[str, Snapshot]
    """Service -> the same snapshot with the resources that older connections need."""


class Publisher:
    """Publishes snapshots and observes the proxies. All calls belong on the event loop, except `prepared`, which
    changes nothing."""

    def __init__(
        self, server: XdsServer, proxies: Callable[[str], frozenset[str] | None] = lambda service: None
    ) -> None:
        """`proxies`: as in `admc.serve.environment.Redirection`."""
        self._server = server
        self._proxies = proxies
        self._content: dict[str, Snapshot] = {}
        """Service -> its snapshot in `now`, without the resources that only older connections use."""
        self._versions: dict[str, set[str]] = {}
        """Service -> the versions that were published with that content."""
        self._wanted: frozenset[str] = frozenset()
        """Services with a snapshot in `now`. Without redirection all others keep their last snapshot: there is no
        passthrough snapshot that could replace it."""
        self._since: dict[tuple[Proxy, str], float] = {}
        """When a proxy was first seen to have acknowledged a version."""
        self._chains: dict[str, frozenset[str]] = {}
        """Version of a snapshot -> the names by chain in it."""
        self._served: set[str] | None = None
        """Services of which a proxy may have received what is published. None after a start: every service."""
        self._earlier: frozenset[Proxy] = frozenset()
        """Proxies that were connected before `now` was published."""
        self.frozen: dict[str, Snapshot] = {}
        """Service -> the snapshot that was published last, where it has more resources than `now`."""
        self._began: Mapping[str, Snapshot] = {}
        """Service -> its snapshot in the label that an earlier server had published. Empty once no proxy has a chain of
        that server that this one does not know."""
        self._steady: frozenset[Guard] = frozenset()
        """Guards that have stayed in their hops since then."""
        self._foreign: dict[str, dict[str, set[str]]] = {}
        """Service -> name -> the versions of a filter that proxies have for older connections, while there is
        `_began`."""

    @property
    def awaits_proxies(self) -> bool:
        """Whether proxies that come back may have chains of an earlier server."""
        return bool(self._began)

    def begin(self, frozen: Mapping[str, Snapshot]) -> None:
        """Continue from the snapshots that an earlier server published."""
        self.frozen = dict(frozen)

    def began(self, content: Mapping[str, Snapshot], guards: frozenset[Guard]) -> None:
        """Note the snapshots of the label that an earlier server had published, and the guards in it. Proxies may have
        chains with other names, if another release gave these."""
        self._began, self._steady = dict(content), guards

    def stay(self, guards: frozenset[Guard]) -> None:
        """Note the guards that stay when another label is published."""
        self._steady &= guards

    def renamed(self, content: SnapshotSet, services: Collection[str]) -> frozenset[Chain]:
        """Return the chains of some services that an earlier server published under names that this release does not
        use."""
        chains: set[Chain] = set()
        for name in services:
            before = self._server.store.current(name)
            if before is not None and name in content.by_service:
                chains.update(Chain(name, chain) for chain in _chains(before) - _chains(content.by_service[name]))
        return frozenset(chains)

    def prepared(self, state: RolloutState, content: SnapshotSet, guards: frozenset[Guard]) -> Prepared:
        """Return the snapshots to publish for a label. Raises `SnapshotError` if a snapshot refers to a resource that
        it lacks."""
        store = self._server.store
        wanted = dict(content.by_service)
        if content.passthrough is not None:
            wanted |= {name: content.passthrough for name in store.groups if name not in wanted}
        kept: dict[str, set[Reference]] = {}
        for chain in state.kept:
            kept.setdefault(chain.service, set()).update(
                Reference(type_url, chain.name) for type_url in (ROUTES, EXTENSION)
            )
        new = {name: item for name, item in wanted.items() if self._differs(name, item, name in kept)}
        before = {name: item for name in new if (item := self._held(name)) is not None}
        subscribed = {name: frozenset(kept.get(name, ())) for name in new}
        latest = {name: item for name in new if (item := self._published(name)) is not None}
        known = {name: self._known_guards(name, before[name]) for name in before if name in self._began}
        whole = retained(before, new, subscribed, guards, latest, known)
        for item in whole.values():
            item.check()
            _ = item.version  # computed here: for 10,000 snapshots it would block the server
        return Prepared(frozenset(wanted), new, whole)

    def _known_guards(self, name: str, published: Snapshot) -> frozenset[Reference]:
        """Return the guards of older connections that only the proxies of a service have."""
        there = published.of_type(EXTENSION).resources
        versions = {
            filter_name: frozenset(held)
            for filter_name, held in self._foreign.get(name, {}).items()
            if filter_name not in there
        }
        return recognised(name, self._began[name], versions, self._steady)

    def _differs(self, name: str, item: Snapshot, keeps: bool) -> bool:
        own = self._content.get(name)
        same = own is item or (own is not None and own.version == item.version)
        return not same or keeps or name in self.frozen

    def _plan(self, name: str, content: Snapshot, whole: Snapshot) -> None:
        own = self._content.get(name)
        if own is None or own.version != content.version:
            self._versions[name] = set()
        self._content[name] = content
        self._versions[name].add(whole.version)
        if whole.version == content.version:
            self.frozen.pop(name, None)
        else:
            self.frozen[name] = whole

    def to_freeze(self, state: RolloutState, prepared: Prepared | None = None) -> dict[str, Snapshot]:
        """Return service -> its snapshot, published or about to be, if older connections may use its resources."""
        whole = {} if prepared is None else prepared.whole
        services = {chain.service for chain in state.kept}
        return {name: item for name in sorted(services) if (item := whole.get(name) or self._published(name))}

    def _held(self, service: str) -> Snapshot | None:
        """Return the resources that connections through the proxies of a service use: the published ones. Where a proxy
        refuses a resource, the version before is among them."""
        store = self._server.store
        current, initial, published = store.current(service), store.initial(service), self._published(service)
        if published is None or initial is None or initial is current:
            return published
        resources = {
            (type_url, name): resource
            for snapshot in (published, initial)
            for type_url, collection in snapshot.collections.items()
            for name, resource in collection.resources.items()
        }
        return Snapshot.of(resources.values(), elsewhere=published.elsewhere | initial.elsewhere)

    def _published(self, service: str) -> Snapshot | None:
        """Return the last published snapshot, with the resources that older connections need."""
        return self.frozen.get(service) or self._server.store.current(service)

    def labelled(self) -> None:
        """Note the present proxies, before the caller publishes another label."""
        views = self._views()
        self._served = set(self._server.registry.groups)
        self._earlier = frozenset((view.group, view.node.id) for view in views)

    async def publish(self, prepared: Prepared) -> int:
        """Put snapshots into the store, and return how many of them are new."""
        store, snapshots, count = self._server.store, prepared.whole, 0
        self._chains.clear()
        self._wanted = prepared.services
        for name, item in prepared.content.items():
            self._plan(name, item, snapshots[name])
        names = [name for name, item in snapshots.items() if _version(store.current(name)) != item.version]
        for start in range(0, len(names), AT_ONCE):
            count += store.publish_all({name: snapshots[name] for name in names[start : start + AT_ONCE]})
            await asyncio.sleep(0)
        return count

    def serve(self, service: str) -> None:
        """Note that a stream of a service begins."""
        if self._served is not None:
            self._served.add(service)

    def _views(self) -> tuple[ClientView, ...]:
        return self._server.registry.views(tuple(self._server.registry.groups))

    def observe(
        self, state: RolloutState, plans: Plans, involved: frozenset[str] | None, missing: tuple[str, ...]
    ) -> Observation:
        """Return an observation of the proxies. A proxy that the list of proxies contains counts even if it is not
        connected."""
        now, views = time.monotonic(), self._views()
        # At rest, once every proxy has the plan, the rollout does not wait for older connections.
        waits = state.now.goal is not None or bool(state.kept) or len(state.may_have) > 1 or self.awaits_proxies
        self._foreign = {}
        settled: dict[tuple[Proxy, str], float] = {}
        clients = []
        there: dict[str, set[str]] = {}
        for view in views:
            there.setdefault(view.group, set()).add(view.node.id)
            clients.append(self._client(view, now, settled, waits=waits))
        self._since = settled
        # The proxies of a withdrawn ADM count until they have no resources of an earlier label.
        earlier = (holding.services for holding in state.may_have if holding.label != state.now)
        kept = {chain.service for chain in state.kept}
        for name in hosts(state.now, plans).union(kept, *earlier):
            away = self._away(plans[state.newest].state, name, there.get(name, set()))
            served = self._served is None or name in self._served
            clients += [Client(name, served, has_now=False, refuses=False, is_away=True, node=node) for node in away]
        if not any(client.is_away or client.older or not client.has_now for client in clients):
            self._began, self._foreign = {}, {}
        current = {name: item for name in self._versions if (item := self._server.store.current(name))}
        chains = {name: self._chains_of(item) for name, item in current.items()}
        return Observation(tuple(clients), missing, plans.moves, plans.changes, involved, chains, plans.has_steps)

    def _away(self, newest: State, service: str, connected: set[str]) -> Sequence[str]:
        """Return the node ids of the proxies that are not connected; empty ids if they are not known."""
        if service not in newest.program.services:
            return ()  # the newest program dropped it: its proxies are not let in any more
        expected = self._proxies(service)
        if expected is None:
            return [""] * (replicas(newest, service) - len(connected))
        return sorted(expected - connected)

    def _client(self, view: ClientView, now: float, settled: dict[tuple[Proxy, str], float], *, waits: bool) -> Client:
        store, proxy = self._server.store, (view.group, view.node.id)
        current = store.current(view.group)
        wanted = view.group in self._wanted
        versions = self._versions.get(view.group, set()) if wanted else {_version(current)}
        has = current is not None and view.acknowledged in versions
        if has:
            settled[proxy, view.acknowledged] = self._since.get((proxy, view.acknowledged), now)
            has = settled[proxy, view.acknowledged] + SETTLE_SECONDS <= now
        refuses = not has and (view.refuses or store.initial(view.group) is not current)
        if refuses and not wanted:
            # The proxy refuses a resource of an earlier label, which `now` does not have.
            has, refuses = True, False
        # The older connections of a proxy matter only once the proxy has `now`.
        older = self._older(view, current) if has and waits else NONE
        if self._began:
            self._note_versions(view, older)
        fresh = view.fresh and not view.acknowledged and proxy not in self._earlier
        node = view.node.id
        return Client(view.group, served=True, has_now=has, refuses=refuses, fresh=fresh, older=older, node=node)

    def _note_versions(self, view: ClientView, older: frozenset[str]) -> None:
        """Note which versions of filters a proxy has for older connections. Names of route tables have none."""
        for name in older:
            version = view.held_version(EXTENSION, name)
            if version is not None:
                self._foreign.setdefault(view.group, {}).setdefault(name, set()).add(version)

    def _older(self, view: ClientView, current: Snapshot | None) -> frozenset[str]:
        """Return the chains that a proxy still subscribes to and that `now` does not have."""
        chains = frozenset(name for names in view.unreferenced.values() for name in names)
        if not chains:
            return NONE
        whole = self._content.get(view.group) if view.group in self._wanted else current
        return chains - {TRIAL} - (NONE if whole is None else self._chains_of(whole))

    def _chains_of(self, snapshot: Snapshot) -> frozenset[str]:
        chains = self._chains.get(snapshot.version)
        if chains is None:
            chains = self._chains[snapshot.version] = _chains(snapshot)
        return chains


def _version(snapshot: Snapshot | None) -> str:
    return "" if snapshot is None else snapshot.version


def _chains(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the chains in a snapshot."""
    return frozenset(
        name
        for kind in (ROUTES, EXTENSION)
        if (collection := snapshot.collections.get(kind)) is not None
        for name in collection.resources
        if name != TRIAL
    )
