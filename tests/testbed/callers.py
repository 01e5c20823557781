"""Callers that send requests without end, each in a thread, on connections as applications have them.

    RequestSpec -> Caller -> [Request]

A caller records for each request when its connection was opened, when the request began and ended, and the response. If
a kept connection turns out to be closed before a response begins, a client sends its request again on another one. Such
a request is recorded as `lost`: it must not have arrived anywhere.
"""

from __future__ import annotations

import http.client
import itertools
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

from admc.testbed.client import Frames

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Dial = Callable[[], socket.socket]
"""Opens a connection of a caller."""
SECONDS = 45.0
MESSAGE = b"\0\0\0\0\0"
"""An empty message of gRPC."""


class RequestSpec(NamedTuple):
    """A request that a caller repeats."""

    source: str
    destination: str
    protocol: str = "http"
    """`http`, `h2c`, `grpc` or `tcp`."""
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()


class Response(NamedTuple):
    status: int | None
    """Of HTTP, or of gRPC (0 is success); for tcp 200, or None without an echo."""
    headers: tuple[tuple[str, str], ...] = ()
    last: bool = False
    """The connection takes no more requests."""
    reason: str = ""
    """The body of a 503."""


class Request(NamedTuple):
    """One request and its result."""

    name: str
    """Its `x-echo-id`."""
    spec: RequestSpec
    opened: float
    """When its connection was opened."""
    began: float
    ended: float
    status: int | None
    answer: tuple[tuple[str, str], ...] = ()
    """Headers of the response."""
    error: str = ""
    lost: bool = False
    ends: frozenset[str] = frozenset()
    """The proxies that it may have passed, as outages name them."""

    def header(self, name: str) -> tuple[str, ...]:
        """The values of a header of the response."""
        return tuple(value for key, value in self.answer if key.lower() == name)


class Connection(Protocol):
    def send(self, spec: RequestSpec, name: str) -> Response: ...
    def close(self) -> None: ...


def http_connection(dial: Dial) -> http.client.HTTPConnection:
    """A connection for HTTP/1.1 over one that `dial` opens."""
    connection = http.client.HTTPConnection("cart", timeout=SECONDS)
    connection.sock = dial()
    connection.sock.settimeout(SECONDS)
    return connection


class Http1:
    def __init__(self, dial: Dial) -> None:
        self._inner = http_connection(dial)

    def send(self, spec: RequestSpec, name: str) -> Response:
        self._inner.request("GET", spec.path, headers={**dict(spec.headers), "x-echo-id": name})
        with self._inner.getresponse() as response:  # it may be cut in the middle
            body = response.read()
        reason = body.decode(errors="replace") if response.status == 503 else ""
        return Response(response.status, tuple(response.getheaders()), response.will_close, reason)

    def close(self) -> None:
        self._inner.close()


class Http2:
    """One request after the other until the other end sends GOAWAY; plain HTTP or gRPC."""

    def __init__(self, dial: Dial) -> None:
        self._wire = dial()
        self._wire.settimeout(SECONDS)
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._frames = Frames()

    def send(self, spec: RequestSpec, name: str) -> Response:
        stream = self._begin(spec, name)
        is_grpc = spec.protocol == "grpc"
        headers: list[tuple[str, str]] = []
        body = b""
        ended = False
        while not ended:
            data = self._wire.recv(65536)
            if not data:
                raise ConnectionResetError("closed")
            for event in self._h2.receive_data(self._frames.add(data)):
                if isinstance(event, ResponseReceived | TrailersReceived):
                    headers += [(str(key), str(value)) for key, value in event.headers or ()]
                elif isinstance(event, DataReceived):
                    self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                    body += event.data or b""
                elif isinstance(event, StreamReset):
                    raise ConnectionAbortedError(f"the stream was reset with {event.error_code}")
                ended = ended or isinstance(event, StreamEnded)
            self._wire.sendall(self._h2.data_to_send())
        status = dict(headers).get("grpc-status" if is_grpc else ":status")
        reason = body.decode(errors="replace") if status == "503" else ""
        last = self._frames.answered is not None
        return Response(None if status is None else int(status), tuple(headers), last, reason)

    def _begin(self, spec: RequestSpec, name: str) -> int:
        """Send the whole request; its stream."""
        h2, is_grpc = self._h2, spec.protocol == "grpc"
        stream = int(h2.get_next_available_stream_id())
        fields = [(":method", "POST" if is_grpc else "GET"), (":scheme", "http"), (":path", spec.path)]
        fields += [(":authority", "cart"), *spec.headers, ("x-echo-id", name)]
        if is_grpc:
            fields += [("content-type", "application/grpc"), ("te", "trailers")]
        h2.send_headers(stream, fields, end_stream=not is_grpc)
        if is_grpc:
            h2.send_data(stream, MESSAGE, end_stream=True)
        self._wire.sendall(h2.data_to_send())
        return stream

    def close(self) -> None:
        self._wire.close()


