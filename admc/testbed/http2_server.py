"""HTTP/2 without TLS for the echo services: the smallest server that the `h2` library makes possible.

aiohttp speaks HTTP/1 only, and a service with an `http` port may speak both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.exceptions import ProtocolError

from admc.testbed.failures import FailedError, Failure, fail

Handler = Callable[
    [str, str, tuple[tuple[str, str], ...], str, bytes], Awaitable[tuple[int, Sequence[tuple[str, str]], bytes]]
]
"""(method, path, headers, peer, body) -> (status, headers, body)."""


@dataclass
class Stream:
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytearray = field(default_factory=bytearray)
    rest: bytes = b""
    """The part of the answer that the flow-control window has not admitted yet."""


class H2Protocol(asyncio.Protocol):
    """One HTTP/2 connection; each request is answered by a task of its own."""

    _transport: asyncio.Transport

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._streams: dict[int, Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peer = transport.get_extra_info("peername")[0]
        self._connection.initiate_connection()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._connection.receive_data(data)
        except ProtocolError:
            self._flush()
            self._transport.close()
            return
        for event in events:
            if isinstance(event, RequestReceived):
                self._open(event)
            elif isinstance(event, DataReceived):
                self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if stream := self._streams.get(event.stream_id):
                    stream.body += event.data
            elif isinstance(event, StreamEnded):
                self._answer(event.stream_id)
            elif isinstance(event, StreamReset):
                self._streams.pop(event.stream_id, None)
            elif isinstance(event, WindowUpdated):
                for identity in [event.stream_id] if event.stream_id else list(self._streams):
                    self._push(identity)
        self._flush()

    def _open(self, event: RequestReceived) -> None:
        pairs = [(str(name), str(value)) for name, value in event.headers or ()]
        pseudo = {name: value for name, value in pairs if name.startswith(":")}
        headers = tuple(pair for pair in pairs if not pair[0].startswith(":"))
        if ":authority" in pseudo:
            headers = (("host", pseudo[":authority"]), *headers)
        self._streams[event.stream_id] = Stream(pseudo.get(":method", ""), pseudo.get(":path", ""), headers)

    def _answer(self, identity: int) -> None:
        stream = self._streams.get(identity)
        if stream is None:
            return

        async def answer() -> None:
            try:
                status, headers, body = await self._handler(
                    stream.method, stream.path, stream.headers, self._peer, bytes(stream.body)
                )
            except FailedError as failed:
                self._fail(identity, failed.failure)
                return
            if identity in self._streams:
                self._connection.send_headers(identity, [(":status", str(status)), *headers])
                stream.rest = body
                self._push(identity)
                self._flush()

        task = asyncio.get_running_loop().create_task(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail(self, identity: int, failure: Failure) -> None:
        if failure is not Failure.REFUSE:
            fail(self._transport, failure)
        elif identity in self._streams:
            del self._streams[identity]
            self._connection.reset_stream(identity, ErrorCodes.REFUSED_STREAM)
            self._flush()

    def _push(self, identity: int) -> None:
        """Send as much of an answer as the flow-control windows allow."""
        stream = self._streams.get(identity)
        while stream and stream.rest:
            room = min(self._connection.local_flow_control_window(identity), self._connection.max_outbound_frame_size)
            if room <= 0:
                return
            part, stream.rest = stream.rest[:room], stream.rest[room:]
            self._connection.send_data(identity, part, end_stream=not stream.rest)
            if not stream.rest:
                del self._streams[identity]

    def _flush(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._connection.data_to_send())
