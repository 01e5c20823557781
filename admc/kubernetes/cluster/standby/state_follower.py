"""Keeps the stored state of the active replica ready, while this replica stands by."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError
from admc.serve.compiling.worker import WorkerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from admc.kubernetes.cluster.storage.storage import SecretStorage
    from admc.serve.storage.position import StoredState

LOG: Final = logging.getLogger("admc.cluster")
LOOK_SECONDS: Final = 3.0
UNREAD: Final = "unread"


class StateFollower:
    """Calls `prepare` again and again with the stored state, None if there is none. `prepare` builds what this replica
    would need if it became active now, and raises `CommandError` or `WorkerError` if it cannot."""

    def __init__(self, storage: SecretStorage, prepare: Callable[[StoredState | None], Awaitable[None]]) -> None:
        self._storage, self._prepare = storage, prepare
        self._version = self._ready = UNREAD
        """The version that was read last, and the version that was prepared last."""
        self._state: StoredState | None = None
        self.problem = ""
        """Why the state cannot be used; empty if it can."""
        self.is_prepared = False
        """Whether everything that was read last could be built."""

    async def follow(self) -> None:
        """Follow the state until cancelled. A request that is under way then ends by itself."""
        while True:
            await self._prepare_newest()
            await asyncio.sleep(LOOK_SECONDS)

    async def newest(self) -> StoredState | None:
        """Return the present stored state; if it cannot be read, the state that was read last."""
        with contextlib.suppress(CommandError):
            await self._read()
        return self._state

    async def _prepare_newest(self) -> None:
        try:
            await self._read()
            problem = ""
        except CommandError as error:
            problem = _words(error)
        try:
            await self._prepare(self._state)
        except (CommandError, WorkerError) as error:
            problem = problem or _words(error)
        if problem and problem != self.problem:
            LOG.warning("kept_state_not_ready", extra={"why": problem})
        if not problem and (self.problem or self._ready != self._version):
            self._ready = self._version
            LOG.info("kept_state_ready", extra={"version": self._version})
        self.problem, self.is_prepared = problem, not problem

    async def _read(self) -> None:
        peeked = await asyncio.to_thread(self._storage.peek, self._version)
        if peeked is not None:
            self._version, self._state = peeked


def _words(error: CommandError | WorkerError) -> str:
    if isinstance(error, WorkerError):
        return str(error)
    return "; ".join(": ".join(filter(None, (item.message, item.cause))) for item in error.diagnostics)