class Tcp:
    """A connection counts as a request. It succeeds if the destination sends its first line and returns another."""

    def __init__(self, dial: Dial) -> None:
        self._wire = dial()
        self._wire.settimeout(SECONDS)

    def send(self, _spec: RequestSpec, _name: str) -> Response:
        with self._wire.makefile("rwb") as stream:
            try:
                first = stream.readline()
                stream.write(b"word\n")
                stream.flush()
                echoed = stream.readline() == b"word\n"
            except ConnectionError:
                return Response(None, last=True)
        return Response(200 if first and echoed else None, last=True)

    def close(self) -> None:
        self._wire.close()


WIRES: dict[str, Callable[[Dial], Connection]] = {"http": Http1, "h2c": Http2, "grpc": Http2, "tcp": Tcp}
IDLE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""Errors of a client that sends a request on a connection which the other end has just closed."""


class Caller:
    """Repeats a few requests to one destination, one after the other, until its block ends."""

    _ids = itertools.count()

    def __init__(
        self,
        dial: Dial,
        specs: Sequence[RequestSpec],
        *,
        keep: bool,
        pause: float = 0.03,
        ends: Collection[str] = (),
    ) -> None:
        """`keep`: one connection for as long as the other end keeps it; else one for each request. `ends`: the names by
        which outages know the proxies in between, unless these are the names of the two services."""
        self._dial, self._specs, self._keep, self._pause = dial, specs, keep, pause
        self._ends = frozenset(ends or (specs[0].source, specs[0].destination))
        self._stop = threading.Event()
        self._opened = 0.0
        self.made: list[Request] = []
        self.connections = 0
        """How many were opened."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2 * SECONDS)
        assert not self._thread.is_alive()

    @property
    def answered(self) -> list[Request]:
        """All requests but those that were lost, which a client sends again."""
        return [request for request in self.made if not request.lost]

    def _run(self) -> None:
        connection: Connection | None = None
        for spec in itertools.cycle(self._specs):
            if self._stop.wait(self._pause):
                break
            connection = self._once(spec, connection)
        if connection is not None:
            connection.close()

    def _once(self, spec: RequestSpec, connection: Connection | None) -> Connection | None:
        """Send one request, on the given connection or on a new one; the connection if it is kept."""
        name, began, fresh = f"r{next(self._ids)}", time.monotonic(), connection is None
        try:
            if connection is None:
                self._opened = began
                connection = WIRES[spec.protocol](self._dial)
                self.connections += 1
            response = connection.send(spec, name)
        except (OSError, http.client.HTTPException, ProtocolError) as error:
            lost = not fresh and isinstance(error, IDLE)
            self._record(Request(name, spec, self._opened, began, time.monotonic(), None, (), repr(error), lost))
        else:
            ended = time.monotonic()
            status, headers, last, reason = response
            self._record(Request(name, spec, self._opened, began, ended, status, headers, reason))
            if self._keep and not last:
                return connection
        if connection is not None:
            connection.close()
        return None

    def _record(self, request: Request) -> None:
        self.made.append(request._replace(ends=self._ends))


def caller(dial: Dial, headers: Mapping[str, str], *, protocol: str = "http", keep: bool = True) -> Caller:
    """A caller that repeats one request, without much of a pause."""
    spec = RequestSpec("shop", "cart", protocol, "/", tuple(headers.items()))
    return Caller(dial, (spec,), keep=keep, pause=0.01)


def wait_for_answers(callers: Collection[Caller], count: int) -> None:
    """Wait until each caller has so many answers more."""
    wanted = {each: len(each.answered) + count for each in callers}
    deadline = time.monotonic() + 2 * SECONDS
    while any(len(each.answered) < least for each, least in wanted.items()):
        assert time.monotonic() < deadline, "callers get no answers"
        time.sleep(0.01)


def wait_for_workers(callers: Collection[Caller]) -> None:
    """Wait until the proxies' workers have taken over what proxies acknowledged before: until each caller has made two
    requests, one after the other, that began after this call."""
    wait_for_answers(callers, 3)  # one may be under way


def names_with_status(callers: Collection[Caller], status: int) -> list[str]:
    """The names of all requests of some callers, each of which must have this status."""
    requests = [request for each in callers for request in each.answered]
    others = [request for request in requests if request.status != status]
    assert others == [], others[:5]
    assert requests
    return [request.name for request in requests]
