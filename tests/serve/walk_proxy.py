"""Simulated Envoys for the random walk, each on a stream of the real xDS protocol.

    responses --Proxy--> what it holds, its listener, older connections --> requests, ACKs and NACKs

As in Envoy: a listener comes into force when its new filter chains have their route tables and filters. A chain that is
replaced serves its connections until the drain time is over, and the proxy subscribes to what it uses until then.
Workers follow the main thread a moment later. What a proxy holds survives the end of its stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from envoy.service.discovery.v3 import discovery_pb2

from tests.serve.walk_config import PASSTHROUGH, Act, Chain, Table, act_of, chains_of, table_of
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.wire import ClientNode, DeltaRequest
from xds_server.resources.ack_events import Nacked, SnapshotAcked, SnapshotAckedExceptUrgent, TypeAcked
from xds_server.resources.types import EXTENSION, LISTENER, ROUTES, TRIAL
from xds_server.transport.connection import Connection
from xds_server.transport.fallback import at_start, next_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from xds_server.protocol.wire import Response
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.server import XdsServer

DRAIN: Final = 10.0
LAG: Final = 0.9
"""How long a proxy's workers may go on with a route table that its main thread has replaced."""
TYPES: Final = (LISTENER, EXTENSION, ROUTES)


class Held(NamedTuple):
    """A resource that a proxy has."""

    version: str
    body: bytes


class Older(NamedTuple):
    """A filter chain that was replaced, and still serves its connections."""

    capture: str
    chain: Chain
    others: frozenset[str]
    """The captures of its listener: connections of all others passed through."""
    until: float


class End(NamedTuple):
    """What one end of a call may do with a request."""

    unmarked: tuple[Act, ...] = ()
    marked: tuple[Act, ...] | None = None
    marks: bool = False
    secret: str = ""
    lost: str = ""
    """The name that a connection uses and its proxy does not have any more."""


class Refusal(NamedTuple):
    """That a proxy refuses the next response of a type."""

    type_url: str
    lasting: bool
    """Whether it refuses the same bytes ever after."""


class Stream:
    """An open stream, as the server's registry sees it."""

    acknowledged = Connection.acknowledged
    refuses = Connection.refuses
    fresh = Connection.fresh
    unreferenced = Connection.unreferenced
    in_sync = Connection.in_sync
    held_version = Connection.held_version
    caller = None

    def __init__(self, server: XdsServer, proxy: Proxy, snapshot: Snapshot) -> None:
        self._host, self.group, self.admission = server, proxy.service, proxy
        self.node = ClientNode(proxy.id, proxy.service, "envoy")
        past = server.store.earlier_streams(proxy.service)
        self.fallback = at_start(server.store, proxy.service, snapshot)
        self._machine = DeltaStream(snapshot, server.shared, past)
        self.responses: list[Response] = []
        self.newer: Snapshot | None = None

    @property
    def waits(self) -> bool:
        return self._machine.waits_for is not None

    def receive(self, request: DeltaRequest) -> None:
        self._add(self._machine.receive(request))

    def offer_next(self) -> None:
        self.newer, self.fallback = next_snapshot(self._host.store, self.group, self.fallback)

    def push(self) -> None:
        if self.newer is not None and not self.responses:
            newer, self.newer = self.newer, None
            self._add(self._machine.publish(newer))

    def end_wait(self) -> None:
        self._add(self._machine.end_wait())

    def _add(self, responses: list[Response]) -> None:
        self.responses += responses
        store = self._host.store
        for event in self._machine.take_events():
            if isinstance(event, Nacked):
                store.nacked(self.group, event)
            elif isinstance(event, TypeAcked):
                store.type_acked(self.group, event)
            elif isinstance(event, SnapshotAcked | SnapshotAckedExceptUrgent):
                store.acked(self.group, event.snapshot)
        self._host.registry.note(self)  # type: ignore[arg-type]

    def close(self) -> None:
        self._host.registry.leave(self)  # type: ignore[arg-type]
        self._machine.leave()


