"""Echo services: they stand in for the services of an application, and show how policies changed a request.

    request -> [echo service] -> answer: a JSON description of the received request (`Seen`), and a `Record` of it

An `http` port speaks HTTP/1.1 and HTTP/2 without TLS. A `grpc` port answers every method of every service. A `tcp` port
greets with one line, and then returns the bytes that it receives.

A request can ask for another answer by its headers:

    x-echo-status    the HTTP status or the gRPC code
    x-echo-delay     seconds before the answer
    x-echo-header    `name=value`, a header of the response
    x-echo-body      bytes of padding in the body
    x-echo-fail      no answer (of an `http` port): `reset` of the connection, `refuse` of the stream (HTTP/2), or
                     `garble` (bytes that are not HTTP)
    x-echo-id        a name of the request, by which a service counts its attempts and copies

All but `x-echo-header` and `x-echo-id` may be lists with an item for each arrival: `x-echo-status: 503,200` fails the
first arrival at a service and answers all later ones. Arrivals are counted for each `x-echo-id`; all requests without
one are counted together.
"""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

import grpc  # type: ignore[import-untyped]
from aiohttp import web

from admc.testbed.failures import FailedError, Failure, fail
from admc.testbed.http2_server import H2Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

ID = "x-echo-id"
STATUS = "x-echo-status"
DELAY = "x-echo-delay"
HEADER = "x-echo-header"
BODY = "x-echo-body"
FAIL = "x-echo-fail"

MAX_DELAY = 30.0
MAX_BODY = 1 << 20
HTTP2_PREFACE = b"PRI"


@dataclass(frozen=True, slots=True)
class Seen:
    """One request (tcp: one connection) as a service received it."""

    service: str
    port: int
    protocol: str
    """`http/1.0`, `http/1.1`, `h2c`, `grpc` or `tcp`."""
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    """In the order and the case in which they arrived. The only pseudo header is `:authority` of `h2c`, as `host`."""
    peer: str
    body: int
    """Bytes of the request's body."""

    def header(self, name: str) -> tuple[str, ...]:
        """All values of a header, in order."""
        return tuple(value for key, value in self.headers if key.lower() == name.lower())


@dataclass
class Record:
    """The requests that reached the services, in order of arrival. Safe to use from several threads."""

    _seen: list[Seen] = field(default_factory=list)
    _arrivals: dict[tuple[str, str], int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, seen: Seen) -> int:
        """Add an arrival. Return how often a request of its `x-echo-id` has reached this service by now."""
        key = (seen.service, ",".join(seen.header(ID)))
        with self._lock:
            self._seen.append(seen)
            self._arrivals[key] = self._arrivals.get(key, 0) + 1
            return self._arrivals[key]

    def all(self) -> tuple[Seen, ...]:
        with self._lock:
            return tuple(self._seen)

    def of(self, identity: str) -> tuple[Seen, ...]:
        """Return every arrival of the request with this `x-echo-id`."""
        return tuple(seen for seen in self.all() if identity in seen.header(ID))


@dataclass(frozen=True, slots=True)
class RequestedAnswer:
    """The answer that a request asks for."""

    status: int | None
    delay: float
    headers: tuple[tuple[str, str], ...]
    padding: int
    failure: Failure | None

    @classmethod
    def of(cls, seen: Seen, arrival: int = 1) -> RequestedAnswer:
        """Return the answer that the n-th arrival of a request asks for: the n-th item of each list, or the last."""

        def item(name: str) -> str:
            values = ",".join(seen.header(name)).split(",")
            return values[min(arrival, len(values)) - 1]

        def number(name: str, most: float) -> float:
            value = item(name)
            try:
                return min(max(float(value), 0.0), most) if value else 0.0
            except ValueError:
                return 0.0

        status = int(number(STATUS, 999)) or None
        pairs = (value.partition("=") for value in seen.header(HEADER))
        headers = tuple((name, value) for name, _, value in pairs)
        failure = next((failure for failure in Failure if failure == item(FAIL)), None)
        return cls(status, number(DELAY, MAX_DELAY), headers, int(number(BODY, MAX_BODY)), failure)


