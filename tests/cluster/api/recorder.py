"""What a `Watched` reports, held against what it has: each difference once, and from the last state."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.api.watched import Watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.records import Key

MAPS = "/api/v1/namespaces/{}/configmaps"


def text(document: dict[str, Any]) -> str | None:
    """The text of a ConfigMap; None for one that is to be left out. Raises for one that has no text."""
    found = document["data"]["text"]
    return None if found == "hidden" else str(found)


class Recorder:
    def __init__(self, api: Api, path: str, **options: Any) -> None:
        self.reported: list[tuple[str, str | None, str | None]] = []
        self._state: dict[Key, str] = {}
        self.watched: Watched[str] = Watched(api, path, text, changed=self._changed, **options)

    def _changed(self, key: Key, old: str | None, new: str | None) -> None:
        assert old != new
        assert self._state.get(key) == old
        assert self.watched.items.get(key) == new
        self._state.pop(key, None)
        if new is not None:
            self._state[key] = new
        self.reported.append((key.name, old, new))

    @property
    def items(self) -> dict[str, str]:
        return {key.name: found for key, found in self.watched.items.items()}

    def take(self) -> list[tuple[str, str | None, str | None]]:
        """What was reported since the last call."""
        found, self.reported = self.reported, []
        return found

    async def until(self, met: Callable[[], bool], seconds: float = 20.0) -> float:
        """Wait for it. Returns how long that took."""
        began = time.monotonic()
        while not met():
            assert time.monotonic() - began < seconds, (self.items, self.reported, self.watched.problem)
            await asyncio.sleep(0.01)
        assert dict(self.watched.items) == self._state
        return time.monotonic() - began


@asynccontextmanager
async def recorded(api: Api, path: str, **options: Any) -> AsyncIterator[Recorder]:
    """A `Watched` that runs and has its first list."""
    recorder = Recorder(api, path, **options)
    task = asyncio.create_task(recorder.watched.run())
    try:
        await recorder.until(lambda: recorder.watched.synced.is_set() or task.done())
        yield recorder
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError), ended
