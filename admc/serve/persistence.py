"""Restores the stored state of an earlier server, and stores the active one for the next.

Storage --restore--> ActiveConfig --save--> Storage
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Collection

    from admc.serve.active_config import ActiveConfig
    from admc.serve.environment import Storage
    from admc.serve.storage.position import Position
    from admc.serve.stored_plans import StoredPlans

LOG: Final = logging.getLogger("admc.serve")
SAVE_SECONDS: Final = 0.5


class Persistence:
    """Connects the active configuration with the storage."""

    def __init__(self, config: ActiveConfig, storage: Storage) -> None:
        self._config = config
        self._storage = storage

    async def restore(self, stored: StoredPlans) -> bool:
        """Begin with the stored state, and return True; return False if there is no usable stored state. The worker of
        `stored` holds the state afterwards.

        Raises `CommandError` if proxies may have more than one plan, and the rollout cannot be continued. Then proxies
        keep their configuration, since no other configuration is known to fit.
        """
        config, problems = self._config, self._config.problems
        environment, began = config.environment, time.monotonic()
        try:
            stored_state = await asyncio.to_thread(self._storage.load)
            read = time.monotonic()
            if stored_state is None:
                return False
            restored = await stored.build(stored_state, await environment.programs.current(), environment.addresses)
        except CommandError as error:
            if not self._storage.may_begin_anew:
                raise
            problems.report_not_saved("kept", error.diagnostics, error.folder)
            return False
        if restored is None:
            return False
        for problem in stored_state.problems:
            problems.counts.kept_errors += 1
            LOG.error("kept_group_not_used", extra={"problem": problem})
        position, newest, built = restored.position, restored.newest, time.monotonic()
        config.restore(newest.state, newest.recipe)
        config.store.publish_all(stored_state.groups)
        for name, snapshot in stored_state.groups.items():
            config.store.acked(name, snapshot)
        await config.rollout.resume(position, restored.plans)
        if stored_state.is_reduced:
            self._acknowledge_rest(position.unsettled.union(stored_state.groups))
        await config.reload_identities()
        seconds = {"read": read - began, "built": built - read, "seconds": time.monotonic() - began}
        fields = {"groups": len(stored_state.groups), "state": newest.state.version}
        LOG.info("recalled", extra=fields | {name: round(value, 3) for name, value in seconds.items()})
        return True

    def _acknowledge_rest(self, others: Collection[str]) -> None:
        """Mark the snapshots that the storage left out as acknowledged, which proxies had done before. These are the
        snapshots of all services except `others`."""
        store = self._config.store
        for name in store.groups:
            snapshot = store.current(name)
            if name not in others and snapshot is not None:
                store.acked(name, snapshot)

    async def run(self) -> None:
        """Store what proxies acknowledge, until cancelled."""
        while True:
            await self.save()
            await asyncio.sleep(SAVE_SECONDS)

    async def save(self) -> None:
        """Store the active state, and the snapshots that proxies have acknowledged. A failure is a problem of the
        subject `kept`, and is not raised."""
        config, problems = self._config, self._config.problems
        if config.state is None:
            return
        try:
            renewed = await asyncio.to_thread(self._storage.renew)
            if renewed:
                self._report_renewed()
            if await config.rollout.keep() and not renewed:
                self._report_renewed()
            await config.rollout.save(self._save)
        except CommandError as error:
            problems.report_not_saved("kept", error.diagnostics)
        else:
            problems.clear("kept")

    async def _save(self, position: Position | None) -> None:
        config = self._config
        await asyncio.to_thread(self._storage.save, position, config.acknowledged, config.refusing)

    def _report_renewed(self) -> None:
        """Report that stored parts were removed or changed from outside, and have been written again."""
        self._config.problems.counts.kept_errors += 1
        LOG.error("kept_state_renewed", extra={"where": self._storage.name})
