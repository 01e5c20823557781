"""Callers that never stop: what comes of each of their requests or connections is noted while policies move."""

from __future__ import annotations

import http.client
import itertools
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

from tests.testbed.repeated import Repeated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Dial = Callable[[], socket.socket]
"""Opens a connection of a caller."""
SECONDS = 60.0
GOAWAY = 7
"""The type of the frame."""


def over(dial: Dial) -> http.client.HTTPConnection:
    """A connection for HTTP/1.1 over one that `dial` opens."""
    connection = http.client.HTTPConnection("cart", timeout=SECONDS / 2)
    connection.sock = dial()
    return connection


class Keeper(Repeated):
    """A caller that keeps its connection for as long as the other end does, and asks again and again."""

    _ids = itertools.count()

    def __init__(self, dial: Dial, headers: Mapping[str, str], pause: float = 0.01) -> None:
        super().__init__(pause)
        self._dial = dial
        self._headers = dict(headers)
        self._kept: http.client.HTTPConnection | None = None
        self.answers: list[tuple[str, int | None, str]] = []
        """Name of the request, status (None where there was no answer), and why there was none."""
        self.connections = 0

    def once(self) -> None:
        name = f"k{next(self._ids)}"
        fresh = self._kept is None
        try:
            if self._kept is None:
                self._kept = over(self._dial)
                self.connections += 1
            self._kept.request("GET", "/", headers={**self._headers, "x-echo-id": name})
            response = self._kept.getresponse()
            response.read()
            self.answers.append((name, response.status, ""))
            if response.will_close:
                self.let_go()
        except (OSError, http.client.HTTPException) as error:
            # A kept connection may be closed between two requests: then nothing has arrived, and one asks again.
            idle = isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError)
            if fresh or not idle:
                self.answers.append((name, None, repr(error)))
            self.let_go()

    def let_go(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = None


class Http2Keeper(Keeper):
    """The same over HTTP/2: one connection, one request after the other, until the other end says goodbye."""

    _wire: tuple[socket.socket, H2Connection] | None = None
    _pseudo: ClassVar = ((":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "cart"))
    _body: ClassVar = b""

    def once(self) -> None:
        name = f"k{next(self._ids)}"
        fresh = self._wire is None
        if self._wire is None:
            self._wire = self._dial(), H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
            self._wire[1].initiate_connection()
            self.connections += 1
        try:
            status, goodbye = self._ask(*self._wire, name)
            self.answers.append((name, status, ""))
        except (OSError, ProtocolError) as error:
            goodbye = True
            if fresh or not isinstance(error, ConnectionError):
                self.answers.append((name, None, repr(error)))
        if goodbye:
            self.let_go()

    def let_go(self) -> None:
        if self._wire is not None:
            self._wire[0].close()
        self._wire = None

    def _ask(self, wire: socket.socket, h2: H2Connection, name: str) -> tuple[int, bool]:
        """The status (that of gRPC where there is one), and whether the connection takes no more requests."""
        stream = h2.get_next_available_stream_id()
        sent = [*self._pseudo, *self._headers.items(), ("x-echo-id", name)]
        h2.send_headers(stream, sent, end_stream=not self._body)
        if self._body:
            h2.send_data(stream, self._body, end_stream=True)
        wire.sendall(h2.data_to_send())
        status, goodbye, ended, held = 0, False, False, b""
        while not ended:
            data = wire.recv(65536)
            if not data:
                raise ConnectionResetError("closed")
            frames, held = _frames(held + data)
            # The library takes nothing after a GOAWAY, and what was asked before it is still answered.
            goodbye = goodbye or any(frame[3] == GOAWAY for frame in frames)
            for event in h2.receive_data(b"".join(frame for frame in frames if frame[3] != GOAWAY)):
                if isinstance(event, ResponseReceived | TrailersReceived):
                    named = dict(event.headers)
                    status = int(named.get("grpc-status", named.get(":status", status)))
                elif isinstance(event, DataReceived):
                    h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                ended = ended or isinstance(event, StreamEnded | StreamReset)
            wire.sendall(h2.data_to_send())
        return status, goodbye


class GrpcKeeper(Http2Keeper):
    """The same by gRPC. A call is answered with its status, 0 where all is well."""

    _pseudo = ((":method", "POST"), (":scheme", "http"), (":path", "/cart.Cart/Add"), (":authority", "cart"))
    _body = bytes(5)

    def __init__(self, dial: Dial, headers: Mapping[str, str], pause: float = 0.01) -> None:
        super().__init__(dial, {"content-type": "application/grpc", "te": "trailers", **headers}, pause)


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole frames at the beginning of some bytes, and the rest."""
    found = []
    while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3], "big")):
        found.append(data[:size])
        data = data[size:]
    return found, data


class Answers(Repeated):
    """A caller that notes a header of its answers: on a connection that it keeps, or on new ones."""

    def __init__(self, dial: Dial, noted: str, headers: Mapping[str, str], *, keeps: bool = True) -> None:
        super().__init__(0.01)
        self._dial, self._noted, self._headers, self._keeps = dial, noted, dict(headers), keeps
        self._kept: http.client.HTTPConnection | None = None
        self.answers: list[tuple[int, tuple[str, ...]]] = []
        """Status, and the values of the header."""

    def once(self) -> None:
        if self._kept is None:
            self._kept = over(self._dial)
        self._kept.request("GET", "/", headers=self._headers)
        answer = self._kept.getresponse()
        answer.read()
        self.answers.append((answer.status, tuple(answer.headers.get_all(self._noted, ()))))
        if answer.will_close or not self._keeps:
            self.let_go()

    def let_go(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._kept = None


def more(callers: Sequence[Keeper | Answers], count: int) -> None:
    """Until each caller has had so many answers more."""
    wanted = [len(caller.answers) + count for caller in callers]
    until = time.monotonic() + SECONDS
    while any(len(caller.answers) < least for caller, least in zip(callers, wanted, strict=True)):
        assert time.monotonic() < until
        time.sleep(0.01)


def answered(callers: Sequence[Keeper], status: int) -> list[str]:
    """The names of all requests of some callers, which must all have been answered so."""
    answers = [answer for caller in callers for answer in caller.answers]
    odd = [answer for answer in answers if answer[1] != status]
    assert odd == [], odd[:5]
    assert answers
    return [name for name, _, _ in answers]
