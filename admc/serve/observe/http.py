"""The HTTP endpoints of a running server: liveness, readiness, metrics, status, and the operator's commands.

They need no authentication: every client that reaches the address may read them. So the server listens on loopback by
default. `GET` and `HEAD` change nothing; `POST /rollout/...` is for clients on this machine alone. The number of
connections is bounded: above the bound the server closes the oldest connection.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import web

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible
from admc.serve.observe.bounded import SERVER, BoundedServer, text
from admc.serve.observe.metrics import CONTENT_TYPE
from admc.serve.observe.status import STANDBY, ServerPhase, standing_by, to_json
from emitters.addresses.index import is_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from admc.serve.observe.metrics import MetricSources
    from admc.serve.observe.status import ServerRow, Status

LOG: Final = logging.getLogger("admc.serve.ops")
_METHODS: Final = frozenset({"GET", "HEAD"})
_TYPES: Final = {"/status.json": "application/json", "/metrics": CONTENT_TYPE}
CONNECTIONS: Final = 64
"""The bound on connections: each takes a file descriptor that a proxy might need."""


@dataclass(frozen=True, slots=True)
class View:
    """The sources of the documents, and the commands of the operator."""

    status: Callable[[], Status]
    """The whole status, which takes long if there are many proxies."""
    server: Callable[[], ServerRow]
    metrics: MetricSources
    commands: Mapping[str, Callable[[], Awaitable[str]]] = field(default_factory=dict)
    """The operator's commands, by path."""
    is_prepared: Callable[[], bool] = lambda: False
    """Whether a server that serves nothing yet is ready all the same: it stands by, or waits for a program."""


class HttpServer:
    """The HTTP server while it runs."""

    def __init__(self, answers: _Answers, runner: web.ServerRunner, server: asyncio.Server) -> None:
        self._answers, self._runner, self._server = answers, runner, server

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        socket_name = self._server.sockets[0].getsockname()
        return str(socket_name[0]), int(socket_name[1])

    def show(self, view: View) -> None:
        """Answer from another view, beginning with the next request."""
        self._answers.view = view

    async def stop(self) -> None:
        self._server.close()
        await self._runner.cleanup()


async def serve(view: View, host: str, port: int, names: Collection[str] = ()) -> HttpServer:
    """Listen on an address; with port 0 the system chooses one. `names` are further names of this server that its
    clients may use in requests. Raises `CommandError`."""
    answers = _Answers(view, host, names)
    handlers = BoundedServer(answers.answer, CONNECTIONS, LOG)
    runner = web.ServerRunner(handlers)
    await runner.setup()
    try:
        server = await asyncio.get_running_loop().create_server(handlers, host, port, reuse_port=False)
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        raise cannot_listen("--ops", joined(host, port), error) from error
    return HttpServer(answers, runner, server)


