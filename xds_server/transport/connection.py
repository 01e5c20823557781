"""One open stream: bytes to the state machine and back, one writer and one reader, neither of which waits for others.

A request is heard as soon as it is there, and its answers go out before any push. A snapshot that arrives while the
client is slow to read replaces the one that was waiting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc  # type: ignore[import-untyped]

from xds_server.limits.client_memory import Meter
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.events import Accepted, Completed, Refused
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.wire import Node, ProtocolError, TooMuchError, parse_delta, parse_sotw
from xds_server.resources.types import ORDER, short
from xds_server.transport.client import Admission, Caller, ClientStatus
from xds_server.transport.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.stream import Stream, Wait
    from xds_server.protocol.wire import DeltaRequest, Response, SotwRequest
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.server import XdsServer

LOG: Final = logging.getLogger("xds_server")
BEHIND_SECONDS: Final = 0.25
"""A server whose timers are so late has more to do than it can."""
LARGE: Final = 16 << 10
"""A request of so many bytes is followed by a pause: hardly any client has so many names to ask for."""
MANY: Final = 1_000
"""So are all requests of a client that asks for so many names, or said that it had them: to add one to them takes as
long as to hear them all."""
OUTBOX: Final = 64
"""Responses that wait to be written before no more requests are read."""

LOGGED: Final = 5
"""Refusals of one version of a type by one client that are logged. All are counted, and the last is shown."""
LOGGED_WORDS: Final = 500
"""Characters of a refusal in the log; the status has more of them."""
REFUSAL_SECONDS: Final = 5.0
"""How long a client that reads nothing may keep the stream that was refused to it."""


class Variant(NamedTuple):
    """State of the world or delta."""

    name: str
    parse: Any
    stream: Any


SOTW: Final = Variant("sotw", parse_sotw, SotwStream)
DELTA: Final = Variant("delta", parse_delta, DeltaStream)


class RefusedStreamError(Exception):
    """The stream ends with this gRPC status."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Connection(Writer):
    """See the module. Everything runs on the loop's thread."""

    def __init__(self, server: XdsServer, context: Any, variant: Variant) -> None:
        super().__init__(context)
        self._server = server
        self._variant = variant
        self._outbox: list[Response] = []
        """No `deque`: each takes 760 bytes when it is empty, and mostly it is."""
        self._over = asyncio.get_running_loop().create_future()
        """Done when nothing is being written and nothing more will be."""
        self._room: asyncio.Future[None] | None = None
        """Where there is no room in the outbox: done when there is."""
        self._offered: Snapshot | None = None
        self._machine: Any = None
        self._timers: list[asyncio.TimerHandle] = []
        self._waits: Wait | None = None
        self._patience: asyncio.TimerHandle | None = None
        """For what it waits for now."""
        self._logged: dict[str, tuple[str, int]] = {}
        """By type, which version's refusals were logged last, and how many."""
        self.meter = Meter()
        self._end = ""
        self._left = False
        self._failure: BaseException | None = None
        self._task = asyncio.current_task()
        self.admission = Admission("")
        self.caller: Caller | None = None
        self.since = time.time()
        self.began = asyncio.get_running_loop().time()
        self.node = Node("", "", "")
        self.peer: str = context.peer()

    @property
    def group(self) -> str:
        return self.admission.group

    @property
    def machine(self) -> Stream | None:
        """The conversation, once it has begun: to be looked at."""
        machine: Stream | None = self._machine
        return machine

    @property
    def acknowledged(self) -> str:
        """Version of the last snapshot of which its client acknowledged all that it can use; empty before that, and as
        long as it is led back to that from another one."""
        machine, wanted = self._machine, self._server.store.current(self.group)
        if machine is None or machine.completed is None:
            return ""
        version = str(machine.completed.version)
        return "" if wanted is not None and wanted.version == version and machine.changing else version

    @property
    def in_sync(self) -> bool:
        """Whether its client has acknowledged what it is to have, and has not refused anything since."""
        machine = self._machine
        if machine is None or machine.completed is None:
            return False
        # As `acknowledged` and `refuses` say, with half the work: it is asked twice for each push to each client.
        wanted = self._server.store.current(self.admission.group)
        return bool(
            wanted is not None
            and wanted.version == machine.completed.version
            and not machine.changing
            and not machine.refuses
        )

    @property
    def refuses(self) -> bool:
        """Whether its client has refused something that it has not taken or given up since."""
        return self._machine is not None and bool(self._machine.refuses)

    @property
    def fresh(self) -> bool:
        """Whether its client had nothing when the stream began."""
        return self._machine is not None and bool(self._machine.fresh)

    @property
    def unreferenced(self) -> Mapping[str, frozenset[str]]:
        """What its client subscribes to for its filter chains, and no resource of the group's snapshot refers to."""
        wanted = self._server.store.current(self.group)
        return {} if self._machine is None or wanted is None else self._machine.unreferenced(wanted)

    @property
    def status(self) -> ClientStatus:
        machine, wanted = self.machine, self._server.store.current(self.group)
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

    def offer(self, snapshot: Snapshot) -> None:
        """A newer snapshot, to be sent when the client is ready for it. What there is to say waits for `write`."""
        if self._machine is None or self._end or self._outbox or self._busy:
            self._offered = snapshot
            return
        try:
            self._note(self._machine.publish(snapshot))
        except Exception as error:
            self._broke(error)  # it is no other client's business

    def end(self, why: str, grace: float) -> None:
        """End the stream once the client owes no answer, or after the grace in any case."""
        if not self._end:
            self._end = why
            self._after(grace, self._cut)
            self.write()

    def refuse(self, code: grpc.StatusCode, message: str) -> None:
        """End the stream at once, whatever its client was still to get."""
        self._failure = self._failure or RefusedStreamError(code, message)
        self._end = self._end or "refused"
        self._after(REFUSAL_SECONDS, self._cut)
        self.write()

    def forget(self) -> None:
        """Let go of what it has heard. The reason for its end knows in which functions that came up, and these know the
        stream: all of it, and a request of megabytes, would else be kept until somebody searches for such circles."""
        if self._machine is not None:
            self._machine.leave()
        self._machine = self._offered = self._failure = None
        self._outbox.clear()

    async def run(self) -> str:
        """Talk until the stream ends; why it did. Raises `RefusedStreamError`."""
        limits = self._server.limits
        self._after(limits.first_request_seconds, self._give_up_if_silent, self.began + limits.first_request_seconds)
        self._after(limits.random_age(), lambda: self.end("age", limits.age_grace_seconds))
        self._reader = asyncio.create_task(self._read())
        try:
            await self._over
            if self._failure is not None:
                raise self._failure
            return self._end
        finally:
            for timer in [*self._timers, *([self._patience] if self._patience else [])]:
                timer.cancel()
            self._server.left(self)
            # The reader is not cancelled: gRPC never frees what belongs to a read that is (grpc/grpc#43360). It ends by
            # itself, or with the call, which ends any read that is in hand.
            self._left = True
            self._make_room()

    def _next(self) -> bytes | None:
        """What is to be written next. If that is nothing, the stream may be over."""
        while self._failure is None and not self._over.done():
            if self._outbox:
                response = self._outbox.pop(0)
                if len(self._outbox) < OUTBOX:
                    self._make_room()
                data = response.data
                kind = known_type(response.type_url)
                self._server.metrics.pushes[kind] += 1
                self._server.metrics.pushed_bytes[kind] += len(data)
                return data
            if self._offered is None or self._machine is None or self._end:
                break
            offered, self._offered = self._offered, None
            self._note(self._machine.publish(offered))
        rests = self._end == "closed" or (self._end and (self._machine is None or self._machine.idle))
        if (rests or self._failure is not None) and not self._over.done():
            self._over.set_result(None)
        return None

    def _broke(self, error: BaseException) -> None:
        """Writing failed: because the client has gone, or else there is something wrong here."""
        if isinstance(error, grpc.aio.BaseError):
            self._outbox.clear()
            self._end = "closed"
        else:
            self._failure = self._failure or error
        self.write()

    async def _read(self) -> None:
        try:
            while not self._left:
                if self._room is not None:
                    await self._room
                    continue
                data = await self._context.read()
                if data is grpc.aio.EOF or self._left:
                    self._end = self._end or "closed"
                    return
                if len(data) < LARGE and (self._machine is None or self._machine.names < MANY):
                    self._hear(self._variant.parse(data))
                    continue
                began = time.thread_time()
                self._hear(self._variant.parse(data))
                await self._server.let_others_first(time.thread_time() - began)
        except ProtocolError as error:
            self._failure = RefusedStreamError(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TooMuchError as error:
            self._failure = RefusedStreamError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except RefusedStreamError as error:
            self._failure = error
        except Exception as error:
            # Whatever it is, it must end the stream: a reader that dies in silence would leave it open for ever.
            self._failure = error
        finally:
            if not self._left:
                self.write()

    def _make_room(self) -> None:
        if self._room is not None:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None

    def _hear(self, request: SotwRequest | DeltaRequest) -> None:
        if self._machine is None:
            self._begin(request)
        self._server.metrics.requests[known_type(request.type_url)] += 1
        responses = self._machine.receive(request)
        more = self.meter.heard(self._machine, request, self._outbox)
        if more:
            self._server.holds(self, more)
        self._say(responses)

    def _begin(self, request: SotwRequest | DeltaRequest) -> None:
        if not request.type_url:
            raise ProtocolError("the request has no type URL")
        self.node = request.node or self.node
        metadata = tuple((key, value) for key, value in self._context.invocation_metadata() or ())
        self.caller = Caller(self.node, self.peer, self._auth(), metadata)
        self.admission, snapshot = self._server.admit(self, self.caller)
        if self.admission.expires is not None:
            # Longer than a stream may last is as good as for ever, and a timer takes no number of any size.
            left = min(self.admission.expires - time.time(), self._server.limits.age_seconds * 2)
            self._after(max(left, 0.0), lambda: self.refuse(grpc.StatusCode.UNAUTHENTICATED, "the proof has expired"))
        self._machine = self._variant.stream(
            snapshot,
            self._server.shared,
            self._server.store.past(self.group),
            empty_is_all=not self.node.user_agent.startswith("gRPC"),
        )

    def _auth(self) -> Mapping[str, tuple[bytes, ...]]:
        return {key: tuple(values) for key, values in self._context.auth_context().items()}

    def _say(self, responses: list[Response]) -> None:
        self._note(responses)
        if responses or self._end:
            # Most answers of clients are no reason to look for something to write.
            self.write()

    def _note(self, responses: list[Response]) -> None:
        if responses:
            self._outbox.extend(responses)
            if len(self._outbox) >= OUTBOX and self._room is None:
                self._room = asyncio.get_running_loop().create_future()
        events = self._machine.take_events()
        for event in events:
            if isinstance(event, Refused):
                self._log(event)
                self._server.refused(self, event)
            elif isinstance(event, Accepted):
                self._server.metrics.acknowledgements[known_type(event.type_url)] += 1
            elif isinstance(event, Completed):
                self._server.completed(self, event)
            else:
                self._server.took(self, event)
        if events:
            self._server.registry.note(self)
        waits = self._machine.waits_for
        if waits != self._waits:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
            self._waits = waits
            if waits is not None:
                limits = self._server.limits
                seconds = limits.lead_seconds if waits.lead else limits.patience_seconds
                self._patience = asyncio.get_running_loop().call_later(seconds, self._lose_patience)

    def _log(self, event: Refused) -> None:
        """A client that asks for what it refused is sent it, and refuses it, as often as it likes."""
        version, times = self._logged.get(event.type_url, ("", 0))
        times = times + 1 if version == event.version else 1
        self._logged[event.type_url] = event.version, times
        if times <= LOGGED:
            words = event.error.rstrip()
            said = {
                "node": self.node.id,
                "service": self.group,
                "type": short(event.type_url),
                "version": event.version,
                "said": words if len(words) <= LOGGED_WORDS else words[:LOGGED_WORDS] + " ...",
            }
            LOG.warning("refused", extra=said)

    def _lose_patience(self) -> None:
        self._patience = None
        self._say(self._machine.wait_no_longer())

    def _give_up_if_silent(self, when: float) -> None:
        if self._machine is not None:
            return
        loop, limit = asyncio.get_running_loop(), self._server.limits.first_request_seconds
        if loop.time() - when > BEHIND_SECONDS:
            # In a storm of clients the request may be here, and not have been its turn yet.
            self._after(limit, self._give_up_if_silent, loop.time() + limit)
            return
        self._failure = RefusedStreamError(grpc.StatusCode.DEADLINE_EXCEEDED, "no request came")
        self.write()

    def _cut(self) -> None:
        """The client does not answer, or does not even read. One that reads is told: the end of the task alone does not
        end the call, as a read is in hand, and it would wait here for pushes that nobody sends."""
        if not self._busy:
            self._failure = self._failure or RefusedStreamError(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer came")
            self.write()
        elif self._task is not None:
            self._task.cancel()

    def _after(self, seconds: float, what: Any, *arguments: Any) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, what, *arguments))


def known_type(type_url: str) -> str:
    """Clients may ask for whatever they like, but not fill the metrics with it."""
    return type_url if type_url in ORDER else "other"
