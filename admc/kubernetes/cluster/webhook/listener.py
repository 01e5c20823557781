"""The HTTPS listener of the webhook: bounded connections, bytes and times, and one path.

    POST /inject --review, in a thread--> 200 with the answer
                 --what is no review--> 4xx
                 --before all `Injection` objects have been read, or too busy--> 503

The API server goes on without an answer (`failurePolicy: Ignore`), so an error costs a pod its ADM, and no more. The
answer is never `unchanged` unless it is known that the pod needs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

from admc.kubernetes.cluster.webhook.review import Known, Outcome, ReviewError, review
from admc.kubernetes.cluster.webhook.tls import WebhookTls
from admc.serve.observe.bounded import SERVER, BoundedServer, text
from admc.serve.observe.http import cannot_listen, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admc.kubernetes.cluster.webhook.counts import WebhookCounts
    from admc.kubernetes.cluster.webhook.review import Answer
    from admc.serve.auth.tls import Material

LOG: Final = logging.getLogger("admc.cluster")
HTTP_LOG: Final = logging.getLogger("admc.cluster.webhook")
PATH: Final = "/inject"
OPTION: Final = "--webhook"
MAX_REVIEW: Final = 4 << 20
"""Bytes of a review. The API server takes pods of at most 3 MiB, and etcd of 1.5 MB."""
IN_FLIGHT: Final = 32 << 20
"""Bytes of all reviews that are being read or answered: as Python objects they take ten times as much."""
CONNECTIONS: Final = 256
HANDSHAKE_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 2.0
"""The API server waits no longer."""


class _RefusedError(Exception):
    """A request that gets no answer about a pod."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Webhook:
    """All calls belong on one event loop."""

    def __init__(self, known: Callable[[], Known | None], counts: WebhookCounts) -> None:
        """`known` returns what this replica knows; None before it has read everything."""
        self._known, self._counts = known, counts
        self._in_flight = 0
        self._tls: WebhookTls | None = None

    @property
    def certificate(self) -> bytes | None:
        """The certificate in use, in PEM; None before it listens."""
        return None if self._tls is None else self._tls.certificate

    async def listen(self, host: str, port: int, certificate: Callable[[], Material]) -> None:
        """Answer until cancelled. Raises `CommandError` if it cannot listen there."""
        self._tls = tls = WebhookTls(certificate, self._counts)
        handlers = BoundedServer(self._answer, CONNECTIONS, HTTP_LOG, auto_decompress=False)
        try:
            server = await asyncio.get_running_loop().create_server(
                handlers,
                host,
                port,
                ssl=tls.context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=1.0,
            )
        except (OSError, OverflowError) as error:
            raise cannot_listen(OPTION, joined(host, port), error) from error
        try:
            LOG.info("webhook_listening", extra={"webhook": joined(*server.sockets[0].getsockname()[:2])})
            await asyncio.Event().wait()  # `serve_forever` would wait for all clients at its end
        finally:
            server.close()
            await handlers.shutdown(timeout=0.0)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != PATH:
            return text(404, f"not found; the path is {PATH}\n")
        if request.method != "POST":
            return text(405, "only `POST` is supported\n", {"Allow": "POST"})
        began, outcome = time.monotonic(), Outcome.FAILED
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._reviewed(request)
            outcome = answer.outcome
        except TimeoutError:
            return _failed(503, f"there was no answer after {ANSWER_SECONDS:.0f} s")
        except _RefusedError as error:
            return _failed(error.status, str(error))
        finally:
            self._counts.reviews[outcome] += 1
            self._counts.seconds.observe(time.monotonic() - began)
        _log(answer)
        return web.Response(body=answer.body, headers={"Content-Type": "application/json", **SERVER})

    async def _reviewed(self, request: web.BaseRequest) -> Answer:
        """Raises `_RefusedError`."""
        known = self._known()
        if known is None:
            raise _RefusedError(503, "the `Injection` objects have not been read yet")
        size = _size(request)
        with self._taking(size):
            try:
                content = await request.content.readexactly(size) if size else b""
            except asyncio.IncompleteReadError:
                raise _RefusedError(400, "the content is shorter than `Content-Length`") from None
            try:
                return await asyncio.to_thread(review, content, known)
            except ReviewError as error:
                raise _RefusedError(400, str(error)) from error

    @contextmanager
    def _taking(self, size: int) -> Iterator[None]:
        if self._in_flight + size > IN_FLIGHT:
            raise _RefusedError(503, "too many reviews are being answered")
        self._in_flight += size
        try:
            yield
        finally:
            self._in_flight -= size


def _failed(status: int, why: str) -> web.Response:
    LOG.warning("review_not_answered", extra={"status": status, "why": why})
    response = text(status, f"{why}\n")
    response.force_close()  # the rest of the content may not have been read
    return response


def _size(request: web.BaseRequest) -> int:
    """Return the bytes of the content. Raises `_RefusedError`."""
    if request.content_type != "application/json" or "Content-Encoding" in request.headers:
        raise _RefusedError(415, "the content must be `application/json`, without an encoding")
    size = request.content_length
    if size is None:
        raise _RefusedError(411, "the request needs `Content-Length`")
    if size > MAX_REVIEW:
        raise _RefusedError(413, f"the review has more than {MAX_REVIEW >> 20} MiB")
    return size


def _log(answer: Answer) -> None:
    fields = {"pod": answer.pod, "service": answer.service, "dry_run": answer.is_dry_run}
    if answer.outcome is Outcome.INJECTED:
        LOG.info("pod_injected", extra={**fields, "parts": answer.parts, "warnings": answer.warnings})
    elif answer.outcome is Outcome.WARNED:
        LOG.warning("pod_not_injected", extra={**fields, "why": answer.warnings})
