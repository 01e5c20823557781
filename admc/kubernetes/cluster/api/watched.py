"""The objects of one kind as records that follow the cluster: a list in pages, then a watch, and again after a fault.

    list (pages) --version--> watch (events, bookmarks) --ended, silent, unreachable--> watch from the last version
         ^-----------------------------410 (history compacted), ERROR event-----------------------'

Whatever happens in between, `items` goes from one consistent map to the next, and each difference is reported once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import aclosing
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from admc.kubernetes.cluster.api.backoff import Backoff
from admc.kubernetes.cluster.api.body import TooLargeError
from admc.kubernetes.cluster.api.counts import resource
from admc.kubernetes.cluster.api.errors import ApiError, WatchError, shown
from admc.kubernetes.cluster.api.requests import WATCH_SECONDS
from admc.kubernetes.cluster.records import Key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from admc.kubernetes.cluster.api.body import Document
    from admc.kubernetes.cluster.api.requests import Api

LOG: Final = logging.getLogger("admc.cluster")
PAGE: Final = 100
"""Objects of a page; fewer if such a page is too large. A page is parsed in one go: 100 pods take some 10 ms."""
LIST_SECONDS: Final = 300.0
"""The time limit of a list. The API server forgets the version that its pages have in common after five minutes."""
STEADY_SECONDS: Final = 5.0
"""A watch that lasted this long does not count as a failure."""
TURN: Final = 50
"""Objects that are decoded before other tasks run."""

T = TypeVar("T")


class Watched(Generic[T]):
    """All objects of `path` that the selectors choose, each as the record that `decode` makes of it.

    `decode` returns None for an object that is to be left out. An object that it rejects with an exception is left out
    too, and `rejected` has the reason. `changed(key, old, new)` is called once for each difference, after `items` has
    all differences of the same list or event; an equal record is no difference.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        decode: Callable[[Document], T | None],
        label_selector: str = "",
        field_selector: str = "",
        *,
        changed: Callable[[Key, T | None, T | None], None] = lambda key, old, new: None,
        page: int = PAGE,
        watch_seconds: float = WATCH_SECONDS,
        definition: str = "",
    ) -> None:
        """`definition` names the file that defines the kind, if the API server may not know it (404). Without the
        definition there are no objects of the kind."""
        self.path = path
        self._definition = definition
        self.changed = changed
        self.synced = asyncio.Event()
        """Set when the first list is complete, or when the API server does not know the kind and `definition` is
        given."""
        self.problem = ""
        """Why the cluster cannot be followed at present; empty if it can."""
        self.relists = 0
        """Complete lists after the first one."""
        self._items: dict[Key, T] = {}
        self._rejected: dict[Key, str] = {}
        self.items: Mapping[Key, T] = MappingProxyType(self._items)
        self.rejected: Mapping[Key, str] = MappingProxyType(self._rejected)
        """The reason for each object that `decode` rejects."""
        self._api, self._decode = api, decode
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._selectors = {name: value for name, value in selectors.items() if value}
        self._page, self._watch_seconds = page, watch_seconds
        self._version = ""
        """The version of `items`; if it is empty, the next attempt lists."""

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        backoff = Backoff()
        while True:
            began, wait = time.monotonic(), None
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ApiError as error:
                self._failed(error)
                wait = error
            if time.monotonic() - began >= min(STEADY_SECONDS, self._watch_seconds / 2):
                backoff.reset()
                if wait is None:
                    continue
            await asyncio.sleep(backoff.seconds(wait.retry_after if wait else None))

    async def _list(self) -> None:
        records: dict[Key, T] = {}
        rejected: dict[Key, str] = {}
        version = ""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                async for page in self._pages():
                    version = version or _version(page)
                    for number, item in enumerate(_items(page)):
                        self._put(_key(item), item, records, rejected)
                        if number % TURN == TURN - 1:
                            await asyncio.sleep(0)
        except TimeoutError as error:
            raise ApiError(0, "Timeout", f"the list is not complete after {LIST_SECONDS:.0f} s") from error
        self._replace(records, rejected)
        self._version = version
        self._followed()
        self.relists += self.synced.is_set()
        self.synced.set()

    async def _pages(self) -> AsyncIterator[Document]:
        """Yield the pages of one list, all of the same version. After 410 the caller begins a new list."""
        limit, token = self._page, ""
        while True:
            query = {**self._selectors, "limit": limit, **({"continue": token} if token else {})}
            try:
                page = await self._api.get(self.path, **query)
            except TooLargeError:
                if limit == 1:
                    raise
                limit = max(1, limit // 4)
                continue
            yield page
            token = str(_metadata(page).get("continue") or "")
            if not token:
                return

    async def _watch(self) -> None:
        # Replicas and kinds begin their watches at different times.
        seconds = max(1, round(self._watch_seconds * random.uniform(0.75, 1.0)))  # noqa: S311 - no secret
        query = {**self._selectors, "resourceVersion": self._version, "timeoutSeconds": seconds}
        async with aclosing(self._api.events(self.path, query, opened=self._followed)) as events:
            number = 0
            async for event in events:
                self._take(event)
                number += 1
                if number % TURN == 0:
                    await asyncio.sleep(0)

    def _take(self, event: Document) -> None:
        kind, item = event.get("type"), event.get("object")
        if not isinstance(item, dict) or kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            raise WatchError(0, "Malformed", f"an event of type `{kind}` is no event of a watch")
        version = _version(item)
        if kind != "BOOKMARK":
            key = _key(item)
            old = self._items.pop(key, None)
            if kind == "DELETED":
                self._rejected.pop(key, None)
            else:
                self._put(key, item, self._items, self._rejected)
            new = self._items.get(key)
            if old != new:
                self.changed(key, old, new)
        self._version = version

    def _put(self, key: Key, item: Document, records: dict[Key, T], rejected: dict[Key, str]) -> None:
        """Put the record of an object into `records`, or the reason why it has none into `rejected`."""
        try:
            record = self._decode(item)
        except Exception as error:  # an object can have any form, and must not end the watch of the others
            reason = shown(f"{type(error).__name__}: {error}")
            if self._rejected.get(key) != reason:
                LOG.warning("%s `%s` is left out: %s", resource(self.path), shown("/".join(filter(None, key))), reason)
            rejected[key] = reason
            return
        rejected.pop(key, None)
        if record is not None:
            records[key] = record

    def _replace(self, records: dict[Key, T], rejected: dict[Key, str]) -> None:
        keys = sorted(key for key in self._items.keys() | records.keys() if self._items.get(key) != records.get(key))
        differences = [(key, self._items.get(key), records.get(key)) for key in keys]
        for mine, others in ((self._items, records), (self._rejected, rejected)):
            mine.clear()
            mine.update(others)  # type: ignore[arg-type]
        for key, old, new in differences:
            self.changed(key, old, new)

    def _failed(self, error: ApiError) -> None:
        was_listed = bool(self._version)
        if error.is_gone or error.status in (400, 404) or isinstance(error, WatchError):
            self._version = ""
        problem = str(error)
        if error.is_not_found and self._definition:
            problem += f"; {self._definition} defines them"
            self._replace({}, {})
            self.synced.set()
        if error.is_gone and was_listed:
            LOG.info("%s are listed again: %s", resource(self.path), error)
            return
        if not self.problem:
            LOG.warning("%s cannot be read, it is tried again: %s", resource(self.path), problem)
        self.problem = problem

    def _followed(self) -> None:
        if self.problem:
            LOG.info("%s can be read again", resource(self.path))
        self.problem = ""


def _metadata(document: Document) -> dict[str, Any]:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise WatchError(0, "Malformed", "an object without metadata")
    return metadata


def _version(document: Document) -> str:
    version = _metadata(document).get("resourceVersion")
    if not version or not isinstance(version, str):
        raise WatchError(0, "Malformed", "an object or list without resourceVersion")
    return version


def _key(item: Document) -> Key:
    metadata = _metadata(item)
    namespace, name = metadata.get("namespace", ""), metadata.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str):
        raise WatchError(0, "Malformed", "an object without a name")
    return Key(namespace, name)


def _items(page: Document) -> list[Document]:
    items = page.get("items")
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise WatchError(0, "Malformed", "a list without objects")
    return items
