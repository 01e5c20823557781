"""One open stream between gRPC and the state machine. Its reader and its writer do not wait for each other.

The server handles a request as soon as it arrives, unless `OUTBOX` responses wait, and sends its responses before any
push. While the client reads slowly, only the latest snapshot waits.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Generic, Protocol

import grpc  # type: ignore[import-untyped]

from xds_server.limits.client_memory import StreamMemory
from xds_server.protocol.wire import ClientNode, DeltaRequest, ProtocolError, SotwRequest, TooMuchError
from xds_server.resources.types import ORDER
from xds_server.transport.client import Admission, Caller, ClientStatus
from xds_server.transport.errors import StreamRejectedError
from xds_server.transport.fallback import Fallback, at_start, next_snapshot
from xds_server.transport.nack_log import NackLog
from xds_server.transport.variants import RequestT
from xds_server.transport.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from xds_server.limits.limits import Limits
    from xds_server.metrics import Metrics
    from xds_server.protocol.shared_results import SharedResults
    from xds_server.protocol.stream import Stream
    from xds_server.protocol.transition import Wait
    from xds_server.protocol.wire import Response
    from xds_server.resources.ack_events import Event
    from xds_server.resources.cache import SnapshotCache
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.variants import GrpcStream, Variant

LATE_SECONDS: Final = 0.25
"""A server whose timers are this late is overloaded."""
LARGE: Final = 16 << 10
"""The number of bytes from which a request is followed by a pause. Hardly any client subscribes to so many names."""
MANY: Final = 1_000
"""The number of names and claimed resources from which all requests of a client are followed by a pause. To add one
name takes as long as to handle all names."""
OUTBOX: Final = 64
"""The number of waiting responses from which the server reads no more requests."""
REJECT_SECONDS: Final = 5.0
"""How long a client that reads nothing may keep a stream that the server has rejected."""


class StreamHost(Protocol):
    """The functions of the server that a stream needs."""

    limits: Limits
    shared: SharedResults
    store: SnapshotCache
    metrics: Metrics

    def admit(self, connection: AnyConnection, caller: Caller) -> tuple[Admission, Snapshot]:
        """Let a client in. Raises `StreamRejectedError`."""

    def charge(self, connection: AnyConnection, change: int) -> None:
        """Charge memory to the client. Raises `StreamRejectedError`."""

    def handle_events(self, connection: AnyConnection, events: Sequence[Event]) -> None:
        """Note what the client has acknowledged or refused."""

    async def pause_after_heavy_request(self, seconds: float) -> None:
        """Wait after a request that took this much CPU time."""

    def stream_ended(self, connection: AnyConnection) -> None:
        """Release all that the server holds for the stream."""


class Connection(Writer, Generic[RequestT]):
    """One open stream. All methods run on the thread of the event loop."""

    def __init__(self, host: StreamHost, context: GrpcStream, variant: Variant[RequestT]) -> None:
        super().__init__(context)
        self._host = host
        self._variant: Variant[RequestT] = variant
        self._outbox: list[Response] = []
        """A list instead of a `deque`, because an empty deque takes 760 bytes, and the outbox is mostly empty."""
        self._over = asyncio.get_running_loop().create_future()
        """Done when no message is being written and none will follow."""
        self._room: asyncio.Future[None] | None = None
        """Exists while the outbox is full, and is done when the outbox has room."""
        self._waiting: Snapshot | None = None
        """The snapshot that the state machine receives after the next write."""
        self._machine: Stream[RequestT] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._wait: Wait | None = None
        self._wait_timer: asyncio.TimerHandle | None = None
        """The timer of the present wait."""
        self.nack_log = NackLog()
        self.memory = StreamMemory()
        self._end = ""
        """The reason for which the stream has to end; empty until then."""
        self._ended = False
        self._failure: BaseException | None = None
        self._task = asyncio.current_task()
        self.admission = Admission("")
        self.fallback = Fallback.NEVER
        self.caller: Caller | None = None
        self.since = time.time()
        self.began = asyncio.get_running_loop().time()
        self.node = ClientNode("", "", "")
        self.peer: str = context.peer()

    @property
    def group(self) -> str:
        return self.admission.group

    @property
    def machine(self) -> Stream[RequestT] | None:
        """The state machine of the stream; None before the first request."""
        return self._machine

    @property
    def acknowledged(self) -> str:
        """The version of the last snapshot of which the client acknowledged all resources that it can use. Empty
        before, and while the client returns to this snapshot from another one."""
        machine, wanted = self._machine, self._host.store.current(self.group)
        if machine is None or machine.completed is None:
            return ""
        version = machine.completed.version
        return "" if wanted is not None and wanted.version == version and machine.changing else version

    @property
    def completed(self) -> Snapshot | None:
        """The last snapshot of which the client acknowledged all resources that it can use. The client may already be
        in the transition to a later one."""
        return None if self._machine is None else self._machine.completed

    @property
    def in_sync(self) -> bool:
        """Whether the client has acknowledged the snapshot of its group, and has refused nothing since."""
        machine = self._machine
        if machine is None or machine.completed is None:
            return False
        # This takes half of the work of `acknowledged` and `refuses`: each push computes it twice for each client.
        wanted = self._host.store.current(self.admission.group)
        return (
            wanted is not None
            and wanted.version == machine.completed.version
            and not machine.changing
            and not machine.refuses
        )

    @property
    def refuses(self) -> bool:
        """Whether the client has refused a resource, and has since neither acknowledged another version of the resource
        nor ended its subscription."""
        return self._machine is not None and self._machine.refuses

    @property
    def fresh(self) -> bool:
        """Whether the client had no resources when the stream began, and the stream started from the latest
        snapshot."""
        return self._machine is not None and self._machine.fresh and self.fallback is Fallback.NEVER

    @property
    def unreferenced(self) -> Mapping[str, frozenset[str]]:
        """The subscriptions of the client's filter chains that no resource of the group's snapshot refers to."""
        wanted = self._host.store.current(self.group)
        return {} if self._machine is None or wanted is None else self._machine.unreferenced(wanted)

    def held_version(self, type_url: str, name: str) -> str | None:
        """The version of a resource that the client has; None if it has none."""
        return None if self._machine is None else self._machine.held_version(type_url, name)

    @property
    def status(self) -> ClientStatus:
        machine, wanted = self._machine, self._host.store.current(self.group)
        return ClientStatus(
            group=self.group,
            node=self.node,
            peer=self.peer,
            variant=self._variant.name,
            types=machine.status() if machine is not None else (),
            identity=self.admission.identity,
            since=self.since,
            wanted=wanted.version if wanted is not None else "",
            sent=machine.snapshot.version if machine is not None else "",
            acknowledged=self.acknowledged,
        )

    def offer_next(self) -> None:
        """Take the newest snapshot for this client, and send it when the client is ready. `write` sends the
        responses."""
        snapshot, self.fallback = next_snapshot(self._host.store, self.group, self.fallback)
        if snapshot is None:
            return
        if self._machine is None or self._end or self._outbox or self._busy:
            self._waiting = snapshot
            return
        try:
            self._queue(self._machine, self._machine.publish(snapshot))
        except Exception as error:
            self._failed(error)  # the streams of other clients go on

    def end(self, why: str, grace: float) -> None:
        """End the stream once the client owes no ACK, after `grace` seconds at most."""
        if not self._end:
            self._end = why
            self._after(grace, self._cut)
            self.write()

    def reject(self, code: grpc.StatusCode, message: str) -> None:
        """End the stream at once, with responses unsent."""
        self._failure = self._failure or StreamRejectedError(code, message)
        self._end = self._end or "refused"
        self._after(REJECT_SECONDS, self._cut)
        self.write()

    def release(self) -> None:
        """Drop the state machine and all queues.

        The exception that ended the stream refers to frames, which refer to the stream. So Python would otherwise keep
        the stream, and a request of megabytes, until it collects cycles.
        """
        if self._machine is not None:
            self._machine.leave()
        self._machine = self._waiting = self._failure = None
        self._outbox.clear()

    async def run(self) -> str:
        """Serve the stream until it ends, and return the reason. Raises `StreamRejectedError`."""
        limits = self._host.limits
        seconds = limits.first_request_seconds
        self._after(seconds, lambda: self._reject_if_silent(self.began + seconds))
        self._after(limits.random_age(), lambda: self.end("age", limits.age_grace_seconds))
        self._reader = asyncio.create_task(self._read())
        try:
            await self._over
            if self._failure is not None:
                raise self._failure
            return self._end
        finally:
            for timer in [*self._timers, *([self._wait_timer] if self._wait_timer else [])]:
                timer.cancel()
            self._host.stream_ended(self)
            # The reader is not cancelled: gRPC never frees the memory of a cancelled read (grpc/grpc#43360). The reader
            # ends by itself, or with the call, which ends its read.
            self._ended = True
            self._make_room()

    def _next(self) -> bytes | None:
        while self._failure is None and not self._over.done():
            if self._outbox:
                response = self._outbox.pop(0)
                if len(self._outbox) < OUTBOX:
                    self._make_room()
                data = response.data
                kind = known_type(response.type_url)
                self._host.metrics.pushes[kind] += 1
                self._host.metrics.pushed_bytes[kind] += len(data)
                return data
            if self._waiting is None or self._machine is None or self._end:
                break
            self._offer_waiting(self._machine)
        rests = self._end == "closed" or (self._end and (self._machine is None or self._machine.idle))
        if (rests or self._failure is not None) and not self._over.done():
            self._over.set_result(None)
        return None

    def _failed(self, error: BaseException) -> None:
        """End the stream after a failed write: the client has closed the stream, or the server has a defect."""
        if isinstance(error, grpc.aio.BaseError):
            self._outbox.clear()
            self._end = "closed"
        else:
            self._failure = self._failure or error
        self.write()

    async def _read(self) -> None:
        try:
            while not self._ended:
                if self._room is not None:
                    await self._room
                    continue
                data = await self._context.read()
                if data is grpc.aio.EOF or self._ended:
                    self._end = self._end or "closed"
                    return
                if len(data) < LARGE and (self._machine is None or self._machine.names < MANY):
                    self._receive(self._variant.parse(data))
                    continue
                began = time.thread_time()
                self._receive(self._variant.parse(data))
                await self._host.pause_after_heavy_request(time.thread_time() - began)
        except ProtocolError as error:
            self._failure = StreamRejectedError(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TooMuchError as error:
            self._failure = StreamRejectedError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except StreamRejectedError as error:
            self._failure = error
        except Exception as error:
            # Any error has to end the stream: without its reader it would stay open for ever.
            self._failure = error
        finally:
            if self._ended:
                self._failure = None  # as in `release`: its frames refer to this stream
            else:
                self.write()

    def _make_room(self) -> None:
        if self._room is not None:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None

    def _receive(self, request: RequestT) -> None:
        machine = self._machine or self._open(request)
        self._host.metrics.requests[known_type(request.type_url)] += 1
        self._offer_waiting(machine)
        responses = machine.receive(request)
        change = self.memory.account(machine, request, self._outbox)
        if change:
            self._host.charge(self, change)
        self._queue_and_write(machine, responses)

    def _offer_waiting(self, machine: Stream[RequestT]) -> None:
        """Take the snapshot that waits for a slow reader before any other response is sent: it may withdraw a
        response."""
        if self._waiting is not None and not self._end:
            snapshot, self._waiting = self._waiting, None
            self._queue(machine, machine.publish(snapshot))

    def _open(self, request: RequestT) -> Stream[RequestT]:
        if not request.type_url:
            raise ProtocolError("the request has no type URL")
        self.node = request.node or self.node
        metadata = tuple((key, value) for key, value in self._context.invocation_metadata() or ())
        auth = {key: tuple(values) for key, values in self._context.auth_context().items()}
        self.caller = Caller(self.node, self.peer, auth, metadata)
        self.admission, snapshot = self._host.admit(self, self.caller)
        if self.admission.node:
            self.node = self.node._replace(id=self.admission.node, cluster=self.admission.group)
        if self.admission.expires is not None:
            # A timer does not accept every number, and no stream lasts longer than twice the age.
            left = min(self.admission.expires - time.time(), self._host.limits.age_seconds * 2)
            self._after(max(left, 0.0), lambda: self.reject(grpc.StatusCode.UNAUTHENTICATED, "the proof has expired"))
        self.fallback = at_start(self._host.store, self.group, snapshot)
        self._machine = self._variant.stream(
            snapshot,
            self._host.shared,
            self._host.store.earlier_streams(self.group),
            empty_is_all=not self.node.user_agent.startswith("gRPC"),
        )
        return self._machine

    def _queue_and_write(self, machine: Stream[RequestT], responses: list[Response]) -> None:
        self._queue(machine, responses)
        if responses or self._end:
            # Most acknowledgements of clients cause no response.
            self.write()

    def _queue(self, machine: Stream[RequestT], responses: list[Response]) -> None:
        """Queue responses, pass on the events, and start or stop the timer of a wait."""
        if responses:
            self._outbox.extend(responses)
            if len(self._outbox) >= OUTBOX and self._room is None:
                self._room = asyncio.get_running_loop().create_future()
        events = machine.take_events()
        if events:
            self._host.handle_events(self, events)
        wait = machine.waits_for
        if wait != self._wait:
            if self._wait_timer is not None:
                self._wait_timer.cancel()
                self._wait_timer = None
            self._wait = wait
            if wait is not None:
                limits = self._host.limits
                seconds = limits.handover_seconds if wait.handover else limits.patience_seconds
                self._wait_timer = asyncio.get_running_loop().call_later(seconds, self._end_wait)

    def _end_wait(self) -> None:
        self._wait_timer = self._wait = None
        if self._machine is not None:
            self._offer_waiting(self._machine)
            self._queue_and_write(self._machine, self._machine.end_wait())

    def _reject_if_silent(self, due: float) -> None:
        if self._machine is not None:
            return
        loop, limit = asyncio.get_running_loop(), self._host.limits.first_request_seconds
        if loop.time() - due > LATE_SECONDS:
            # The server is overloaded. The request may have arrived, and may not have been handled yet.
            later = loop.time() + limit
            self._after(limit, lambda: self._reject_if_silent(later))
            return
        self._failure = StreamRejectedError(grpc.StatusCode.DEADLINE_EXCEEDED, "no request came")
        self.write()

    def _cut(self) -> None:
        """End the stream of a client that sends no ACK, or does not even read.

        A client that reads receives a status. While a read is in progress, the end of the task does not end the call,
        and without the status the client would wait for pushes in vain.
        """
        if not self._busy:
            self._failure = self._failure or StreamRejectedError(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer came")
            self.write()
        elif self._task is not None:
            self._task.cancel()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, action))


AnyConnection = Connection[SotwRequest] | Connection[DeltaRequest]


def known_type(type_url: str) -> str:
    """The type URL as a label of metrics. Clients may choose any type URL, so all unknown ones are counted as one."""
    return type_url if type_url in ORDER else "other"
