"""What an earlier server kept goes into force again, and what is in force now is kept for the next.

Kept --recall--> InForce --keep--> Kept
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from admc.exits import CommandError, Exit, wrong_usage
from admc.serve.build.source import recalled
from admc.serve.build.worker import Recall, WorkerError
from admc.serve.rollout.addresses import overlaid
from admc.serve.rollout.underway import Planned
from admc.serve.state_dir import rollout_record
from admc.serve.state_dir.store import Recalled
from emitters.errors import EmitError

if TYPE_CHECKING:
    from admc.serve.active_config import InForce
    from admc.serve.build.source import Read, State
    from admc.serve.build.worker import Worker
    from admc.serve.state_dir.rollout_record import Record
    from admc.serve.state_dir.store import Kept, Recipe

LOG: Final = logging.getLogger("admc.serve")
KEEP_SECONDS: Final = 0.5


class Keeping:
    """The kept state of what is in force."""

    def __init__(self, force: InForce, kept: Kept) -> None:
        self._force = force
        self._kept = kept

    async def recall(self, worker: Worker) -> bool:
        """Begin with what an earlier server kept, until something better is known; whether there is any. Then it is the
        worker's state, too.

        Raises `CommandError` where it was in a transition and that cannot be gone on with: proxies keep what they
        have, which is better than a guess.
        """
        force, problems = self._force, self._force.problems
        underway = await asyncio.to_thread(rollout_record.read, self._kept.folder)
        try:
            found = await asyncio.to_thread(self._kept.recall)
        except CommandError as error:
            problems.not_kept("kept", error.diagnostics, error.folder)
            found = None
        found = found or Recalled(None, {}, ())
        recipes = _recipes(found.recipe, underway)
        if not recipes:
            return False
        try:
            state, recipe = await self._made(worker, recipes)
        except CommandError as error:
            if underway is not None:
                raise
            problems.not_kept("kept", error.diagnostics, error.folder)
            return False
        for problem in found.problems:
            problems.counts.kept_errors += 1
            LOG.error("kept_group_not_used", extra={"problem": problem})
        force.begin(state, recipe)
        force.store.publish_all(found.groups)
        for name, snapshot in found.groups.items():
            force.store.acked(name, snapshot)
        if underway is not None:
            old = await asyncio.to_thread(recalled, force.options.source, underway.old)
            await force.moving.resume(underway, Planned(old, underway.old), Planned(state, recipe))
        await force.know()
        LOG.info("recalled", extra={"groups": len(found.groups), "state": state.version})
        return True

    async def _made(self, worker: Worker, recipes: tuple[Recipe, ...]) -> tuple[State, Recipe]:
        """The state of the first recipe that makes one. Raises `CommandError`."""
        read: Read | None = None
        for recipe in recipes:
            try:
                read = await worker.recall(Recall(self._force.options.source, recipe))
            except WorkerError as error:
                raise wrong_usage(
                    "ADM854",
                    "the kept state cannot be made again",
                    cause=str(error),
                    hint="start the server again; if that does not help, it is a bug in admc",
                ) from error
            if read.state is not None:
                return read.state, recipe
        assert read is not None  # noqa: S101 - there is a recipe
        raise CommandError(Exit.INPUT, read.findings, read.folder)

    async def follow(self) -> None:
        """Keep what proxies acknowledge, as it comes, for ever."""
        while True:
            await self.keep()
            await asyncio.sleep(KEEP_SECONDS)

    async def keep(self) -> None:
        """Keep what is in force and what proxies have acknowledged."""
        force, problems = self._force, self._force.problems
        if force.state is None:
            return
        try:
            renewed = await asyncio.to_thread(self._kept.renew)
            if renewed:
                self._renewed()
            # The step first: the state that is wanted is not the one that proxies have in the middle of a transition.
            if await force.moving.keep(anew=renewed, force=force.state) and not renewed:
                self._renewed()
            await asyncio.to_thread(self._kept.save, force.recipe, force.taken)
        except CommandError as error:
            problems.not_kept("kept", error.diagnostics)
        else:
            problems.clear("kept")

    def _renewed(self) -> None:
        """Somebody has removed or touched something, which was written again."""
        self._force.problems.counts.kept_errors += 1
        LOG.error("kept_folder_renewed", extra={"folder": str(self._kept.folder)})


def _recipes(kept: Recipe | None, underway: Record | None) -> tuple[Recipe, ...]:
    """From what the state in force can be made, the best first.

    A transition leads to its new plan, whatever else was kept: a plan that was to come after it is compiled again. The
    addresses that were kept are newer than those of its last step, and may be of another program.
    """
    if underway is None:
        return () if kept is None else (kept,)
    new = underway.new
    if kept is None:
        return (new,)
    if kept.inputs == new.inputs or kept.endpoints is None or new.endpoints is None:
        return new._replace(endpoints=kept.endpoints), new
    try:
        return new._replace(endpoints=overlaid(new.endpoints, kept.endpoints)), new
    except EmitError:
        return (new,)
