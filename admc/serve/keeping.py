"""What an earlier server kept goes into force again, and what is in force now is kept for the next.

Kept --recall--> InForce --keep--> Kept
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from admc.emission import MAX_ENDPOINTS
from admc.exits import CommandError, Exit
from admc.files import read_bounded
from admc.serve import identity, record
from admc.serve.feed import recalled
from admc.serve.moving import Planned
from admc.serve.worker import Recall, WorkerError

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.identity import Identities
    from admc.serve.inforce import InForce
    from admc.serve.kept import Kept
    from admc.serve.worker import Worker

LOG: Final = logging.getLogger("admc.serve")
KEEP_SECONDS: Final = 0.5
RECALLED_SECONDS: Final = 10.0
"""How long the first compile may take before proxies that come are told what an earlier server kept."""


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
        identities = await self._recall(self._kept, worker)
        await self._resume(self._kept.folder)
        # Only now is anybody told anything: of a transition, what was kept may be older than its step.
        self._force.identities = identities
        if identities is not None and self._force.moving.underway is None:
            self._force.held_back = True
            asyncio.get_running_loop().call_later(RECALLED_SECONDS, self.let_go)
        return identities is not None

    def let_go(self) -> None:
        """Serve what there is: the first compile is done, or takes too long."""
        self._force.held_back = False

    async def _recall(self, kept: Kept, worker: Worker) -> Identities | None:
        """What was kept goes into force for whoever will be known; who that is."""
        force, problems = self._force, self._force.problems
        try:
            found = await asyncio.to_thread(kept.recall)
            if found is None or found.recipe is None:
                return None
            read = await worker.recall(Recall(force.options.source, found.recipe))
            if read.state is None:
                raise CommandError(Exit.INPUT, read.findings, read.folder)
            identities = await asyncio.to_thread(identity.load, force.options.settings, read.state.program)
        except CommandError as error:
            problems.counts.kept_errors += 1
            problems.report("kept", error.diagnostics, error.folder)
            return None
        except WorkerError as error:
            problems.counts.kept_errors += 1
            problems.failed("kept", error)
            return None
        for problem in found.problems:
            problems.counts.kept_errors += 1
            LOG.error("kept_group_not_used", extra={"problem": problem})
        force.store.publish_all(found.groups)
        for name, snapshot in found.groups.items():
            force.store.accepted(name, snapshot)
        force.begin(read.state, found.recipe)
        LOG.info("recalled", extra={"groups": len(found.groups), "state": read.state.version})
        return identities

    async def _resume(self, folder: Path) -> None:
        """Go on with the transition that the earlier server was in."""
        kept = await asyncio.to_thread(record.read, folder)
        if kept is not None:
            source, now = self._force.options.source, await asyncio.to_thread(self._addresses)
            old, new = [await asyncio.to_thread(recalled, source, recipe, now) for recipe in (kept.old, kept.new)]
            await self._force.moving.resume(kept, Planned(old, kept.old), Planned(new, kept.new))

    def _addresses(self) -> tuple[bytes, ...]:
        """Those of now, if they can be read: proxies are told the step at once, and have had newer ones than those that
        the transition began with. What is wrong with them is said when they are followed."""
        path = self._force.options.endpoints
        try:
            return () if path is None else (read_bounded(path, MAX_ENDPOINTS, "the endpoints file"),)
        except CommandError:
            return ()

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
        taken = {name: force.store.taken(name) for name in force.store.groups}
        groups = {name: snapshot for name, snapshot in taken.items() if snapshot is not None}
        try:
            await asyncio.to_thread(self._kept.save, force.recipe, groups)
        except CommandError as error:
            problems.counts.kept_errors += 1
            if problems.held.get("kept") != error.diagnostics:
                problems.report("kept", error.diagnostics, "")
        else:
            problems.clear("kept")
