"""The life of a replica: it stands by, serves once it holds the Lease, and ends when another replica may hold it.

    STANDBY --the Lease is free--> ACTIVE <--renewed-- UNSURE      the deadline of the last renewal is over: nothing new
                                     |  --deadline--> |
                                     +---- another holds it, or has written the kept state ----> it exits
                                     +---- SIGTERM: its last state is stored, the Lease given up, its streams end

An unsure replica answers with its present state, and ends its streams now and then: proxies that reconnect through the
Service then reach the active replica. It is active again if it renews the Lease, and no other replica can have held the
Lease in between.
"""

from __future__ import annotations

import asyncio
import logging
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError, wrong_usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from admc.kubernetes.cluster.api.lease import LeaseHolder

LOG: Final = logging.getLogger("admc.cluster")
RECONNECT_SECONDS: Final = 30.0
"""The time after which an unsure replica ends all streams again."""
END_SECONDS: Final = 10.0
"""How long serving may take to end before the process ends all the same."""
LOOK_SECONDS: Final = 1.0
"""How often a replica that stands by reads the holder of the Lease, for the log."""


class Role(StrEnum):
    STANDBY = "standby"
    ACTIVE = "active"
    UNSURE = "unsure"
    """It was the active replica, and does not know whether another one is by now."""


class Standby:
    """One replica. All calls belong on one event loop, except `superseded`.

    keep_ready      runs while the replica stands by, until cancelled
    keep_address    runs while the replica is active or unsure, until cancelled
    end_streams     ends all streams of proxies, so that they reconnect
    """

    def __init__(
        self,
        lease: LeaseHolder,
        *,
        keep_ready: Callable[[], Coroutine[Any, Any, None]],
        keep_address: Callable[[], Coroutine[Any, Any, None]],
        end_streams: Callable[[], Awaitable[object]],
    ) -> None:
        self._lease = lease
        self._keep_ready, self._keep_address, self._end_streams = keep_ready, keep_address, end_streams
        self._loop = asyncio.get_running_loop()
        self._superseded = asyncio.Event()
        self._is_over = True
        """Whether serving has not begun, or has ended."""
        self._why = ""
        """Why this replica ends; empty if it does not."""

    @property
    def role(self) -> Role:
        if self.may_act():
            return Role.ACTIVE
        return Role.UNSURE if self._lease.was_held else Role.STANDBY

    @property
    def holder(self) -> str:
        """The replica that the Lease names; empty if unknown or none."""
        return self._lease.holder

    def may_act(self) -> bool:
        """Whether this replica may store and publish at this moment. The caller checks it just before each of these."""
        return not self._why and self._lease.held

    def superseded(self, why: str) -> None:
        """End this replica, because another one has written the state that it keeps. Safe to call in any thread."""
        self._why = self._why or why
        self._loop.call_soon_threadsafe(self._superseded.set)

    async def resign(self) -> None:
        """Give the Lease up while serving ends: this replica has stored its last state, and publishes nothing more. Its
        streams may last a little longer."""
        if await self._lease.release():
            LOG.info("lease_given_up")

    async def run(self, serve_active: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Stand by, serve once this replica holds the Lease, and return the exit code of serving. Raises `CommandError`
        if another replica has taken over; the caller then has to end the process."""
        leasing = asyncio.create_task(self._lease.run())
        try:
            await self._stand_by(leasing)
            code = await self._serve(leasing, serve_active)
        except asyncio.CancelledError:
            if await _ended(leasing) and self._is_over:
                await self._lease.release()
            raise
        except BaseException:
            await _ended(leasing)
            raise
        await _ended(leasing)
        await self._lease.release()
        return code

    async def _stand_by(self, leasing: asyncio.Task[None]) -> None:
        LOG.info("standing_by")
        ready = asyncio.create_task(self._keep_ready())
        held = asyncio.create_task(self._lease.until_held())
        named = asyncio.create_task(self._log_holder())
        try:
            await _first({held, ready, named, leasing}, awaited=held)
        finally:
            await _ended(ready, held, named)

    async def _log_holder(self) -> None:
        named = ""
        while True:
            if self.holder != named:
                named = self.holder
                LOG.info("lease_holder", extra={"holder": named})
            await asyncio.sleep(LOOK_SECONDS)

    async def _serve(self, leasing: asyncio.Task[None], serve_active: Callable[[], Coroutine[Any, Any, int]]) -> int:
        LOG.info("active", extra={"holder": self.holder})
        self._is_over = False
        serving = asyncio.create_task(serve_active())
        superseded = asyncio.create_task(self._superseded.wait())
        beside = [asyncio.create_task(start()) for start in (self._keep_address, self._watch)]
        try:
            await _first({serving, leasing, superseded, *beside}, awaited=serving, ends={leasing, superseded})
            if self._lease.is_given_up:
                await asyncio.wait({serving})  # another replica may be active by now
            if serving.done():
                return serving.result()
            raise self._lost()
        finally:
            self._is_over = await _ended(serving, superseded, *beside)
            if not self._is_over:
                LOG.error("serving_does_not_end")

    async def _watch(self) -> None:
        while True:
            await self._lease.until_lapsed()
            if self._lease.is_given_up:
                return
            LOG.warning("lease_lapsed", extra={"why": self._lease.problem or "the process was stopped"})
            while not self._lease.held:
                try:
                    async with asyncio.timeout(RECONNECT_SECONDS):
                        await self._lease.until_held()
                except TimeoutError:
                    await self._end_streams()
                    LOG.info("streams_ended", extra={"why": "proxies may reach the active server when they reconnect"})
            LOG.info("lease_renewed")

    def _lost(self) -> CommandError:
        holder = self._lease.holder
        self._why = self._why or (f"`{holder}` holds the Lease" if holder else "another server may have held the Lease")
        LOG.error("lease_lost", extra={"why": self._why})
        return wrong_usage(
            "ADM952",
            "another server has taken over",
            cause=self._why,
            hint="this one ends; its supervisor starts another one, which stands by",
        )


async def _first(
    tasks: set[asyncio.Task[Any]], *, awaited: asyncio.Task[Any], ends: set[asyncio.Task[Any]] | None = None
) -> None:
    """Wait for `awaited`, or for one of `ends`. An exception of any of the tasks is raised."""
    finals = {awaited} | (ends or set())
    waiting = set(tasks)
    while not any(task.done() for task in finals):
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _ended(*tasks: asyncio.Task[Any]) -> bool:
    """Cancel tasks, and wait for their end, for a limited time; returns whether all ended."""
    for task in tasks:
        task.cancel()
    done, waiting = await asyncio.wait(tasks, timeout=END_SECONDS)
    for task in done:
        if not task.cancelled():
            task.exception()  # it was raised already, or the task was about to end anyway
    return not waiting
