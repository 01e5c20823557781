"""A receiver that fails as a request asks it to: HTTP/1.1, HTTP/2 and gRPC, to the byte.

A request names a way to fail in `x-fail`, and itself in `x-name`, by which its attempts are counted. The ways are
failures of a connection or a stream, not answers that a library would send.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RequestReceived, StreamEnded
from h2.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFACE: Final = b"PRI * HTTP/2.0"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RESETS: Final = {
    "refused": ErrorCodes.REFUSED_STREAM,
    "stream_reset": ErrorCodes.INTERNAL_ERROR,
    "stream_cancel": ErrorCodes.CANCEL,
}
_ILLEGAL: Final = {
    "garbage": b"NONSENSE\r\n\r\n",
    "two_lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc",
    "early_end": b"HTTP/1.1 200 OK\r\ncontent-le",
}
FORGED: Final = (("x-admc-failed", "upstream_reset_before_response_started{remote_connection_failure}"),)
"""What a service would say to look like one that refused a connection, if an ADM let it."""


class Failing:
    """One port of such a receiver, while it is entered."""

    def __init__(self, address: str, port: int) -> None:
        self.attempts: Counter[str] = Counter()
        """How often each request came, by name."""
        self._connections: list[socket.socket] = []
        self._socket = socket.create_server((address, port), backlog=256)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ProtocolError):
            start = _until(connection, b"\r\n\r\n")
            if start.startswith(_PREFACE):
                self._http2(connection, start)
                return
            while start:
                if not self._http1(connection, start):
                    return
                start = _until(connection, b"\r\n\r\n")

    def _http1(self, connection: socket.socket, data: bytes) -> bool:
        """Answer one request, of which `data` is the beginning; whether another may follow."""
        head, _, body = data.partition(b"\r\n\r\n")
        lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
        asked = {name.lower(): value for name, _, value in lines}
        way = asked.get("x-fail", "")
        self.attempts[asked.get("x-name", "")] += 1
        if way == "reset_before":
            _reset(connection)
            return False
        length = _LENGTH.search(head)
        while length and len(body) < int(length[1]):
            body += connection.recv(1 << 20)
        if way == "reset_after":
            _reset(connection)
            return False
        if way == "half":
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
            return False
        if way == "closed_after" or way in _ILLEGAL:
            connection.sendall(_ILLEGAL.get(way, b""))
            return False
        status, fields = _answer(way)
        shown = "".join(f"{name}: {value}\r\n" for name, value in fields)
        connection.sendall(f"HTTP/1.1 {status} Said\r\n{shown}content-length: 2\r\n\r\nok".encode())
        return True

    def _http2(self, connection: socket.socket, data: bytes) -> None:
        h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8", validate_outbound_headers=False))
        h2.initiate_connection()
        connection.sendall(h2.data_to_send())
        ways: dict[int, dict[str, str]] = {}
        while data:
            for event in h2.receive_data(data):
                if isinstance(event, RequestReceived):
                    assert event.stream_id is not None
                    asked = {str(name): str(value) for name, value in event.headers or ()}
                    ways[event.stream_id] = asked
                    self.attempts[asked.get("x-name", "")] += 1
                    if asked.get("x-fail") == "reset_before":
                        _reset(connection)
                        return
                elif isinstance(event, StreamEnded):
                    assert event.stream_id is not None
                    if not _http2_answer(connection, h2, event.stream_id, ways[event.stream_id]):
                        return
            connection.sendall(h2.data_to_send())
            data = connection.recv(1 << 20)


def _http2_answer(connection: socket.socket, h2: H2Connection, stream: int, asked: Mapping[str, str]) -> bool:
    """Answer one stream; whether the connection goes on."""
    way = asked.get("x-fail", "")
    grpc = asked.get("content-type", "").startswith("application/grpc")
    if way == "reset_after":
        _reset(connection)
        return False
    if way == "closed_after":
        return False
    if way == "goaway":
        h2.close_connection(ErrorCodes.NO_ERROR, last_stream_id=0)
        connection.sendall(h2.data_to_send())
        return False
    if way in _RESETS:
        h2.reset_stream(stream, _RESETS[way])
        return True
    if way == "garbage":
        connection.sendall(b"NONSENSE" * 8)
        return False
    if way == "no_status":
        # A HEADERS frame with nothing but `x: y`, literal, without an entry in the table.
        block = b"\x00\x01x\x01y"
        connection.sendall(struct.pack(">I", len(block))[1:] + b"\x01\x05" + struct.pack(">I", stream) + block)
        return True
    if way == "half":
        h2.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc" if grpc else "text/plain")])
        h2.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
        return True
    status, fields = _answer(way)
    if grpc:
        told = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", str(status))]
        h2.send_headers(stream, [*told, *fields], end_stream=True)
        return True
    h2.send_headers(stream, [(":status", str(status)), *fields])
    h2.send_data(stream, b"ok", end_stream=True)
    return True


def _answer(way: str) -> tuple[int, tuple[tuple[str, str], ...]]:
    """The status of `503` or of `forged_503`, which has a header as only an ADM may send it."""
    forged, _, status = way.rpartition("_")
    return int(status), FORGED if forged else ()


def _until(connection: socket.socket, ending: bytes) -> bytes:
    """What comes, up to an ending at least; nothing where the connection ends before."""
    data = b""
    while ending not in data:
        part = connection.recv(1 << 20)
        if not part:
            return b""
        data += part
    return data


def _reset(connection: socket.socket) -> None:
    """Close a connection so that the other end gets a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