@dataclass(slots=True, eq=False)
class Proxy:
    """The proxy of one replica."""

    service: str
    id: str
    stream: Stream | None = None
    held: dict[str, dict[str, Held]] = field(default_factory=lambda: {kind: {} for kind in TYPES})
    listener: Mapping[str, Chain] | None = None
    """The filter chains in force."""
    older: list[Older] = field(default_factory=list)
    before: dict[str, list[tuple[Table, float]]] = field(default_factory=dict)
    """Route tables that workers may still have, and until when."""
    subscribed: dict[str, frozenset[str]] = field(default_factory=dict)
    """On its stream."""
    refusal: Refusal | None = None
    has_refused: bool = False
    """It has refused something since the mesh was at rest last."""
    refused: set[tuple[str, str, str]] = field(default_factory=set)
    """Resources that it refuses whenever they come: type, name and version."""

    @property
    def group(self) -> str:
        return self.service

    # ---- the stream ----

    def connect(self, server: XdsServer) -> None:
        snapshot = server.store.initial(self.service)
        if snapshot is None or self.stream is not None:
            return
        self.stream = stream = Stream(server, self, snapshot)
        server.registry.join(self.service, stream)  # type: ignore[arg-type]
        for kind in TYPES:
            names = self._uses(kind)
            if kind == LISTENER or names:
                initial = {name: held.version for name, held in self.held[kind].items()}
                self.subscribed[kind] = names
                stream.receive(DeltaRequest(kind, subscribe=tuple(sorted(names)), initial=initial or None))

    def disconnect(self) -> None:
        if self.stream is not None:
            self.stream.close()
        self.stream = None
        self.subscribed = {}

    def restart(self) -> None:
        self.disconnect()
        self.held = {kind: {} for kind in TYPES}
        self.listener, self.older, self.before = None, [], {}

    def offer_next(self) -> None:
        if self.stream is not None:
            self.stream.offer_next()

    def advance(self, now: float) -> None:
        """Take one response, if there is one, and answer it."""
        stream = self.stream
        if stream is None:
            return
        stream.push()
        if not stream.responses:
            return
        response = stream.responses.pop(0)
        content = discovery_pb2.DeltaDiscoveryResponse.FromString(response.data)
        kind = response.type_url
        changed = {each.name: Held(each.version, each.resource.value) for each in content.resources}
        error = None
        if self._refuses(kind, changed):
            error = "refused"
        else:
            self._take(kind, changed, tuple(content.removed_resources), now)
        self._request(DeltaRequest(kind, nonce=content.nonce, error=error))

    def pass_time(self, now: float, *, patient: bool) -> None:
        """Connections close, workers follow, and the server's patience with this proxy may be over."""
        self.older = [each for each in self.older if each.until > now]
        self.before = {
            name: left
            for name, tables in self.before.items()
            if (left := [(table, until) for table, until in tables if until > now])
        }
        self._request(None)
        if self.stream is not None and not patient and self.stream.waits and not self.stream.responses:
            self.stream.end_wait()

    def _refuses(self, kind: str, changed: Mapping[str, Held]) -> bool:
        things = {(kind, name, held.version) for name, held in changed.items()}
        refusal = self.refusal if changed and self.refusal is not None and self.refusal.type_url == kind else None
        if refusal is not None:
            self.refusal = None
            self.refused |= things if refusal.lasting else set()
        refuses = refusal is not None or bool(things & self.refused)
        self.has_refused = self.has_refused or refuses
        return refuses

    def _take(self, kind: str, changed: Mapping[str, Held], removed: tuple[str, ...], now: float) -> None:
        held = self.held[kind]
        if kind == ROUTES:
            for name, new in changed.items():
                if name in held and held[name].body != new.body:
                    self.before.setdefault(name, []).append((table_of(held[name].body), now + LAG))
        held.update(changed)
        for name in removed:
            held.pop(name, None)
        self._switch(now)

    def _switch(self, now: float) -> None:
        """A listener whose chains have all that they name comes into force."""
        if "both" not in self.held[LISTENER]:
            return
        chains = chains_of(self.held[LISTENER]["both"].body)
        if chains == self.listener or self._missing(chains.values()):
            return
        if self.listener is not None:
            captures = frozenset(self.listener) - {PASSTHROUGH}
            for capture, chain in self.listener.items():
                if chains.get(capture) != chain:
                    self.older.append(Older(capture, chain, captures, now + DRAIN))
        self.listener = chains

    def _missing(self, chains: Any) -> bool:
        return any(
            (chain.table and chain.table not in self.held[ROUTES])
            or any(name not in self.held[EXTENSION] for name in chain.filters)
            for chain in chains
        )

    def _uses(self, kind: str) -> frozenset[str]:
        """The names that its filter chains use: in force, of the newest listener, and draining."""
        if kind == LISTENER:
            return frozenset()
        chains = [each.chain for each in self.older]
        chains += [] if self.listener is None else list(self.listener.values())
        if "both" in self.held[LISTENER]:
            chains += chains_of(self.held[LISTENER]["both"].body).values()
        if kind == ROUTES:
            return frozenset(chain.table for chain in chains if chain.table)
        trial = {TRIAL} if TRIAL in self.held[LISTENER] else set()
        return frozenset(name for chain in chains for name in chain.filters) | trial

    def _request(self, answer: DeltaRequest | None) -> None:
        """Send an answer, and each change of subscriptions."""
        stream = self.stream
        if answer is not None and stream is not None:
            stream.receive(answer)
        for kind in (EXTENSION, ROUTES):
            names, before = self._uses(kind), self.subscribed.get(kind, frozenset())
            for gone in self.held[kind].keys() - names:
                del self.held[kind][gone]
            if stream is not None and names != before:
                self.subscribed[kind] = names
                more, less = tuple(sorted(names - before)), tuple(sorted(before - names))
                stream.receive(DeltaRequest(kind, subscribe=more, unsubscribe=less))

    # ---- requests of applications ----

    def ends(self, hop: str, loaded: frozenset[str], ever: frozenset[str]) -> Iterator[End]:
        """What it may do with a request of a hop. Nothing where it has no listener: it refuses connections. `loaded`:
        what is redirected to it now, `ever`: what was at any time, so that it may have older connections."""
        if self.listener is None:
            return
        capture = f"{hop} at 80"
        if capture not in loaded:
            yield End()
        elif capture in self.listener:
            yield from self._through(self.listener[capture])
        else:
            yield End()
        for older in self.older if capture in ever else ():
            if older.capture == capture:
                yield from self._through(older.chain)
            elif older.capture == PASSTHROUGH and capture not in older.others:
                yield End()

    def _through(self, chain: Chain) -> Iterator[End]:
        routes, filters = self.held[ROUTES], self.held[EXTENSION]
        missing = [name for name in chain.filters if name not in filters]
        missing += [chain.table] if chain.table not in routes else []
        if missing:
            yield End(lost=missing[0])
            return
        acts = {name: act_of(filters[name].body) for name in chain.filters}
        for table in {table_of(routes[chain.table].body), *(each for each, _ in self.before.get(chain.table, ()))}:
            yield End(
                _acts(table.unmarked, acts),
                None if table.marked is None else _acts(table.marked, acts),
                table.marks,
                table.secret,
            )


def _acts(names: tuple[str, ...], acts: Mapping[str, Act | None]) -> tuple[Act, ...]:
    return tuple(found for name in names if (found := acts.get(name)) is not None)