def description(seen: Seen, padding: int = 0) -> bytes:
    """Return the body of an answer."""
    content: dict[str, Any] = asdict(seen)
    if padding:
        content["padding"] = "x" * padding
    return json.dumps(content).encode()


def parse(body: bytes) -> Seen:
    """Return the request that an answer's body describes. Raises ValueError, TypeError or KeyError for other bodies."""
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("not the description of a request")
    content.pop("padding", None)
    content["headers"] = tuple((str(name), str(value)) for name, value in content["headers"])
    return Seen(**content)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The socket of one port of a service: `address` and `listen`. `port` is the number that its callers use."""

    service: str
    port: int
    protocol: str
    address: str
    listen: int


class TakenError(Exception):
    """An echo service cannot listen at its address."""


class EchoServices:
    """All echo services of one application. One event loop in a thread serves http and tcp; gRPC has its threads."""

    def __init__(self, endpoints: Iterable[Endpoint], messages: Mapping[str, bytes] | None = None) -> None:
        """`messages` are answers by the path of a gRPC method. All other methods answer with a description. A call that
        asks for a status gets neither."""
        self.endpoints = tuple(endpoints)
        self._messages = messages or {}
        self.record = Record()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="echo", daemon=True)
        self._pool = ThreadPoolExecutor(max_workers=32, thread_name_prefix="echo-grpc")
        self._grpc: list[grpc.Server] = []
        self._stopping = threading.Event()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.BaseTransport] = set()

    def __enter__(self) -> EchoServices:
        self._thread.start()
        try:
            for endpoint in self.endpoints:
                if endpoint.protocol == "grpc":
                    self._start_grpc(endpoint)
                else:
                    asyncio.run_coroutine_threadsafe(self._listen(endpoint), self._loop).result(timeout=10)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping.set()
        for stopping in [server.stop(grace=0.2) for server in self._grpc]:
            stopping.wait(timeout=2)
        self._grpc.clear()
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)
        if not self._loop.is_closed():
            self._loop.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        for transport in list(self._connections):
            transport.abort()  # type: ignore[attr-defined]
        current = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not current]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self, endpoint: Endpoint) -> None:
        factory: Callable[[], asyncio.Protocol]
        if endpoint.protocol == "tcp":
            factory = lambda: TcpEcho(endpoint, self.record, self._connections)  # noqa: E731
        else:
            handler = web.Server(self._http1(endpoint), access_log=None)
            factory = lambda: HttpDoor(handler, self._http2(endpoint), self._connections)  # noqa: E731
        try:
            self._servers.append(await self._loop.create_server(factory, endpoint.address, endpoint.listen))
        except OSError as error:
            raise TakenError(_taken(endpoint, error)) from None

    def _http1(self, endpoint: Endpoint) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            body = await request.read()
            headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers)
            version = f"http/{request.version.major}.{request.version.minor}"
            peer = request.transport.get_extra_info("peername")[0] if request.transport else ""
            seen = Seen(
                endpoint.service, endpoint.port, version, request.method, request.raw_path, headers, peer, len(body)
            )
            requested = RequestedAnswer.of(seen, self.record.add(seen))
            await asyncio.sleep(requested.delay)
            if requested.failure is not None and request.transport is not None:
                fail(request.transport, requested.failure)
            response = web.Response(
                status=requested.status or 200,
                body=description(seen, requested.padding),
                content_type="application/json",
            )
            for name, value in requested.headers:
                response.headers.add(name, value)
            return response

        return handle

    def _http2(self, endpoint: Endpoint) -> Callable[[], asyncio.Protocol]:
        async def handle(
            method: str, path: str, headers: tuple[tuple[str, str], ...], peer: str, body: bytes
        ) -> tuple[int, Sequence[tuple[str, str]], bytes]:
            seen = Seen(endpoint.service, endpoint.port, "h2c", method, path, headers, peer, len(body))
            requested = RequestedAnswer.of(seen, self.record.add(seen))
            await asyncio.sleep(requested.delay)
            if requested.failure is not None:
                raise FailedError(requested.failure)
            fields = [
                ("content-type", "application/json"),
                *((name.lower(), value) for name, value in requested.headers),
            ]
            return requested.status or 200, fields, description(seen, requested.padding)

        return lambda: H2Protocol(handle)

    def _start_grpc(self, endpoint: Endpoint) -> None:
        server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((GrpcEcho(endpoint, self.record, self._stopping, self._messages),))
        try:
            server.add_insecure_port(f"{endpoint.address}:{endpoint.listen}")
        except RuntimeError as error:
            raise TakenError(_taken(endpoint, error)) from None
        server.start()
        self._grpc.append(server)


def _taken(endpoint: Endpoint, error: Exception) -> str:
    hint = "end the process that holds the port (often an earlier run) and try again"
    if isinstance(error, PermissionError):
        hint = "ports below 1024 need privileges here"
    place = f"{endpoint.address}:{endpoint.listen}"
    return f"the echo service of `{endpoint.service}` cannot listen on {place}: {error}; {hint}"


class HttpDoor(asyncio.Protocol):
    """Reads the first bytes of a connection, and then passes the connection to HTTP/1 or to HTTP/2."""

    _transport: asyncio.Transport

    def __init__(
        self,
        http1: Callable[[], asyncio.Protocol],
        http2: Callable[[], asyncio.Protocol],
        connections: set[asyncio.BaseTransport],
    ) -> None:
        self._http1, self._http2, self._connections = http1, http2, connections
        self._inner: asyncio.Protocol | None = None
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(transport)

    def data_received(self, data: bytes) -> None:
        if self._inner is None:
            self._head += data
            if len(self._head) < len(HTTP2_PREFACE) and HTTP2_PREFACE.startswith(self._head):
                return
            self._inner = (self._http2 if self._head.startswith(HTTP2_PREFACE) else self._http1)()
            self._inner.connection_made(self._transport)
            data, self._head = self._head, b""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner else None

    def pause_writing(self) -> None:
        if self._inner:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner:
            self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self._transport)
        if self._inner:
            self._inner.connection_lost(error)


class TcpEcho(asyncio.Protocol):
    """Greets with one line that describes the connection, then returns what it receives."""

    _transport: asyncio.Transport

    def __init__(self, endpoint: Endpoint, record: Record, connections: set[asyncio.BaseTransport]) -> None:
        self._endpoint, self._record, self._connections = endpoint, record, connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(transport)
        peer = transport.get_extra_info("peername")[0]
        seen = Seen(self._endpoint.service, self._endpoint.port, "tcp", "", "", (), peer, 0)
        self._record.add(seen)
        self._transport.write(description(seen) + b"\n")

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self._transport)


class GrpcEcho(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers every unary method: with the status that the call asks for, else with the message for its path, else with
    the description of the call."""

    def __init__(
        self, endpoint: Endpoint, record: Record, stopping: threading.Event, messages: Mapping[str, bytes]
    ) -> None:
        self._endpoint, self._record, self._stopping, self._messages = endpoint, record, stopping, messages

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        path = details.method

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            headers = tuple((str(key), _text(value)) for key, value in context.invocation_metadata())
            seen = Seen(
                self._endpoint.service,
                self._endpoint.port,
                "grpc",
                "POST",
                path,
                headers,
                _address(context.peer()),
                len(request),
            )
            requested = RequestedAnswer.of(seen, self._record.add(seen))
            self._stopping.wait(requested.delay)
            if requested.headers:
                context.send_initial_metadata(tuple((name.lower(), value) for name, value in requested.headers))
            if requested.status:
                context.abort(_code(requested.status), "requested by the client")
            return self._messages[path] if path in self._messages else description(seen, requested.padding)

        return grpc.unary_unary_rpc_method_handler(answer)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _code(number: int) -> grpc.StatusCode:
    return next((code for code in grpc.StatusCode if code.value[0] == number), grpc.StatusCode.UNKNOWN)


def _address(peer: str) -> str:
    """`ipv4:127.0.0.5:4711` -> `127.0.0.5`."""
    return peer.partition(":")[2].rpartition(":")[0]
