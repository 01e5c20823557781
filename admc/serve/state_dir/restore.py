"""What an earlier server kept goes into force again, and what is in force now is kept for the next.

Kept --recall--> InForce --keep--> Kept
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Final

from admc.exits import CommandError, Exit, wrong_usage
from admc.rollout.rollout_state import begun
from admc.serve.build.source import recalled
from admc.serve.build.worker import Recall, WorkerError
from admc.serve.rollout.plans import Planned
from admc.serve.state_dir.manifest import SECRET_BYTES, plans_of
from admc.serve.state_dir.store import Position

if TYPE_CHECKING:
    from admc.serve.active_config import InForce
    from admc.serve.build.worker import Worker
    from admc.serve.state_dir.store import Kept, Recalled, Recipe

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

        Raises `CommandError` where proxies may have more than one plan and that cannot be gone on with: they keep what
        they have, which is better than a guess.
        """
        force, problems = self._force, self._force.problems
        try:
            found = await asyncio.to_thread(self._kept.recall)
            if found is None:
                return False
            made = await self._made(worker, found)
        except CommandError as error:
            if not self._kept.may_begin_anew:
                raise
            problems.not_kept("kept", error.diagnostics, error.folder)
            return False
        if made is None:
            return False
        position, plans, newest = made
        recipe = position.plans[newest.digest]
        for problem in found.problems:
            problems.counts.kept_errors += 1
            LOG.error("kept_group_not_used", extra={"problem": problem})
        force.begin(newest.state, recipe)
        force.store.publish_all(found.groups)
        for name, snapshot in found.groups.items():
            force.store.accepted(name, snapshot)
        await force.rollout.resume(position, plans)
        await force.know()
        LOG.info("recalled", extra={"groups": len(found.groups), "state": newest.state.version})
        return True

    async def _made(self, worker: Worker, found: Recalled) -> tuple[Position, dict[str, Planned], Planned] | None:
        """The plans that were kept, and the newest one, which the worker makes. Raises `CommandError`."""
        first = found.first
        if found.position is None and first is None:
            return None
        if found.position is None and first is not None:
            newest = await self._newest(worker, first)
            rollout = begun(newest.digest, secrets.token_bytes(SECRET_BYTES))
            return Position(rollout, {newest.digest: first}, {}), {newest.digest: newest}, newest
        position = found.position
        assert position is not None  # noqa: S101 - one of them is there
        name = position.rollout.newest
        newest = await self._newest(worker, position.plans[name])
        plans = {name: newest}
        for other in plans_of(position.rollout) - {name}:
            recipe = position.plans[other]
            state = await asyncio.to_thread(recalled, self._force.options.source, recipe)
            plans[other] = Planned(state, recipe)
        if any(planned.digest != name for name, planned in plans.items()):
            raise wrong_usage(
                "ADM854",
                "a plan of the kept state is not the one that it was",
                cause="this admc makes another one of the same files",
                hint="let the earlier release finish, or remove the folder once every proxy has one plan",
            )
        return position, plans, newest

    async def _newest(self, worker: Worker, recipe: Recipe) -> Planned:
        try:
            read = await worker.recall(Recall(self._force.options.source, recipe))
        except WorkerError as error:
            raise wrong_usage(
                "ADM854",
                "the kept state cannot be made again",
                cause=str(error),
                hint="start the server again; if that does not help, it is a bug in admc",
            ) from error
        if read.state is None:
            raise CommandError(Exit.INPUT, read.findings, read.folder)
        return Planned(read.state, recipe)

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
            if await force.rollout.keep(force=force.state) and not renewed:
                self._renewed()
            await asyncio.to_thread(self._kept.save, force.rollout.position, force.taken)
        except CommandError as error:
            problems.not_kept("kept", error.diagnostics)
        else:
            problems.clear("kept")

    def _renewed(self) -> None:
        """Something was removed or touched, and was written again."""
        self._force.problems.counts.kept_errors += 1
        LOG.error("kept_folder_renewed", extra={"folder": str(self._kept.folder)})
