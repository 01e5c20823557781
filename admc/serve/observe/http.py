"""What a running server says of itself over HTTP: alive, ready, metrics, status.

It has no door: whoever reaches the address may ask, so it is bound to loopback unless told otherwise, answers `GET`
and `HEAD` alone, and changes nothing. Connections are few and cheap: beyond a bound the oldest goes.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from admc.exits import CommandError, wrong_usage
from admc.serve.observe.metrics import CONTENT_TYPE
from admc.serve.observe.status import ServerPhase, to_json
from admc.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from admc.serve.observe.metrics import Sources
    from admc.serve.observe.status import ServerRow, Status

LOG: Final = logging.getLogger("admc.serve.observe.http")
_METHODS: Final = frozenset({"GET", "HEAD"})
_TYPES: Final = {"/status.json": "application/json", "/metrics": CONTENT_TYPE}
_SERVER: Final = {"Server": "admc"}
"""Whoever asks need not know what it is made of."""
CONNECTIONS: Final = 64
"""Each takes a file handle that a proxy might need."""


@dataclass(frozen=True, slots=True)
class View:
    """What there is to be seen."""

    status: Callable[[], Status]
    """All of it, which takes long where there are many proxies."""
    server: Callable[[], ServerRow]
    metrics: Sources


class Running:
    """The HTTP server while it runs."""

    def __init__(self, runner: web.ServerRunner, server: asyncio.Server) -> None:
        self._runner = runner
        self._server = server

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        found = self._server.sockets[0].getsockname()
        return str(found[0]), int(found[1])

    async def stop(self) -> None:
        self._server.close()
        await self._runner.cleanup()


async def serve(view: View, host: str, port: int) -> Running:
    """Listen at an address; port 0 is any. Raises `CommandError`."""

    async def status() -> bytes:
        return await asyncio.to_thread(to_json, view.status())  # beside the loop, since it may be large

    async def metrics() -> bytes:
        return view.metrics.exposition()

    local, documents = _is_local(host), {"/status.json": _Shared(status), "/metrics": _Shared(metrics)}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if local and not _is_local(_asked(request)):
            # A page in a browser on this machine has had its own name point here, to read what only we may.
            return _text(421, "here it answers to `localhost` and to addresses of this machine alone\n")
        document = documents.get(request.path)
        if document is not None and request.method in _METHODS:
            said = {"Content-Type": _TYPES[request.path], **_SERVER}
            return web.Response(body=await document.get(), headers=said)
        return _answer(view, request)

    handlers = _Bounded(
        answer, access_log=None, logger=LOG, max_line_size=4096, lingering_time=0.0, keepalive_timeout=75.0
    )
    runner = web.ServerRunner(handlers)
    await runner.setup()
    try:
        server = await asyncio.get_running_loop().create_server(handlers, host, port, reuse_port=False)
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        raise cannot_listen("--ops", f"[{host}]:{port}" if ":" in host else f"{host}:{port}", error) from error
    return Running(runner, server)


def why_not(host: str, port: int) -> OSError | None:
    """What the system says to whoever listens at an address; None if it would let them. gRPC does not tell."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None


def cannot_listen(option: str, address: str, error: OSError | OverflowError | None) -> CommandError:
    """In the system's words, where it has any."""
    said, taken = "", isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    if isinstance(error, OSError) and error.errno:
        # asyncio has a sentence of its own around the system's words; those for names have other numbers.
        named = isinstance(error, socket.gaierror)
        said = (error.strerror or "") if named else os.strerror(error.errno)
    hint = f"`{option}` takes another address"
    if taken:
        hint += "; the server that is there goes on"
    if taken and option == "--ops":  # `admc status` alone would show that server, too
        hint += f", and `admc status --server http://{visible(address)}` shows its state"
    return wrong_usage(
        "ADM825",
        f"cannot listen at `{visible(address)}`",
        cause=said[:1].lower() + said[1:] or None,
        hint=hint,
    )


class _Handler(RequestHandler):
    """Says what is no HTTP under the same name as all else."""

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        response.headers.update(_SERVER)
        return response


class _Bounded(web.Server):
    """Ends the oldest connection when there are too many, so that nobody is locked out by others who say nothing."""

    def __call__(self) -> RequestHandler:
        return _Handler(self, loop=asyncio.get_running_loop(), **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        connections = self.connections
        if len(connections) > CONNECTIONS and connections[0].transport is not None:
            # Not closed but aborted: what waits to be read by a client that does not read would keep it open.
            connections[0].transport.abort()


class _Shared:
    """A document that is made once for all who ask meanwhile. Others have their turn before it is made, so that a
    client that asks a thousand times at once holds up nobody."""

    def __init__(self, make: Callable[[], Awaitable[bytes]]) -> None:
        self._make = make
        self._making: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        if self._making is None:
            self._making = asyncio.create_task(self._made())
        return await asyncio.shield(self._making)  # the others stay when the first one leaves

    async def _made(self) -> bytes:
        try:
            return await self._make()
        finally:
            self._making = None


def _is_our_concern(record: logging.LogRecord) -> bool:
    """Whoever sends what is no HTTP is told so; a traceback in the log would be no use to anybody."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


LOG.addFilter(_is_our_concern)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _asked(request: web.BaseRequest) -> str:
    """The name by which the client came here; browsers always tell it."""
    found = request.headers.get("Host", "localhost")
    return found[1:].partition("]")[0] if found.startswith("[") else found.partition(":")[0]


def _answer(view: View, request: web.BaseRequest) -> web.StreamResponse:
    if request.method not in _METHODS:
        return _text(405, "only `GET` and `HEAD` are answered here\n", {"Allow": "GET, HEAD"})
    if request.path == "/healthz":
        return _text(200, "alive\n")
    if request.path == "/readyz":
        server = view.server()
        why = f": {visible(server.why)}" if server.why else ""
        return _text(200 if server.phase is ServerPhase.SERVING else 503, f"{server.phase}{why}\n")
    return _text(404, "there are /healthz, /readyz, /metrics and /status.json here\n")


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=text, headers={**_SERVER, **(headers or {})})
