"""The aggregated discovery service on gRPC: admits streams, pushes snapshots to them, and ends them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]

from xds_server.limits import unauthenticated
from xds_server.limits.limits import Limits
from xds_server.limits.repeated_warnings import RepeatedWarnings, host_of
from xds_server.protocol.shared_results import SharedResults
from xds_server.resources.ack_events import Acked, Nacked, SnapshotAcked, TypeAcked
from xds_server.resources.cache import SnapshotCache, only_differs_in
from xds_server.resources.types import URGENT
from xds_server.transport.admission import AdmissionControl
from xds_server.transport.client import Admission, Caller, ClientStatus
from xds_server.transport.client_registry import ClientRegistry
from xds_server.transport.connection import AnyConnection, Connection, known_type
from xds_server.transport.debounce import Debounce
from xds_server.transport.errors import StreamRejectedError
from xds_server.transport.variants import DELTA, SOTW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from xds_server.resources.ack_events import Event
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.variants import GrpcStream, RequestT, Variant

LOG: Final = logging.getLogger("xds_server")
SERVICE: Final = "envoy.service.discovery.v3.AggregatedDiscoveryService"
PAUSE: Final = 4
"""After a heavy request, the next one waits this many times the CPU time of the request."""


class ServerError(Exception):
    """The server cannot listen. The message has the address and the cause."""


class XdsServer:
    """Serves the snapshots of a store. All calls belong on the event loop that started it.

        store = SnapshotCache()
        store.publish("search", Snapshot.of([Resource.of(listener), ...]))
        server = XdsServer(store, identify=lambda caller: caller.node.cluster)
        port = await server.start("127.0.0.1:18000")
        ...
        await server.stop()

    Within the limits, `identify` alone decides which clients are admitted. It returns the group of a client, or an
    `Admission`, which also has the proven identity and the time when the proof ends. It returns None, or raises
    `DeniedError` with a reason, if the client is not admitted.
    """

    def __init__(
        self,
        store: SnapshotCache,
        identify: Callable[[Caller], Admission | str | None],
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.shared = SharedResults(self.limits.response_bytes)
        self.store = store
        self.metrics = store.metrics
        self.registry: ClientRegistry[AnyConnection] = ClientRegistry()
        self._warnings = RepeatedWarnings()
        self.admission = AdmissionControl(store, identify, self.limits, self._warnings)
        self._open = 0
        self._peers: Counter[str] = Counter()
        """Open streams by address."""
        self._pending: set[AnyConnection] = set()
        """Streams without a first request."""
        self._debounce = Debounce(self.limits.quiet_seconds, self.limits.quiet_limit_seconds)
        self._timer: asyncio.TimerHandle | None = None
        self._published: dict[str, tuple[Snapshot, float]] = {}
        """By group: the snapshot that was published last, and the time of its publication."""
        self._server: Any = None
        self._idle_watch: asyncio.Task[None] | None = None
        self._stopping = False
        self._port = 0
        self._heavy_until = 0.0
        """The time from which the server may handle the next heavy request."""

    async def start(self, address: str, credentials: Any = None, services: Iterable[Callable[[Any], None]] = ()) -> int:
        """Listen at `host:port` and return the port. Without credentials, connections are plain text. Raises
        `ServerError`.

        Each of `services` gets the gRPC server and adds a service of its own to it.
        """
        self._server = grpc.aio.server(options=_options(self.limits))
        handlers = {
            "StreamAggregatedResources": self._handler(SOTW),
            "DeltaAggregatedResources": self._handler(DELTA),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
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
        self._port = int(port)
        self.store.watchers.append(self._changed)
        await self._server.start()
        self._idle_watch = asyncio.create_task(
            unauthenticated.watch(int(port), self.limits.streams_per_peer, self._admitted_peers, self._count_ended)
        )
        return int(port)

    async def stop(self, grace: float = 5.0) -> None:
        """Stop listening, and end each stream once its client owes no ACK, after `grace` seconds at most."""
        self._stopping = True
        if self._changed in self.store.watchers:
            self.store.watchers.remove(self._changed)
        if self._timer is not None:
            self._timer.cancel()
        if self._idle_watch is not None:
            self._idle_watch.cancel()
        for connection in [*self._pending, *self.registry]:
            connection.end("drained", grace)
        if self._server is not None:
            await self._server.stop(grace)
        self._warnings.close()

    async def end_streams(self, grace: float = 5.0) -> int:
        """End each stream once its client owes no ACK, after `grace` seconds at most, and then all connections. Return
        the number of streams.

        The server keeps running: clients connect again, perhaps to another server behind the same name.
        """
        for connection in [*self._pending, *self.registry]:
            connection.end("drained", grace)
        await asyncio.sleep(grace)
        return await asyncio.to_thread(unauthenticated.end_excess, self._port, 0, ())

    def clients(self) -> tuple[ClientStatus, ...]:
        """The whole status of all clients, by group and node. `registry` has a part of it, which needs no search."""
        statuses = (connection.status for connection in self.registry)
        return tuple(sorted(statuses, key=lambda status: (status.group, status.node.id, status.peer)))

    @property
    def connections(self) -> tuple[AnyConnection, ...]:
        """The streams of all admitted clients, to be read only."""
        return tuple(self.registry)

    def recheck_identities(self, groups: Collection[str] | None = None) -> int:
        """End the streams of clients whose admission has changed with the identities, and return their number. With
        `groups`, only the streams of these groups are checked."""
        ended = 0
        connections = (
            None if groups is None else [connection for group in groups for connection in self.registry.of(group)]
        )
        for connection in self.connections if connections is None else connections:
            if connection.caller is not None and self.admission.check(connection.caller) != connection.admission:
                connection.reject(grpc.StatusCode.PERMISSION_DENIED, "the admission of this client has changed")
                ended += 1
        return ended

    # For connections (`StreamHost`).

    def admit(self, connection: AnyConnection, caller: Caller) -> tuple[Admission, Snapshot]:
        """The admission of a client and the snapshot that it starts from. Raises `StreamRejectedError`."""
        admission, snapshot = self.admission.admit(caller)
        self._pending.discard(connection)
        self.registry.join(admission.group, connection)
        self.metrics.connected += 1
        return admission, snapshot

    def charge(self, connection: AnyConnection, change: int) -> None:
        """Note a change of the client's memory, in bytes. Raises `StreamRejectedError` beyond the bounds."""
        if connection.caller is not None:
            self.admission.charge(connection.caller, connection.admission, change)

    def stream_ended(self, connection: AnyConnection) -> None:
        """Release all that the server holds for a stream."""
        self._pending.discard(connection)
        if self.registry.leave(connection):
            self.metrics.connected -= 1
            if connection.caller is not None:
                self.admission.leave(connection.caller, connection.admission, connection.memory.weight)
        connection.release()

    async def pause_after_heavy_request(self, seconds: float) -> None:
        """Wait after a request that took this much CPU time. All clients with such requests wait for each other, so
        that any number of them together gets only a part of the server's time."""
        now = asyncio.get_running_loop().time()
        self._heavy_until = max(now, self._heavy_until) + seconds * PAUSE
        await asyncio.sleep(self._heavy_until - now)

    def handle_events(self, connection: AnyConnection, events: Sequence[Event]) -> None:
        """Count and keep what a client has acknowledged or refused."""
        for event in events:
            if isinstance(event, Acked):
                self.metrics.acknowledgements[known_type(event.type_url)] += 1
            elif isinstance(event, Nacked):
                connection.nack_log.log(connection.node.id, connection.group, event)
                self.metrics.rejects[known_type(event.type_url)] += 1
                self.store.nacked(connection.group, event)
            elif isinstance(event, TypeAcked):
                self.store.type_acked(connection.group, event)
            else:
                self.store.acked(connection.group, event.snapshot)
                if isinstance(event, SnapshotAcked):
                    self._observe_convergence(connection, event.snapshot)
        self.registry.note(connection)

    def _observe_convergence(self, connection: AnyConnection, snapshot: Snapshot) -> None:
        published = self._published.get(connection.group)
        if published is not None and published[0] is snapshot and connection.began <= published[1]:
            self.metrics.convergence.observe(asyncio.get_running_loop().time() - published[1])

    # Streams.

    def _handler(self, variant: Variant[RequestT]) -> Any:
        async def handle(_: Any, context: Any) -> None:
            await self._handle(context, variant)

        # Without serializers gRPC passes the bytes through as they are.
        return grpc.stream_stream_rpc_method_handler(handle)

    async def _handle(self, context: Any, variant: Variant[RequestT]) -> None:
        try:
            why = await self._serve(context, variant)
        except asyncio.CancelledError:
            self.metrics.streams["cut"] += 1
            raise
        except StreamRejectedError as error:
            code, message = error.code, str(error)
        else:
            self.metrics.streams[why] += 1
            return
        self.metrics.streams[code.name.lower()] += 1
        # Not by `abort`: gRPC keeps the exception that it raises, and with it the stream, until a garbage collection.
        context.set_code(code)
        context.set_details(message)

    async def _serve(self, context: GrpcStream, variant: Variant[RequestT]) -> str:
        """Serve one stream, and return why it ended. Raises `StreamRejectedError`."""
        host = host_of(context.peer())
        if self._stopping:
            raise StreamRejectedError(grpc.StatusCode.UNAVAILABLE, "the server is going away")
        if self._open >= self.limits.streams or self._peers[host] >= self.limits.streams_per_peer:
            raise StreamRejectedError(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
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

    def _admitted_peers(self) -> set[str]:
        return {connection.peer for connection in self.registry}

    def _count_ended(self, number: int) -> None:
        self.metrics.denials["crowd"] += number
        fields = {"connections": number, "why": "too many connections of one address without an admitted client"}
        LOG.warning("crowd_ended", extra=fields)

    # Snapshots.

    def _changed(self, group: str, old: Snapshot | None, new: Snapshot) -> None:
        loop = asyncio.get_running_loop()
        self._published[group] = (new, loop.time())
        for connection in self.registry.of(group):
            self.registry.note(connection)
        urgent = old is not None and only_differs_in(old, new, URGENT)
        due = self._debounce.changed(group, loop.time(), urgent=urgent)
        # Thousands of groups may change at once, and one search for the next time is enough for all of them.
        if self._timer is None or due < self._timer.when():
            self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        when = self._debounce.next
        self._timer = None if when is None else loop.call_at(when, self._push_due)

    def _push_due(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        for group in self._debounce.due(loop.time()):
            self._push(self.registry.of(group))
        self._schedule(loop)

    def _push(self, connections: Iterable[AnyConnection]) -> None:
        """Push to streams, with the streams of one HTTP/2 connection as a batch.

        All responses of a batch are computed before the first write, so that gRPC sends them in one go. If all streams
        were one batch, the first client would wait for the last.
        """
        for _, streams in groupby(sorted(connections, key=attrgetter("peer")), key=attrgetter("peer")):
            together = tuple(streams)
            for connection in together:
                connection.offer_next()
            for connection in together:
                connection.write()


def _options(limits: Limits) -> list[tuple[str, int]]:
    """The options of the gRPC server."""
    return [
        ("grpc.so_reuseport", 0),  # two servers at one port would each get half of the clients
        # By default gRPC rejects streams at random when many arrive at once.
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
        # The server detects dead clients, and allows clients to look for dead servers.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
    ]
