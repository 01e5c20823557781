"""Restores the stored state of an earlier server, and stores the active one for the next.

Storage --restore--> ActiveConfig --save--> Storage
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Final

from admc.exits import CommandError, Exit, wrong_usage
from admc.rollout.rollout_state import begun
from admc.serve.build.source import restored
from admc.serve.build.worker import RestoreState, WorkerError
from admc.serve.rollout.addresses import elsewhere, is_elsewhere
from admc.serve.rollout.plans import Planned
from admc.serve.storage.manifest import SECRET_BYTES, plans_of
from admc.serve.storage.position import Position

if TYPE_CHECKING:
    from collections.abc import Collection

    from admc.serve.active_config import ActiveConfig
    from admc.serve.build.source import Source
    from admc.serve.build.worker import Worker
    from admc.serve.environment import Storage
    from admc.serve.storage.position import StoredState

LOG: Final = logging.getLogger("admc.serve")
SAVE_SECONDS: Final = 0.5


class Persistence:
    """Connects the active configuration with the storage."""

    def __init__(self, config: ActiveConfig, storage: Storage) -> None:
        self._config = config
        self._storage = storage

    async def restore(self, worker: Worker) -> bool:
        """Begin with the stored state, if there is one; returns whether. The worker builds it, and holds it afterwards.

        Raises `CommandError` if proxies may have more than one plan, and the rollout cannot be continued. Proxies keep
        what they have then, since no other configuration is known to fit.
        """
        config, problems = self._config, self._config.problems
        try:
            found = await asyncio.to_thread(self._storage.load)
            if found is None:
                return False
            made = await self._made(worker, found, await self._config.environment.programs.current())
        except CommandError as error:
            if not self._storage.may_begin_anew:
                raise
            problems.report_not_saved("kept", error.diagnostics, error.folder)
            return False
        if made is None:
            return False
        position, plans, newest = made
        for problem in found.problems:
            problems.counts.kept_errors += 1
            LOG.error("kept_group_not_used", extra={"problem": problem})
        config.restore(newest.state, newest.recipe)
        config.store.publish_all(found.groups)
        for name, snapshot in found.groups.items():
            config.store.acked(name, snapshot)
        await config.rollout.resume(position, plans)
        if found.is_reduced:
            self._acknowledge_rest(position.unsettled.union(found.groups))
        await config.reload_identities()
        LOG.info("recalled", extra={"groups": len(found.groups), "state": newest.state.version})
        return True

    async def _made(
        self, worker: Worker, found: StoredState, source: Source | None
    ) -> tuple[Position, dict[str, Planned], Planned] | None:
        """The stored plans, and the newest one, which the worker builds. Raises `CommandError`."""
        first = found.first
        if found.position is None and first is None:
            return None
        if found.position is None and first is not None:
            newest = await self._newest(worker, RestoreState(source, first))
            rollout = begun(newest.digest, secrets.token_bytes(SECRET_BYTES))
            return Position(rollout, {newest.digest: first}, {}), {newest.digest: newest}, newest
        position = found.position
        assert position is not None  # noqa: S101 - one of them is there
        name = position.rollout.newest
        newest = await self._located(worker, RestoreState(source, position.plans[name]), reduced=found.is_reduced)
        plans = {name: newest}
        for other in plans_of(position.rollout) - {name}:
            recipe = position.plans[other]
            state = await asyncio.to_thread(restored, source, recipe)
            if found.is_reduced and is_elsewhere(state, newest.state):
                state = elsewhere(state, newest.state)
            plans[other] = Planned(state, recipe)
        if any(planned.digest != name for name, planned in plans.items()):
            raise wrong_usage(
                "ADM854",
                "a stored plan differs from the one that was stored",
                cause="this admc compiles the same files to another plan",
                hint="let the earlier release finish, or remove the folder once every proxy has one plan",
            )
        return position, plans, newest

    def _acknowledge_rest(self, others: Collection[str]) -> None:
        """Of the snapshots that are made again, except those of some services, proxies had acknowledged the content."""
        store = self._config.store
        for name in store.groups:
            snapshot = store.current(name)
            if name not in others and snapshot is not None:
                store.acked(name, snapshot)

    async def _located(self, worker: Worker, request: RestoreState, *, reduced: bool) -> Planned:
        """The newest plan. If its addresses were left out, at the present ones, if they fit: they may be those of a
        newer program, which is compiled next."""
        addresses = self._config.environment.addresses
        if reduced and addresses is not None:
            try:
                recipe = request.recipe._replace(endpoints=await addresses.current())
                return await self._newest(worker, request._replace(recipe=recipe))
            except CommandError as error:
                LOG.warning("kept_plan_without_addresses", extra={"why": str(error)})
        return await self._newest(worker, request)

    async def _newest(self, worker: Worker, request: RestoreState) -> Planned:
        try:
            read = await worker.restore(request)
        except WorkerError as error:
            raise wrong_usage(
                "ADM854",
                "the stored state cannot be built again",
                cause=str(error),
                hint="start the server again; if that does not help, it is a bug in admc",
            ) from error
        if read.state is None:
            raise CommandError(Exit.INPUT, read.findings, read.folder)
        return Planned(read.state, request.recipe)

    async def run(self) -> None:
        """Store what proxies acknowledge, until cancelled."""
        while True:
            await self.save()
            await asyncio.sleep(SAVE_SECONDS)

    async def save(self) -> None:
        """Store the active state, and the snapshots that proxies have acknowledged."""
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
        """Stored parts were removed or changed from outside, and have been written again."""
        self._config.problems.counts.kept_errors += 1
        LOG.error("kept_folder_renewed", extra={"folder": self._storage.name})
