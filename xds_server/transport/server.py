"""The aggregated discovery service on gRPC: who may open a stream, who hears of which snapshot, and how it all ends."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]

from xds_server.limits import unauthenticated
from xds_server.limits.client_memory import Budget
from xds_server.limits.limits import Limits
from xds_server.limits.repeated_warnings import Repeats, host_of
from xds_server.protocol.events import Settled, Took
from xds_server.protocol.type_state import Shared
from xds_server.resources.cache import SnapshotStore, only_differs_in
from xds_server.resources.types import URGENT
from xds_server.transport.client import Admission, Caller, ClientStatus, DeniedError
from xds_server.transport.client_registry import ClientRegistry
from xds_server.transport.connection import DELTA, SOTW, Connection, RefusedStreamError, Variant, known_type
from xds_server.transport.debounce import Coalescer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from xds_server.protocol.events import Completed, Refused
    from xds_server.resources.snapshot import Snapshot

LOG: Final = logging.getLogger("xds_server")
SERVICE: Final = "envoy.service.discovery.v3.AggregatedDiscoveryService"
TOO_MUCH: Final = "the names and answers of all streams of this client take too much memory"
PAUSE: Final = 4
"""So much longer than a heavy request the next one waits."""


class ServerError(Exception):
    """The server cannot listen; the message says where and why."""


class XdsServer:
    """Serves the snapshots of a store. All calls belong on the event loop that started it.

        store = SnapshotStore()
        store.publish("search", Snapshot.of([Resource.of(listener), ...]))
        server = XdsServer(store, identify=lambda caller: caller.node.cluster)
        port = await server.start("127.0.0.1:18000")
        ...
        await server.stop()

    `identify` says which group a client belongs to, or None for nobody's: it is the only door. An `Admission` says
    besides who the client is and for how long; `DeniedError` says why it is not let in.
    """

    def __init__(
        self,
        store: SnapshotStore,
        identify: Callable[[Caller], Admission | str | None],
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.shared = Shared(self.limits.response_bytes)
        self.store = store
        self.metrics = store.metrics
        self._identify = identify
        self._open = 0
        self._peers: Counter[str] = Counter()
        self._identities: Counter[str] = Counter()
        self._budget = Budget(self.limits.held_per_client, self.limits.held)
        self.registry = ClientRegistry()
        self._pending: set[Connection] = set()
        self._coalescer = Coalescer(self.limits.quiet_seconds, self.limits.quiet_limit_seconds)
        self._timer: asyncio.TimerHandle | None = None
        self._published: dict[str, tuple[Snapshot, float]] = {}
        self._server: Any = None
        self._crowds: asyncio.Task[None] | None = None
        self._stopping = False
        self._repeats = Repeats()
        self._heavy_until = 0.0
        """When the next heavy request may be heard."""

    async def start(self, address: str, credentials: Any = None, services: Iterable[Callable[[Any], None]] = ()) -> int:
        """Listen at `host:port` and return the port. Without credentials in plain text. Raises `ServerError`.

        Each of `services` is given the gRPC server and adds a service of its own to it.
        """
        limits = self.limits
        self._server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),  # two servers at one port would each get half of the clients
                # By default a connect storm is turned away at random.
                ("grpc.server.max_pending_requests", limits.streams),
                ("grpc.server.max_pending_requests_hard_limit", limits.streams * 2),
                ("grpc.server_max_unrequested_time_in_server", limits.turn_seconds),
                ("grpc.max_receive_message_length", limits.request_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", limits.streams_per_connection),
                ("grpc.max_allowed_incoming_connections", limits.connections),
                ("grpc.server_handshake_timeout_ms", int(limits.handshake_seconds * 1000)),
                ("grpc.max_connection_idle_ms", int(limits.idle_seconds * 1000)),
                # A stream that ends by age would come back on the same connection, to the same replica.
                ("grpc.max_connection_age_ms", int(limits.age_seconds * 750)),
                ("grpc.max_connection_age_grace_ms", int(limits.age_seconds * 750 + limits.age_grace_seconds * 1000)),
                # Dead clients are noticed, and clients that look for dead servers are welcome.
                ("grpc.keepalive_time_ms", 30_000),
                ("grpc.keepalive_timeout_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_ping_strikes", 0),
            ]
        )
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    SERVICE,
                    {
                        "StreamAggregatedResources": self._handler(SOTW),
                        "DeltaAggregatedResources": self._handler(DELTA),
                    },
                ),
            )
        )
        for add in services:
            add(self._server)
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            await self._server.stop(None)
            raise ServerError(f"cannot listen at `{address}`: {error}") from error
        if not port:
            await self._server.stop(None)
            raise ServerError(f"cannot listen at `{address}`")
        self.store.watchers.append(self._changed)
        await self._server.start()
        self._crowds = asyncio.create_task(
            unauthenticated.watch(int(port), limits.streams_per_peer, self._peers_let_in, self._dispersed)
        )
        return int(port)

    async def stop(self, grace: float = 5.0) -> None:
        """Let every stream end once its client owes no answer, for `grace` seconds at most, and stop listening."""
        self._stopping = True
        if self._changed in self.store.watchers:
            self.store.watchers.remove(self._changed)
        if self._timer is not None:
            self._timer.cancel()
        if self._crowds is not None:
            self._crowds.cancel()
        for connection in self._connections():
            connection.end("drained", grace)
        if self._server is not None:
            await self._server.stop(grace)
        self._repeats.close()

    def clients(self) -> tuple[ClientStatus, ...]:
        """All clients with all that is known of them, by group and node. `registry` says less, and at once."""
        found = (connection.status for connection in self.registry)
        return tuple(sorted(found, key=lambda status: (status.group, status.node.id, status.peer)))

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The streams of all clients that were let in: to be looked at."""
        return tuple(self.registry)

    def identify_again(self) -> int:
        """After a change of who may ask: end the streams of clients that are not what they were; how many."""
        ended = 0
        for connection in self.connections:
            if connection.caller is not None and self._admission(connection.caller) != connection.admission:
                connection.refuse(grpc.StatusCode.PERMISSION_DENIED, "this client is not what it was")
                ended += 1
        return ended

    # For connections.

    def admit(self, connection: Connection, caller: Caller) -> tuple[Admission, Snapshot]:
        """Whether and as whom a client is let in, and what it starts from. Raises `RefusedStreamError`."""
        admission = self._admission(caller)
        if admission is None:
            raise RefusedStreamError(grpc.StatusCode.PERMISSION_DENIED, "this client has no configuration here")
        if admission.identity and self._identities[admission.identity] >= self.limits.streams_per_identity:
            raise RefusedStreamError(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
        snapshot = self.store.start(admission.group)
        if snapshot is None:
            raise RefusedStreamError(grpc.StatusCode.UNAVAILABLE, "there is no configuration yet")
        self._pending.discard(connection)
        self.registry.join(admission.group, connection)
        if admission.identity and caller.node.cluster not in ("", admission.group):
            said = {
                "node": caller.node.id,
                "claimed": caller.node.cluster,
                "service": admission.group,
                "identity": admission.identity,
                "peer": caller.peer,
            }
            self._repeats.warn("claims_another", host_of(caller.peer), admission.group, said)
        if admission.identity:
            self._identities[admission.identity] += 1
        self.metrics.connected += 1
        return admission, snapshot

    def _admission(self, caller: Caller) -> Admission | None:
        try:
            found = self._identify(caller)
        except DeniedError as error:
            reason, why = error.reason, str(error)
        else:
            if found is not None:
                return Admission(found) if isinstance(found, str) else found
            reason, why = "unknown", "nobody knows it"
        self.metrics.denials[reason] += 1
        said = {
            "node": caller.node.id,
            "claimed": caller.node.cluster,
            "peer": caller.peer,
            "reason": reason,
            "why": why,
        }
        self._repeats.warn("denied", host_of(caller.peer), reason, said)
        return None

    def left(self, connection: Connection) -> None:
        """A stream has ended."""
        self._pending.discard(connection)
        if self.registry.leave(connection):
            self.metrics.connected -= 1
            self._budget.take(_client(connection), -connection.meter.weight)
            identity = connection.admission.identity
            if identity:
                self._identities[identity] -= 1
                if not self._identities[identity]:
                    del self._identities[identity]
        connection.forget()

    def holds(self, connection: Connection, more: int) -> None:
        """A client makes the server keep so much more, or less. Raises `RefusedStreamError`."""
        client = _client(connection)
        if not self._budget.take(client, more):
            self.metrics.denials["too_much"] += 1
            said = {
                "node": connection.node.id,
                "service": connection.group,
                "identity": connection.admission.identity,
                "peer": connection.peer,
                "held": self._budget.held(client),
            }
            self._repeats.warn("holds_too_much", client, "too_much", said)
            raise RefusedStreamError(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MUCH)

    async def let_others_first(self, took: float) -> None:
        """After a large request that took so long. All who send such requests wait for each other, however many they
        are, so that together they get no more than a part of the server's time."""
        now = asyncio.get_running_loop().time()
        self._heavy_until = max(now, self._heavy_until) + took * PAUSE
        await asyncio.sleep(self._heavy_until - now)

    def refused(self, connection: Connection, event: Refused) -> None:
        self.metrics.rejects[known_type(event.type_url)] += 1
        self.store.refused(connection.group, event)

    def took(self, connection: Connection, event: Took | Settled) -> None:
        if isinstance(event, Took):
            self.store.took(connection.group, event)
        else:
            self.store.accepted(connection.group, event.snapshot)

    def completed(self, connection: Connection, event: Completed) -> None:
        self.store.accepted(connection.group, event.snapshot)
        published = self._published.get(connection.group)
        if published is not None and published[0] is event.snapshot and connection.began <= published[1]:
            self.metrics.convergence.observe(asyncio.get_running_loop().time() - published[1])

    # Streams.

    def _handler(self, variant: Variant) -> Any:
        async def handle(_: Any, context: Any) -> None:
            await self._handle(context, variant)

        # Without serializers the bytes go through as they are.
        return grpc.stream_stream_rpc_method_handler(handle)

    async def _handle(self, context: Any, variant: Variant) -> None:
        try:
            why = await self._talk(context, variant)
        except asyncio.CancelledError:
            self.metrics.streams["cut"] += 1
            raise
        except RefusedStreamError as error:
            code, said = error.code, str(error)
        else:
            self.metrics.streams[why] += 1
            return
        self.metrics.streams[code.name.lower()] += 1
        # After the error has gone: gRPC keeps what `abort` raises, and with it all that it was raised in.
        await context.abort(code, said)

    async def _talk(self, context: Any, variant: Variant) -> str:
        """Why the stream ended. Raises `RefusedStreamError`."""
        host = host_of(context.peer())
        if self._stopping:
            raise RefusedStreamError(grpc.StatusCode.UNAVAILABLE, "the server is going away")
        if self._open >= self.limits.streams or self._peers[host] >= self.limits.streams_per_peer:
            raise RefusedStreamError(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
        self._open += 1
        self._peers[host] += 1
        try:
            connection = Connection(self, context, variant)
            self._pending.add(connection)
            return await connection.run()
        finally:
            self._open -= 1
            self._peers[host] -= 1
            if not self._peers[host]:
                del self._peers[host]

    def _peers_let_in(self) -> set[str]:
        return {connection.peer for connection in self.registry}

    def _dispersed(self, number: int) -> None:
        self.metrics.denials["crowd"] += number
        LOG.warning("crowd_ended", extra={"connections": number, "why": "too many of one address say nothing"})

    def _connections(self) -> list[Connection]:
        return [*self._pending, *self.registry]

    # Snapshots.

    def _changed(self, group: str, old: Snapshot | None, new: Snapshot) -> None:
        loop = asyncio.get_running_loop()
        self._published[group] = (new, loop.time())
        for connection in self.registry.of(group):
            self.registry.note(connection)
        urgent = old is not None and only_differs_in(old, new, URGENT)
        due = self._coalescer.changed(group, loop.time(), urgent=urgent)
        # Thousands of groups change at once: who looks through all that wait does so once for all of them.
        if self._timer is None or due < self._timer.when():
            self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        when = self._coalescer.next
        self._timer = None if when is None else loop.call_at(when, self._flush)

    def _flush(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        for group in self._coalescer.due(loop.time()):
            snapshot = self.store.current(group)
            if snapshot is not None:
                self._offer(snapshot, self.registry.of(group))
        self._schedule(loop)

    def _offer(self, snapshot: Snapshot, connections: Iterable[Connection]) -> None:
        """To streams of one HTTP/2 connection together, and to find out what to say before the first of them writes:
        gRPC then sends what they say in one go. All at once instead, the first client would wait for the last one."""
        for _, found in groupby(sorted(connections, key=attrgetter("peer")), key=attrgetter("peer")):
            together = tuple(found)
            for connection in together:
                connection.offer(snapshot)
            for connection in together:
                connection.write()


def _client(connection: Connection) -> str:
    """Who is counted as one."""
    return connection.admission.identity or host_of(connection.peer)
