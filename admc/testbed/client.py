"""Clients that choose their source address and open one connection for each request.

At ingress an ADM tells callers apart by their address, so a client must be able to send as any service. Probes compare
counters with the number of requests sent, so no client retries, pools connections or follows redirects. The client of
gRPC uses the `h2` library, since grpcio can neither choose its source address nor switch off transparent retries.
"""

from __future__ import annotations

import errno
import http.client
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc  # type: ignore[import-untyped]
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

from admc.testbed.echo import Seen, parse

FRAME_HEAD = 9
"""Bytes before the payload of an HTTP/2 frame."""
GOAWAY = 7
"""The type of the frame."""
EXHAUSTED = frozenset({errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
CONNECT = "CONNECT"
"""The method with an authority as its target instead of a path."""
GRPC_NAMES: dict[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Target:
    """Source and destination of a call: the addresses of its connection, and the `authority` that the client sends."""

    source: str
    address: str
    port: int
    authority: str
    dial: Callable[[float], socket.socket] | None = None
    """Opens the connection, with a timeout in seconds. None: `open` makes a plain TCP connection from `source`."""

    def open(self, timeout: float) -> socket.socket:
        """A new connection."""
        if self.dial is not None:
            return self.dial(timeout)
        return socket.create_connection((self.address, self.port), timeout, (self.source, 0))


@dataclass(frozen=True, slots=True)
class Request:
    method: str = "GET"
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def with_headers(self, *headers: tuple[str, str]) -> Request:
        return Request(self.method, self.path, (*self.headers, *headers), self.body)

    def host(self, target: Target) -> str:
        """Return the authority to send: the header `host`, else the authority of the target."""
        return next((value for name, value in self.headers if name.lower() == "host"), target.authority)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `status` is an HTTP status, the code of a gRPC call, or 200 for a TCP echo; it is None if none was
    received. `error` is then the cause; it is also the message of a gRPC call."""

    status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    seconds: float = 0.0
    error: str = ""
    grpc: bool = False
    exhausted: bool = False
    """This machine had no port or file descriptor for the connection, so the error is not one of the other end."""

    @property
    def ok(self) -> bool:
        return self.status == (0 if self.grpc else 200)

    @property
    def label(self) -> str:
        """The status as text: `429`, `RESOURCE_EXHAUSTED`, `connection closed`."""
        if self.status is None:
            return self.error
        return GRPC_NAMES.get(self.status, str(self.status)) if self.grpc else str(self.status)

    def header(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.headers if key.lower() == name.lower())

    @property
    def seen(self) -> Seen | None:
        """The request as the service received it; None if the body does not describe one, as when a proxy answered
        instead of the service, or nothing did."""
        try:
            return parse(self.body)
        except (ValueError, TypeError, KeyError):
            return None


def http1(target: Target, request: Request, timeout: float = 10.0) -> Reply:
    """Send one HTTP/1.1 request on a new connection."""
    connection = http.client.HTTPConnection(target.address, target.port, timeout=timeout)
    started = time.monotonic()
    try:
        connection.sock = target.open(timeout)
        request_target = target.authority if request.method == CONNECT else request.path
        connection.putrequest(request.method, request_target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", request.host(target))
        for name, value in request.headers:
            if name.lower() != "host":
                connection.putheader(name, value)
        if request.body:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body or None)
        response = connection.getresponse()
        body = response.read()
        return Reply(response.status, tuple(response.getheaders()), body, time.monotonic() - started)
    except (OSError, http.client.HTTPException) as error:
        return _broken(error, started)
    finally:
        connection.close()


def h2c(target: Target, request: Request, timeout: float = 10.0) -> Reply:
    """Send one HTTP/2 request without TLS, by prior knowledge."""
    return _http2(target, request, (), timeout, is_grpc=False)


def grpc_call(target: Target, request: Request, timeout: float = 10.0) -> Reply:
    """Make one unary gRPC call. `status` of the reply is the gRPC code."""
    framed = b"\0" + struct.pack(">I", len(request.body)) + request.body
    asked = Request("POST", request.path, request.headers, framed)
    return _http2(target, asked, (("content-type", "application/grpc"), ("te", "trailers")), timeout, is_grpc=True)


def tcp(target: Target, timeout: float = 10.0) -> Reply:
    """Open a connection, read the greeting, send a line and read it back. `status` is 200 if all of this succeeds."""
    started = time.monotonic()
    word = b"are you there\n"
    try:
        with target.open(timeout) as connection:
            with connection.makefile("rb") as reader:
                greeting = reader.readline()
                if not greeting:
                    return Reply(None, seconds=time.monotonic() - started, error="connection closed")
                connection.sendall(word)
                answer = reader.readline()
            if answer != word:
                return Reply(None, body=greeting, seconds=time.monotonic() - started, error="connection closed")
            return Reply(200, (), greeting, time.monotonic() - started)
    except OSError as error:
        return _broken(error, started)


def send(protocol: str, target: Target, request: Request, timeout: float = 10.0) -> Reply:
    """Send one request in a protocol: `tcp`, `http` (which is HTTP/1.1), `h2c` or `grpc`."""
    if protocol == "tcp":
        return tcp(target, timeout)
    clients = {"http": http1, "h2c": h2c, "grpc": grpc_call}
    return clients[protocol](target, request, timeout)


def _broken(error: Exception, started: float, *, is_grpc: bool = False) -> Reply:
    """Return the reply for a connection that broke."""
    exhausted = isinstance(error, OSError) and error.errno in EXHAUSTED
    seconds = time.monotonic() - started
    return Reply(None, seconds=seconds, error=_cause(error), grpc=is_grpc, exhausted=exhausted)


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionError | http.client.RemoteDisconnected):
        return "connection closed"
    return str(error) or type(error).__name__


class Frames:
    """What arrives on an HTTP/2 connection, as whole frames without GOAWAY.

    `h2` accepts no frame after a GOAWAY, but requests that were sent before it are still answered.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.answered: int | None = None
        """The last stream that is answered, once a GOAWAY has named one."""

    def add(self, data: bytes) -> bytes:
        """Return the whole frames that end in `data`."""
        frames, data = [], self._rest + data
        while len(data) >= FRAME_HEAD and len(data) >= (size := FRAME_HEAD + int.from_bytes(data[:3], "big")):
            if data[3] == GOAWAY:
                self.answered = int.from_bytes(data[FRAME_HEAD : FRAME_HEAD + 4], "big") & 0x7FFFFFFF
            else:
                frames.append(data[:size])
            data = data[size:]
        self._rest = data
        return b"".join(frames)


def _http2(
    target: Target, request: Request, extra: tuple[tuple[str, str], ...], timeout: float, *, is_grpc: bool
) -> Reply:
    started = time.monotonic()
    try:
        with target.open(timeout) as connection:
            headers, body, reset = _exchange(connection, target, request, extra, started + timeout)
    except (OSError, ProtocolError) as error:
        return _broken(error, started, is_grpc=is_grpc)
    seconds = time.monotonic() - started
    named = dict(headers)
    if not is_grpc:
        status = int(named[":status"]) if ":status" in named and not reset else None
        return Reply(status, tuple(headers), body, seconds, "" if status else "stream reset")
    if "grpc-status" not in named:
        why = "stream reset" if reset else f"HTTP {named.get(':status', 'answer')} without a gRPC status"
        return Reply(None, tuple(headers), body, seconds, why, grpc=True)
    return Reply(int(named["grpc-status"]), tuple(headers), body[5:], seconds, named.get("grpc-message", ""), grpc=True)


def _exchange(
    connection: socket.socket, target: Target, request: Request, extra: tuple[tuple[str, str], ...], deadline: float
) -> tuple[list[tuple[str, str]], bytes, bool]:
    """Return headers and trailers, the body, and whether the stream was reset before any header."""
    h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    h2.initiate_connection()
    where = [] if request.method == CONNECT else [(":scheme", "http"), (":path", request.path)]
    pseudo = [(":method", request.method), *where, (":authority", request.host(target))]
    others = ((name.lower(), value) for name, value in request.headers if name.lower() != "host")
    fields = [*pseudo, *extra, *others]
    h2.send_headers(1, fields, end_stream=not request.body)
    rest = request.body
    headers: list[tuple[str, str]] = []
    body = bytearray()
    frames = Frames()
    while True:
        while rest and (room := min(h2.local_flow_control_window(1), h2.max_outbound_frame_size)) > 0:
            part, rest = rest[:room], rest[room:]
            h2.send_data(1, part, end_stream=not rest)
        connection.sendall(h2.data_to_send())
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        data = connection.recv(65536)
        if not data:
            raise ConnectionResetError
        whole = frames.add(data)
        if frames.answered == 0:
            raise ConnectionResetError
        for event in h2.receive_data(whole):
            if isinstance(event, ResponseReceived | TrailersReceived):
                headers += [(str(name), str(value)) for name, value in event.headers or ()]
            elif isinstance(event, DataReceived):
                body += event.data or b""
                h2.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            elif isinstance(event, StreamEnded):
                return headers, bytes(body), False
            elif isinstance(event, StreamReset):
                # A server may answer, and then reset a request whose body it does not read.
                return headers, bytes(body), not headers
