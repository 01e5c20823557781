"""HTTP servers for clients of which nothing is known: bounded connections, and the same header in every response."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SERVER: Final = {"Server": "admc"}
"""Instead of the names and versions of the libraries."""


class _Handler(RequestHandler):
    """Answers malformed requests with the same `Server` header as all others."""

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        response.headers.update(SERVER)
        return response


class BoundedServer(web.Server):
    """Closes the oldest connection when there are too many, so that idle clients do not lock out others."""

    def __init__(
        self,
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        connections: int,
        logger: logging.Logger,
        **options: Any,
    ) -> None:
        super().__init__(
            answer,
            access_log=None,
            logger=logger,
            max_line_size=4096,
            lingering_time=0.0,
            keepalive_timeout=75.0,
            **options,
        )
        self._bound = connections
        if is_own_error not in logger.filters:
            logger.addFilter(is_own_error)

    def __call__(self) -> RequestHandler:
        return _Handler(self, loop=asyncio.get_running_loop(), **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        connections = self.connections
        if len(connections) > self._bound and connections[0].transport is not None:
            # `abort`, because a client that does not read its response would keep a closed connection open.
            connections[0].transport.abort()


def is_own_error(record: logging.LogRecord) -> bool:
    """Whether to log a record. A malformed request gets a response, and needs no traceback in the log."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


def text(status: int, content: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=content, headers={**SERVER, **(headers or {})})
