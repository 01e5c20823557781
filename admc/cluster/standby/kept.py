"""Keeps what another replica has stored ready, while this one stands by."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from admc.exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from admc.cluster.storage.storage import Peeked
    from admc.serve.storage.position import StoredState

LOG: Final = logging.getLogger("admc.cluster")
LOOK_SECONDS: Final = 3.0


class Storage(Protocol):
    """What it needs of `SecretStorage`."""

    def peek(self, version: str) -> Peeked | None: ...


class KeptState:
    """`prepare` is called with each stored state that differs from the one before: it builds the plans in it."""

    def __init__(self, storage: Storage, prepare: Callable[[StoredState], Awaitable[None]]) -> None:
        self._storage, self._prepare = storage, prepare
        self._version = "unread"
        self.problem = ""
        """Why it cannot be used; empty if it can."""

    async def follow(self) -> None:
        """Until cancelled. A request that is under way then ends by itself."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        try:
            found = await asyncio.to_thread(self._storage.peek, self._version)
            if found is not None:
                if found.state is not None:
                    await self._prepare(found.state)
                self._version = found.version
                LOG.info("kept_state_ready", extra={"version": found.version})
        except CommandError as error:
            problem = "; ".join(f"{item.message}: {item.cause}" for item in error.diagnostics)
            if problem != self.problem:
                LOG.warning("kept_state_not_ready", extra={"why": problem})
            self.problem = problem
        else:
            self.problem = ""
