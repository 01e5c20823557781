"""Restores the stored state of an earlier server, and stores the active one for the next.

StateDir --restore--> ActiveConfig --save--> StateDir
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from admc.exits import CommandError, Exit, wrong_usage
from admc.serve.build.source import restored
from admc.serve.build.worker import RestoreState, WorkerError
from admc.serve.rollout.addresses import overlaid
from admc.serve.rollout.underway import Planned
from admc.serve.state_dir import rollout_record
from admc.serve.state_dir.store import StoredState
from emitters.errors import EmitError

if TYPE_CHECKING:
    from admc.serve.active_config import ActiveConfig
    from admc.serve.build.source import ReadResult, State
    from admc.serve.build.worker import Worker
    from admc.serve.state_dir.rollout_record import Record
    from admc.serve.state_dir.store import Recipe, StateDir

LOG: Final = logging.getLogger("admc.serve")
SAVE_SECONDS: Final = 0.5


class Persistence:
    """Connects the active configuration with the state directory."""

    def __init__(self, config: ActiveConfig, state_dir: StateDir) -> None:
        self._config = config
        self._state_dir = state_dir

    async def restore(self, worker: Worker) -> bool:
        """Begin with the stored state, if there is one; returns whether. The worker builds it, and holds it afterwards.

        Raises `CommandError` if the stored state is in the middle of a transition that cannot be continued. Proxies
        keep what they have then, since no other configuration is known to fit.
        """
        config, problems = self._config, self._config.problems
        record = await asyncio.to_thread(rollout_record.read, self._state_dir.folder)
        try:
            stored = await asyncio.to_thread(self._state_dir.load)
        except CommandError as error:
            problems.report_not_saved("kept", error.diagnostics, error.folder)
            stored = None
        stored = stored or StoredState(None, {}, ())
        recipes = _recipes(stored.recipe, record)
        if not recipes:
            return False
        try:
            state, recipe = await self._build(worker, recipes)
        except CommandError as error:
            if record is not None:
                raise
            problems.report_not_saved("kept", error.diagnostics, error.folder)
            return False
        for problem in stored.problems:
            problems.counts.kept_errors += 1
            LOG.error("kept_group_not_used", extra={"problem": problem})
        config.restore(state, recipe)
        config.store.publish_all(stored.groups)
        for name, snapshot in stored.groups.items():
            config.store.acked(name, snapshot)
        if record is not None:
            old = await asyncio.to_thread(restored, config.options.source, record.old)
            await config.rollout.resume(record, Planned(old, record.old), Planned(state, recipe))
        await config.reload_identities()
        LOG.info("recalled", extra={"groups": len(stored.groups), "state": state.version})
        return True

    async def _build(self, worker: Worker, recipes: tuple[Recipe, ...]) -> tuple[State, Recipe]:
        """The state of the first recipe that can be built. Raises `CommandError`."""
        read: ReadResult | None = None
        for recipe in recipes:
            try:
                read = await worker.restore(RestoreState(self._config.options.source, recipe))
            except WorkerError as error:
                raise wrong_usage(
                    "ADM854",
                    "the stored state cannot be built again",
                    cause=str(error),
                    hint="start the server again; if that does not help, it is a bug in admc",
                ) from error
            if read.state is not None:
                return read.state, recipe
        assert read is not None  # noqa: S101 - the caller passes at least one recipe
        raise CommandError(Exit.INPUT, read.findings, read.folder)

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
            renewed = await asyncio.to_thread(self._state_dir.renew)
            if renewed:
                self._report_renewed()
            # The step is stored before the state: in the middle of a transition proxies do not have the wanted state.
            if await config.rollout.keep(anew=renewed, force=config.state) and not renewed:
                self._report_renewed()
            await asyncio.to_thread(self._state_dir.save, config.recipe, config.acknowledged)
        except CommandError as error:
            problems.report_not_saved("kept", error.diagnostics)
        else:
            problems.clear("kept")

    def _report_renewed(self) -> None:
        """Files of the directory were removed or changed from outside, and have been written again."""
        self._config.problems.counts.kept_errors += 1
        LOG.error("kept_folder_renewed", extra={"folder": str(self._state_dir.folder)})


def _recipes(stored: Recipe | None, record: Record | None) -> tuple[Recipe, ...]:
    """The recipes from which the active state can be built, the best one first.

    A transition always continues to its new plan: a plan that waited for its end is compiled again. The stored
    addresses are newer than those of the transition's last step, but may belong to another program.
    """
    if record is None:
        return () if stored is None else (stored,)
    new = record.new
    if stored is None:
        return (new,)
    if stored.inputs == new.inputs or stored.endpoints is None or new.endpoints is None:
        return new._replace(endpoints=stored.endpoints), new
    try:
        return new._replace(endpoints=overlaid(new.endpoints, stored.endpoints)), new
    except EmitError:
        return (new,)
