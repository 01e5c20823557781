"""Callers that never stop: each is one process of an application, in a thread, with connections as applications have.

What is kept of a request is when its connection was opened, when it began and ended, and what came back. A kept
connection that turns out to be closed before an answer began is what every client asks again after; such a request is
kept as `lost`, since it must not have arrived anywhere.
"""

from __future__ import annotations

import http.client
import itertools
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tests.serve.traffic.programs import Ask

Dial = Callable[[], socket.socket]
SECONDS = 45.0
GOAWAY = 7
"""The type of the frame."""
MESSAGE = b"\0\0\0\0\0"
"""An empty message of gRPC."""


class Reply(NamedTuple):
    status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    last: bool = False
    """The connection takes no more requests."""
    why: str = ""
    """What a proxy says for its 503."""


class Request(NamedTuple):
    """What came of one request."""

    name: str
    """Its `x-echo-id`."""
    ask: Ask
    opened: float
    """When its connection was begun with."""
    began: float
    ended: float
    status: int | None
    answer: tuple[tuple[str, str], ...] = ()
    error: str = ""
    lost: bool = False
    ends: frozenset[str] = frozenset()
    """Whose proxies it may have met."""


class Connection(Protocol):
    def ask(self, ask: Ask, name: str) -> Reply: ...
    def close(self) -> None: ...


class Http1:
    def __init__(self, dial: Dial) -> None:
        self._inner = http.client.HTTPConnection("there", timeout=SECONDS)
        self._inner.sock = dial()
        self._inner.sock.settimeout(SECONDS)

    def ask(self, ask: Ask, name: str) -> Reply:
        self._inner.request("GET", ask.path, headers={**dict(ask.headers), "x-echo-id": name})
        response = self._inner.getresponse()
        body = response.read()
        why = body.decode(errors="replace") if response.status == 503 else ""
        return Reply(response.status, tuple(response.getheaders()), response.will_close, why)

    def close(self) -> None:
        self._inner.close()


class Http2:
    """One request after the other until the other end says goodbye; with gRPC's messages, or without."""

    def __init__(self, dial: Dial) -> None:
        self._wire = dial()
        self._wire.settimeout(SECONDS)
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._held = b""

    def ask(self, ask: Ask, name: str) -> Reply:
        h2, is_grpc = self._h2, ask.protocol == "grpc"
        stream = h2.get_next_available_stream_id()
        fields = [(":method", "POST" if is_grpc else "GET"), (":scheme", "http"), (":path", ask.path)]
        fields += [(":authority", "there"), *ask.headers, ("x-echo-id", name)]
        if is_grpc:
            fields += [("content-type", "application/grpc"), ("te", "trailers")]
        h2.send_headers(stream, fields, end_stream=not is_grpc)
        if is_grpc:
            h2.send_data(stream, MESSAGE, end_stream=True)
        self._wire.sendall(h2.data_to_send())
        headers: list[tuple[str, str]] = []
        body = b""
        ended = last = False
        while not ended:
            data = self._wire.recv(65536)
            if not data:
                raise ConnectionResetError("closed")
            whole, goodbye = self._frames(data)
            last = last or goodbye
            for event in h2.receive_data(whole):
                if isinstance(event, ResponseReceived | TrailersReceived):
                    headers += [(str(key), str(value)) for key, value in event.headers or ()]
                elif isinstance(event, DataReceived):
                    h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                    body += event.data or b""
                elif isinstance(event, StreamReset):
                    raise ConnectionAbortedError(f"the stream was reset with {event.error_code}")
                ended = ended or isinstance(event, StreamEnded)
            self._wire.sendall(h2.data_to_send())
        found = dict(headers).get("grpc-status" if is_grpc else ":status")
        why = body.decode(errors="replace") if found == "503" else ""
        return Reply(None if found is None else int(found), tuple(headers), last, why)

    def _frames(self, data: bytes) -> tuple[bytes, bool]:
        """Whole frames, without goodbyes: the library takes nothing after one, and what was asked before is answered
        all the same."""
        found, goodbye, data = [], False, self._held + data
        while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3], "big")):
            if data[3] == GOAWAY:
                goodbye = True
            else:
                found.append(data[:size])
            data = data[size:]
        self._held = data
        return b"".join(found), goodbye

    def close(self) -> None:
        self._wire.close()


class Tcp:
    """A connection that is a request: it is greeted, or it is not."""

    def __init__(self, dial: Dial) -> None:
        self._wire = dial()
        self._wire.settimeout(SECONDS)

    def ask(self, ask: Ask, name: str) -> Reply:
        with self._wire.makefile("rwb") as stream:
            try:
                greeted = stream.readline()
                stream.write(b"word\n")
                stream.flush()
                answered = stream.readline() == b"word\n"
            except ConnectionError:
                return Reply(None, last=True)
        return Reply(200 if greeted and answered else None, last=True)

    def close(self) -> None:
        self._wire.close()


WIRES: dict[str, Callable[[Dial], Connection]] = {"http": Http1, "h2c": Http2, "grpc": Http2, "tcp": Tcp}
IDLE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""What a client sees that asks on a connection which the other end has just closed."""


class Caller:
    """Makes the same few requests in turn, to one destination, until its block ends."""

    _ids = itertools.count()

    def __init__(
        self, dial: Dial, asks: Sequence[Ask], *, keep: bool, pause: float = 0.03, ends: Collection[str] = ()
    ) -> None:
        """`keep`: one connection for as long as the other end keeps it; else one for each request. `ends`: by which
        names outages know the proxies that it may meet, if not by their services'."""
        self._dial, self._asks, self._keep, self._pause = dial, asks, keep, pause
        self._ends = frozenset(ends or (asks[0].source, asks[0].destination))
        self._stop = threading.Event()
        self._opened = 0.0
        self.made: list[Request] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        connection: Connection | None = None
        for ask in itertools.cycle(self._asks):
            if self._stop.wait(self._pause):
                break
            connection = self._once(ask, connection)
        if connection is not None:
            connection.close()

    def _once(self, ask: Ask, connection: Connection | None) -> Connection | None:
        """Make one request, on a connection that is there or on a new one; what is left of it."""
        name, began, fresh = f"r{next(self._ids)}", time.monotonic(), connection is None
        try:
            if connection is None:
                self._opened = began
                connection = WIRES[ask.protocol](self._dial)
                self.connections += 1
            reply = connection.ask(ask, name)
        except (OSError, http.client.HTTPException, ProtocolError) as error:
            lost = not fresh and isinstance(error, IDLE)
            self._note(Request(name, ask, self._opened, began, time.monotonic(), None, (), repr(error), lost))
        else:
            ended = time.monotonic()
            self._note(Request(name, ask, self._opened, began, ended, reply.status, reply.headers, reply.why))
            if self._keep and not reply.last:
                return connection
        if connection is not None:
            connection.close()
        return None

    def _note(self, request: Request) -> None:
        self.made.append(request._replace(ends=self._ends))


def go_round(callers: Collection[Caller]) -> None:
    """Wait until each has made two requests from now on, one after the other: the workers that those met have taken
    over by then whatever their proxies had acknowledged before."""
    wanted = {caller: len(caller.made) + 3 for caller in callers}  # one may be under way
    deadline = time.monotonic() + 2 * SECONDS
    while any(len(caller.made) < count for caller, count in wanted.items()):
        assert time.monotonic() < deadline, "callers get no answers"
        time.sleep(0.01)
