"""Replicas in time that passes at once, with requests that fail, hang, and take effect late or unnoticed."""

from __future__ import annotations

import asyncio
import random
import selectors
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.api.errors import ApiError
from tests.cluster.memory_api import MemoryApi

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

Document = dict[str, Any]


class _Instant(selectors.DefaultSelector):  # type: ignore[valid-type, misc]
    """Waits no time: it moves the loop's clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return super().select(0)  # type: ignore[no-any-return]


def run(main: Coroutine[Any, Any, None]) -> None:
    selector = _Instant()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


class Clock:
    """A replica's clock: it began at some time of its own, and is too fast or too slow by a little."""

    def __init__(self, own: random.Random, most: float = 0.01) -> None:
        self._offset, self._rate = own.uniform(0, 1e6), own.uniform(1 - most, 1 + most)

    def __call__(self) -> float:
        return self._offset + now() * self._rate


class FaultyApi:
    """A replica's way to the cluster. `faults` is how many requests go wrong, from 0 to 1.

    A pause of the process shows as a delay here: all that a replica does between two requests it does at one moment.
    """

    def __init__(self, cluster: MemoryApi, own: random.Random) -> None:
        self._cluster, self._chance = cluster, own
        self.faults = 0.0
        self.paused_until = 0.0

    async def _travel(self) -> None:
        await asyncio.sleep(self._chance.expovariate(100))
        if self._chance.random() < self.faults:
            if self._chance.random() < 0.3:
                raise ApiError(0, "Connection", "cut")
            await asyncio.sleep(self._chance.uniform(0, 45))
        await asyncio.sleep(max(0.0, self.paused_until - now()))

    async def _send(self, request: Callable[[], Awaitable[Document]]) -> Document:
        """It reaches the cluster even if the replica does not wait for it any more, or does not get the answer."""

        async def arrive() -> Document:
            await self._travel()
            return await request()

        arriving = asyncio.create_task(arrive())
        arriving.add_done_callback(lambda task: task.cancelled() or task.exception())
        found = await asyncio.shield(arriving)
        await self._travel()
        return found

    async def get(self, path: str, **params: object) -> Document:
        return await self._send(lambda: self._cluster.get(path, **params))

    async def create(self, path: str, body: Document) -> Document:
        return await self._send(lambda: self._cluster.create(path, body))

    async def replace(self, path: str, body: Document) -> Document:
        return await self._send(lambda: self._cluster.replace(path, body))

    async def apply(self, path: str, body: Document, *, force: bool = True, subresource: str = "") -> Document:
        return await self._send(lambda: self._cluster.apply(path, body))

    async def delete(self, path: str, *, uid: str | None = None) -> Document:
        return await self._send(lambda: self._cluster.delete(path, uid=uid))