class _Answers:
    """The answers to requests, from a view that may be replaced."""

    def __init__(self, view: View, host: str, names: Collection[str]) -> None:
        self.view = view
        self._is_local = _is_local(host)
        self._names = frozenset(map(_plain, (host, *names, "localhost")))
        made = {"/status.json": self._status, "/metrics": self._metrics}
        self._documents = {path: _SharedDocument(make) for path, make in made.items()}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        asked, view = _host_header(request), self.view
        # DNS rebinding: a page in a browser may let its own host name resolve to this server. Its requests carry that
        # name, so the server accepts only addresses and its own names.
        if _plain(asked) not in self._names and not (_is_local(asked) if self._is_local else is_address(asked)):
            what = "a loopback address" if self._is_local else "an address"
            return text(421, f"the host must be {what}, `localhost`, or a name given with `--ops-name`\n")
        command = view.commands.get(request.path)
        if command is not None:
            return await _run_command(request, command, view)
        document = self._documents.get(request.path)
        if document is not None and request.method in _METHODS:
            body = await document.get()
            return web.Response(body=body, headers={"Content-Type": _TYPES[request.path], **SERVER})
        return _small_document(view, request)

    async def _status(self) -> bytes:
        return await asyncio.to_thread(to_json, self.view.status())  # in a thread, since it may be large

    async def _metrics(self) -> bytes:
        return self.view.metrics.exposition()


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind_error(host: str, port: int) -> OSError | None:
    """The error of the system for a bind to this address; None if the bind succeeds. gRPC does not report this
    error."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None


def cannot_listen(option: str, address: str, error: OSError | OverflowError | None) -> CommandError:
    """The error of a server that cannot listen, with the message of the system."""
    cause, in_use = "", isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    if isinstance(error, OSError) and error.errno:
        # The number gives the system's message, which asyncio wraps in its own. Name resolution has other numbers.
        named = isinstance(error, socket.gaierror)
        cause = (error.strerror or "") if named else os.strerror(error.errno)
    hint = f"`{option}` takes another address"
    if in_use:
        hint += "; the other server keeps running"
    if in_use and option == "--ops":  # `admc status` would show the other server, too
        hint += f", and `admc status --server http://{visible(address)}` shows its state"
    return wrong_usage(
        "ADM825",
        f"cannot listen at `{visible(address)}`",
        cause=cause[:1].lower() + cause[1:] or None,
        hint=hint,
    )


class _SharedDocument:
    """A document that is built once for all requests that arrive during the build, so that a client with a thousand
    requests at once does not delay other clients. The build is a task of its own, which outlives each request."""

    def __init__(self, make: Callable[[], Awaitable[bytes]]) -> None:
        self._make = make
        self._making: asyncio.Task[bytes] | None = None

    async def get(self) -> bytes:
        if self._making is None:
            self._making = asyncio.create_task(self._build())
        return await asyncio.shield(self._making)  # a cancelled request does not cancel the build

    async def _build(self) -> bytes:
        try:
            return await self._make()
        finally:
            self._making = None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _plain(name: str) -> str:
    """A name in the form for comparisons. In DNS neither case nor a final dot makes a difference."""
    return name.lower().removesuffix(".")


def _host_header(request: web.BaseRequest) -> str:
    """The host that the client requested; browsers always send it."""
    header = request.headers.get("Host", "localhost")
    return header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]


def _small_document(view: View, request: web.BaseRequest) -> web.StreamResponse:
    if request.method not in _METHODS:
        return text(405, "only `GET` and `HEAD` are supported\n", {"Allow": "GET, HEAD"})
    if request.path == "/healthz":
        return text(200, "alive\n")
    if request.path == "/readyz":
        row = view.server()
        is_ready = row.phase is ServerPhase.SERVING or (row.phase is ServerPhase.STARTING and view.is_prepared())
        what = standing_by(row) if row.role == STANDBY else row.phase
        why = f": {visible(row.why)}" if row.why else ""
        return text(200 if is_ready else 503, f"{what}{why}\n")
    return text(404, "not found; the paths are /healthz, /readyz, /metrics and /status.json\n")


async def _run_command(
    request: web.BaseRequest, command: Callable[[], Awaitable[str]], view: View
) -> web.StreamResponse:
    """Run a command of the operator. A page in a browser cannot send a command: for this type of content the browser
    first sends an `OPTIONS` request, which the server refuses."""
    if request.method != "POST":
        return text(405, "only `POST` is supported\n", {"Allow": "POST"})
    if request.content_type != "application/json":
        return text(415, "the content must be `application/json`\n")
    if request.remote is None or not _is_local(request.remote):
        return text(403, "only clients on the machine of the server may send commands\n")
    try:
        outcome = await command()
    except CommandError as error:
        nothing = any(item.code == "ADM856" for item in error.diagnostics)
        texts = (item.cause if nothing and item.cause else item.message for item in error.diagnostics)
        return text(409 if nothing else 503, "; ".join(texts) + "\n")
    return web.json_response({"app": view.server().app, "outcome": outcome}, headers=SERVER)
