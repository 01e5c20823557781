"""Requests about Secrets, from a thread: the connection to the API server belongs to the event loop.

Each request has a bounded time. A writing request asks whether this replica may write just before it is sent.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as NoAnswerError
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from admc.cluster.api.errors import ApiError
from admc.cluster.storage.record import Document, name_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from admc.cluster.storage.record import Names

REQUEST_SECONDS: Final = 10.0
AT_ONCE: Final = 8
"""Requests at the same time."""
PAGE: Final = 50
"""Secrets in a page of a list: 35 MB at most."""

T = TypeVar("T")


class SecretApi(Protocol):
    """What it needs of `Api`."""

    async def get(self, path: str, **params: object) -> Document: ...
    async def create(self, path: str, body: Document) -> Document: ...
    async def replace(self, path: str, body: Document) -> Document: ...
    async def delete(self, path: str, *, uid: str | None = None) -> Document: ...


class NotHolderError(Exception):
    """This replica does not hold the Lease, so it writes nothing."""


class Secrets:
    """All methods block, and raise `ApiError`; writing ones raise `NotHolderError` too."""

    def __init__(self, api: SecretApi, names: Names, may_write: Callable[[], bool]) -> None:
        """Called on the event loop of `api`."""
        self._api, self._names, self._may_write = api, names, may_write
        self._loop = asyncio.get_running_loop()

    def get(self, name: str) -> Document | None:
        """None where there is none."""
        return self._run(lambda: self._get(name))

    def get_all(self, names: Collection[str]) -> dict[str, Document]:
        """Those of them that are there."""

        async def read() -> dict[str, Document]:
            found = await _at_once([self._bounded(lambda name=name: self._get(name)) for name in names])  # type: ignore[misc]
            return {name: item for name, item in zip(names, found, strict=True) if item is not None}

        return self._wait(read(), len(names))

    def create(self, secret: Document) -> Document:
        """An error (`is_already_there`) where there is one."""
        return self._run(lambda: self._api.create(self._names.collection, secret), writes=True)

    def create_all(self, secrets: Collection[Document]) -> tuple[str, ...]:
        """Returns the names of those that were there already."""

        async def send(secret: Document) -> str | None:
            try:
                await self._api.create(self._names.collection, secret)
            except ApiError as error:
                if error.is_already_there:
                    return name_of(secret)
                raise
            return None

        async def write() -> tuple[str, ...]:
            found = await _at_once(
                [self._bounded(lambda secret=secret: send(secret), writes=True) for secret in secrets]  # type: ignore[misc]
            )
            return tuple(name for name in found if name is not None)

        return self._wait(write(), len(secrets))

    def replace(self, secret: Document) -> Document:
        """A conflict if it has another version by now."""
        return self._run(lambda: self._api.replace(self._path(name_of(secret)), secret), writes=True)

    def delete_all(self, uids: dict[str, str | None]) -> None:
        """By name; with a uid, only if it is that one."""

        async def send(name: str, uid: str | None) -> None:
            try:
                await self._api.delete(self._path(name), uid=uid)
            except ApiError as error:
                if not error.is_not_found and not error.is_conflict:
                    raise

        async def remove() -> None:
            await _at_once(
                [
                    self._bounded(lambda name=name, uid=uid: send(name, uid), writes=True)  # type: ignore[misc]
                    for name, uid in uids.items()
                ]
            )

        self._wait(remove(), len(uids))

    def uids(self) -> dict[str, str | None]:
        """The uid of each Secret of the installation's kept state, by name."""
        found: dict[str, str | None] = {}
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page = self._run(
                lambda more=more: self._api.get(  # type: ignore[misc]
                    self._names.collection, **self._names.selectors, limit=PAGE, **more
                )
            )
            for item in page.get("items") or ():
                found[name_of(item)] = uid_of(item) or None
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return found

    async def _get(self, name: str) -> Document | None:
        try:
            return await self._api.get(self._path(name))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    def _path(self, name: str) -> str:
        return f"{self._names.collection}/{name}"

    async def _bounded(self, request: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        if writes and not self._may_write():
            raise NotHolderError
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await request()
        except TimeoutError as error:
            raise _late() from error

    def _run(self, request: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        return self._wait(self._bounded(request, writes=writes))

    def _wait(self, work: Awaitable[T], requests: int = 1) -> T:
        seconds = REQUEST_SECONDS * (2 + requests / AT_ONCE)
        done = asyncio.run_coroutine_threadsafe(_awaited(work), self._loop)
        try:
            return done.result(seconds)
        except NoAnswerError as error:  # the event loop has ended, or does not come to its turn
            done.cancel()
            raise _late() from error


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _at_once(requests: Collection[Awaitable[T]]) -> list[T]:
    """All of them, some at a time; the first error is raised when none is under way any more."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(request: Awaitable[T]) -> T:
        async with turn:
            return await request

    found = await asyncio.gather(*map(one, requests), return_exceptions=True)
    for item in found:
        if isinstance(item, BaseException):
            raise item
    return [item for item in found if not isinstance(item, BaseException)]


def _late() -> ApiError:
    return ApiError(0, "Timeout", "the API server did not answer in time")
