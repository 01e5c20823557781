"""Requests to the API server: plain JSON in, plain JSON out, with a bound on everything.

The official client handles connections, TLS and tokens; a request uses none of its typed objects.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from admc.kubernetes.cluster.api import body as bodies
from admc.kubernetes.cluster.api.counts import Counts, Request, resource
from admc.kubernetes.cluster.api.errors import ApiError, from_event, from_status
from admc.kubernetes.cluster.names import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from types import TracebackType
    from typing import Self

    from kubernetes.aio.client import ApiClient

    from admc.kubernetes.cluster.api.body import Document

CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
"""The time limit of a request with its answer; of a watch, until its answer begins."""
WATCH_SECONDS: Final = 60
"""The server ends a watch after this time, so a connection that is silent for longer is dead."""
GRACE_SECONDS: Final = 10.0
"""How much longer a watch may be silent before the client gives it up."""
ATTEMPTS: Final = 3
"""Attempts of a request that the server refuses with 429 or 503 and a time to wait."""
PATIENCE_SECONDS: Final = 10.0
"""The longest time that a request waits before it is repeated; if the server asks for more, the caller decides."""
CLOSE_SECONDS: Final = 0.25
"""How long connections have for the orderly end of TLS, which begins when a request is cancelled. The client does not
wait for it (aiohttp, "Graceful Shutdown"), and without it sockets stay open when the event loop ends."""
MAX_REFUSAL: Final = 64 * 2**10
"""How many bytes of a refusal are read."""
_PATH: Final = re.compile(r"(/[A-Za-z0-9._:@~-]+)+")


class Api:
    """The API server. All methods raise `ApiError`.

    A path is that of the Kubernetes API, without a query: `/api/v1/namespaces/shop/pods/front-1`.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.counts: Counts = Counts()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()
        await asyncio.sleep(CLOSE_SECONDS)

    async def get(self, path: str, **params: object) -> Document:
        """Return an object, or a page of a list: `get(path, limit=500, **{"continue": token})`."""
        return await self._request("list" if "limit" in params else "get", "GET", path, params)

    async def create(self, path: str, body: Document) -> Document:
        """Create an object. `path` is that of the collection."""
        return await self._request("create", "POST", path, {"fieldManager": FIELD_MANAGER}, body)

    async def replace(self, path: str, body: Document) -> Document:
        """Replace an object. With `metadata.resourceVersion` in `body`, it is a conflict if another writer was
        first."""
        return await self._request("update", "PUT", path, {"fieldManager": FIELD_MANAGER}, body)

    async def apply(self, path: str, body: Document, *, force: bool = True, subresource: str = "") -> Document:
        """Create an object or change the fields in `body`, and remove fields of the last apply that `body` lacks
        (server-side apply). `force` takes fields over from other managers; without it, such a field is a conflict."""
        where = f"{path}/{subresource}" if subresource else path
        params = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._request("patch", "PATCH", where, params, body, "application/apply-patch+yaml")

    async def delete(self, path: str, *, uid: str | None = None) -> Document:
        """Delete an object. With `uid`, it is a conflict if another object has the name by now."""
        options: Document = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        return await self._request("delete", "DELETE", path, {}, options)

    async def events(
        self, path: str, params: Mapping[str, object], *, opened: Callable[[], None] = lambda: None
    ) -> AsyncGenerator[Document, None]:
        """Yield the events of a watch, bookmarks included; an event of type ERROR is raised as `WatchError`.

        The iteration ends without an error when the server ends the watch after `timeoutSeconds`. The client gives up a
        connection that is silent for longer. `opened` is called once the server has accepted the request.
        """
        seconds = int(str(params.get("timeoutSeconds", WATCH_SECONDS)))
        query = {"watch": "true", "allowWatchBookmarks": "true", **params, "timeoutSeconds": seconds}
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=seconds + GRACE_SECONDS)
        async with self._answer("watch", "GET", path, query, timeout) as answer:
            opened()
            async for line in bodies.lines(answer.content.iter_any()):
                event = bodies.parse(line)
                if event.get("type") == "ERROR":
                    raise from_event(event.get("object"))
                yield event

    async def _request(
        self,
        verb: str,
        method: str,
        path: str,
        params: Mapping[str, object],
        body: Document | None = None,
        content: str = "application/json",
    ) -> Document:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, connect=CONNECT_SECONDS)
        limit = bodies.MAX_PAGE if verb == "list" else bodies.MAX_OBJECT
        attempt = 1
        while True:
            try:
                async with self._answer(verb, method, path, params, timeout, body, content) as answer:
                    return bodies.parse(await bodies.whole(answer.content.iter_any(), limit), answer.status)
            except ApiError as error:
                wait = error.retry_after
                if error.status not in (429, 503) or wait is None or wait > PATIENCE_SECONDS or attempt == ATTEMPTS:
                    raise
            attempt += 1
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def _answer(
        self,
        verb: str,
        method: str,
        path: str,
        params: Mapping[str, object],
        timeout: aiohttp.ClientTimeout,
        body: Document | None = None,
        content: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer of a request that succeeds, while the caller reads its body."""
        counted, code = resource(path), "error"
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._send(method, path, params, timeout, body, content)
            try:
                code = str(answer.status)
                if not 200 <= answer.status < 300:
                    raise await _refusal(answer)
                yield answer
            finally:
                _leave(answer)
        except ApiError as error:
            code = str(error.status or code)
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        finally:
            self.counts[Request(verb, counted, code)] += 1

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, object],
        timeout: aiohttp.ClientTimeout,
        body: Document | None,
        content: str,
    ) -> aiohttp.ClientResponse:
        if not _PATH.fullmatch(path) or "/." in path:
            raise ValueError(f"`{path}` is no path of the Kubernetes API")
        headers = {"Accept": "application/json, application/jwk-set+json"}
        if body is not None:
            headers["Content-Type"] = content
        request: tuple[Any, ...] = await self._client.param_serialize(
            method, path, None, [(name, str(value)) for name, value in params.items()], headers, body,
            auth_settings=["BearerToken"],
        )  # fmt: skip
        answer: aiohttp.ClientResponse = (await self._client.call_api(*request, _request_timeout=timeout)).response
        return answer


def _leave(answer: aiohttp.ClientResponse) -> None:
    """Give the connection back, or abort it if the answer is not complete: a server that fell silent would take no part
    in an orderly end of TLS."""
    connection = answer.connection
    if answer.content.at_eof() or connection is None:
        answer.release()
        return
    if connection.transport is not None:
        connection.transport.abort()
    answer.close()


async def _refusal(answer: aiohttp.ClientResponse) -> ApiError:
    """Return the error of a refusal, whose body is a `Status` or any text of a proxy in between."""
    retry_after = answer.headers.get("Retry-After", "")
    seconds = float(retry_after) if re.fullmatch(r"[0-9]{1,9}", retry_after) else None
    content = await bodies.start(answer.content.iter_any(), MAX_REFUSAL)
    try:
        document = bodies.parse(content)
    except ApiError:
        reason = content[:1000].decode("utf-8", "replace").strip()
        return ApiError(answer.status, answer.reason or "Unknown", reason or "the server gives no reason", seconds)
    return from_status(answer.status, document, seconds)


def _unreachable(error: Exception) -> ApiError:
    if isinstance(error, TimeoutError):
        return ApiError(0, "Timeout", "the API server did not answer in time")
    return ApiError(0, "Connection", str(error) or type(error).__name__)
