"""Requests about the Secrets of the kept state, and the way to make them from a thread.

Each request has a time limit. A request that writes checks just before it is sent whether this replica may write.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as NoAnswerError
from typing import TYPE_CHECKING, Final, TypeVar

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.storage.record import Document, name_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
    from typing import Any

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.storage.record import Names

REQUEST_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 120.0
"""The time limit of several requests in a row."""
AT_ONCE: Final = 8
"""Requests at the same time."""
PAGE: Final = 50
"""Secrets in a page of a list: 35 MB at most."""

T = TypeVar("T")
Item = TypeVar("Item")


class NotHolderError(Exception):
    """This replica does not hold the Lease, so it writes nothing."""


class Secrets:
    """All methods raise `ApiError`; writing ones raise `NotHolderError` too."""

    def __init__(self, api: Api, names: Names, may_write: Callable[[], bool]) -> None:
        self._api, self._names, self._may_write = api, names, may_write

    async def get(self, name: str) -> Document | None:
        """Return a Secret; None if it does not exist."""
        try:
            return await self._bounded(lambda: self._api.get(self._path(name)))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def get_all(self, names: Collection[str]) -> dict[str, Document]:
        """Return those of the Secrets that exist."""
        secrets = await _at_once(self.get, names)
        return {name: item for name, item in zip(names, secrets, strict=True) if item is not None}

    async def create(self, secret: Document) -> Document:
        """Create a Secret. It is an error (`is_already_there`) if the Secret exists."""
        return await self._written(lambda: self._api.create(self._names.collection, secret))

    async def create_all(self, secrets: Collection[Document]) -> tuple[str, ...]:
        """Create Secrets, and return the names of those that existed already."""

        async def send(secret: Document) -> bool:
            try:
                await self.create(secret)
            except ApiError as error:
                if error.is_already_there:
                    return True
                raise
            return False

        there = await _at_once(send, secrets)
        return tuple(name_of(secret) for secret, was_there in zip(secrets, there, strict=True) if was_there)

    async def replace(self, secret: Document) -> Document:
        """Replace a Secret. It is a conflict if the Secret has another version by now."""
        return await self._written(lambda: self._api.replace(self._path(name_of(secret)), secret))

    async def delete_all(self, uids: Mapping[str, str | None]) -> None:
        """Delete Secrets by name; one with a uid only if it still has that uid. They need not exist."""

        async def send(name: str) -> None:
            try:
                await self._written(lambda: self._api.delete(self._path(name), uid=uids[name]))
            except ApiError as error:
                if not error.is_not_found and not error.is_conflict:
                    raise

        await _at_once(send, uids)

    async def uids(self) -> dict[str, str | None]:
        """The uid of each Secret of the installation's kept state, by name."""
        uids: dict[str, str | None] = {}
        query: dict[str, object] = {**self._names.selectors, "limit": PAGE}
        while True:
            page = await self._bounded(lambda: self._api.get(self._names.collection, **query))
            uids |= {name_of(item): uid_of(item) or None for item in page.get("items") or ()}
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return uids
            query["continue"] = token

    def _path(self, name: str) -> str:
        return f"{self._names.collection}/{name}"

    async def _written(self, request: Callable[[], Awaitable[Document]]) -> Document:
        if not self._may_write():
            raise NotHolderError
        return await self._bounded(request)

    async def _bounded(self, request: Callable[[], Awaitable[Document]]) -> Document:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await request()
        except TimeoutError as error:
            raise _late() from error


class Bridge:
    """Runs a coroutine on the event loop on which this was made, for a caller in another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the value of the coroutine, or raise its exception; `ApiError` if it takes longer than `WAIT_SECONDS`,
        as when the event loop does not run any more."""
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result(WAIT_SECONDS)
        except NoAnswerError as error:
            done.cancel()
            raise _late() from error


async def _at_once(request: Callable[[Item], Coroutine[Any, Any, T]], items: Collection[Item]) -> list[T]:
    """Make all requests, some at a time. The first error is raised when no request is under way any more."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(item: Item) -> T:
        async with turn:
            return await request(item)

    answers = await asyncio.gather(*map(one, items), return_exceptions=True)
    for item in answers:
        if isinstance(item, BaseException):
            raise item
    return [item for item in answers if not isinstance(item, BaseException)]


def _late() -> ApiError:
    return ApiError(0, "Timeout", "the API server did not answer in time")
