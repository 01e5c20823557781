"""A service that agrees to everything: it answers 200 to any method, at once, and reads on.

Many servers are like that (`net/http` of Go is): to them a CONNECT is a request like any other, and what a client sends
through the tunnel that it believes to have are their next requests. This one speaks HTTP/1.1 and HTTP/2 on one port.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived
from hpack import Decoder, Encoder

from tests.emitters.envoy.both_ends import OK
from tests.emitters.envoy.http2_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    RESET,
    frame,
    frames_until,
)

if TYPE_CHECKING:
    import socket

    from admc.testbed.client import Target

_PREFACE = PREFACE[:24]
_AGREED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
INSIDE = b"".join(b"GET /inside/%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(5))
"""Requests that a client sends through a tunnel."""


@dataclass
class Obliging:
    """`Obliging()` is a handler for `support.serving`; it keeps what it got, as `METHOD TARGET` (and the protocol)."""

    upgrades: bool = False
    """Agrees to upgrades of HTTP/1.1 as well, and then sends back what it gets."""
    seen: list[str] = field(default_factory=list)

    def __call__(self, connection: socket.socket) -> None:
        data = b""
        while len(data) < len(_PREFACE) and _PREFACE.startswith(data):
            part = connection.recv(65536)
            if not part:
                return
            data += part
        if data.startswith(_PREFACE):
            self._http_2(connection, data)
        else:
            self._http_1(connection, data)

    def _http_1(self, connection: socket.socket, data: bytes) -> None:
        while True:
            while b"\r\n\r\n" not in data:
                part = connection.recv(65536)
                if not part:
                    return
                data += part
            head, _, data = data.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            asked = fields.get("upgrade", "")
            self.seen.append(f"{lines[0].rpartition(' ')[0]} {asked}".strip())
            if not (asked and self.upgrades):
                connection.sendall(OK)
                continue
            connection.sendall(_AGREED + asked.encode() + b"\r\n\r\n" + data)
            while part := connection.recv(65536):
                connection.sendall(part)
            return

    def _http_2(self, connection: socket.socket, data: bytes) -> None:
        h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8", validate_inbound_headers=False))
        h2.local_settings.enable_connect_protocol = 1
        h2.initiate_connection()
        tunnels: set[int] = set()
        while data:
            for event in h2.receive_data(data):
                if isinstance(event, RequestReceived):
                    fields = {str(name): str(value) for name, value in event.headers or ()}
                    what = (fields.get(":method"), fields.get(":path") or fields.get(":authority"))
                    self.seen.append(" ".join(map(str, filter(None, (*what, fields.get(":protocol"))))))
                    if fields.get(":method") == "CONNECT":
                        tunnels.add(event.stream_id)
                    answer = [(":status", "200"), ("date", "x")]
                    h2.send_headers(event.stream_id, answer, end_stream=event.stream_id not in tunnels)
                elif isinstance(event, DataReceived) and event.data:
                    h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
                    if event.stream_id in tunnels:
                        h2.send_data(event.stream_id, event.data)
            connection.sendall(h2.data_to_send())
            data = connection.recv(65536)


class Answer(NamedTuple):
    """The status of an answer, and the data that came with it; without a status the stream was reset."""

    status: int | None
    data: bytes = b""


def ask_http_1(target: Target, head: bytes, then: bytes = INSIDE) -> Answer:
    """Send the head of a request, and once there is an answer what a client has for its tunnel; what comes back within
    half a second, if the answer does not say that the connection ends."""
    with target.open(20) as connection:
        connection.sendall(head)
        answer = connection.recv(65536)
        with contextlib.suppress(OSError):
            connection.sendall(then)
            connection.settimeout(0.5)
            while b"connection: close" not in answer and (part := connection.recv(65536)):
                answer += part
        return Answer(int(answer.split()[1]) if answer else None, answer.partition(b"\r\n\r\n")[2])


def ask_http_2(target: Target, *fields: tuple[str, str], then: bytes = INSIDE) -> Answer:
    """Open a stream that stays open, and send `then` once there is a 200; up to the end of the stream, or an echo."""
    status: list[int] = []
    body = bytearray()

    def read(kind: int, stream: int, rest: bytes) -> bool:
        flags, payload = rest[0], rest[1:]
        if stream != 1:
            return False
        if kind == HEADERS and not status:
            status.append(int(dict(Decoder().decode(payload, raw=True))[b":status"]))
            if status == [200]:
                connection.sendall(frame(DATA, 0, 1, then))
        elif kind == DATA:
            body.extend(payload)
        return kind == RESET or (kind in (HEADERS, DATA) and bool(flags & END_STREAM)) or body == then

    with target.open(20) as connection:
        connection.sendall(PREFACE + frame(HEADERS, END_HEADERS, 1, Encoder().encode(fields)))
        frames_until(connection, read)
    return Answer(status[0] if status else None, bytes(body))


def extended(protocol: str) -> tuple[tuple[str, str], ...]:
    """The fields of an extended CONNECT (RFC 8441)."""
    path = (":path", "/chat")
    return ((":method", "CONNECT"), (":protocol", protocol), (":scheme", "http"), path, (":authority", "back"))
