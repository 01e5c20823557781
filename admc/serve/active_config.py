"""What is in force: one state, who is who in it, and the way to the next one.

    Change --apply--> Moving --publish--> SnapshotCache --> XdsServer
                      identities ------------------------^

All calls belong on the server's event loop and take no time there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.exits import CommandError, Exit
from admc.serve import file_descriptors
from admc.serve.auth import identity
from admc.serve.rollout.controller import DRAIN_SECONDS, Moving
from admc.serve.rollout.underway import Planned
from xds_server.limits.limits import Limits
from xds_server.resources.cache import SnapshotCache
from xds_server.transport.client import Admission
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from admc.serve.auth.identity import Identities, Settings
    from admc.serve.build.snapshots import Groups
    from admc.serve.build.source import Source, State
    from admc.serve.observe.problems import Problems
    from admc.serve.state_dir.store import Kept, Recipe
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.client import Caller

LOG: Final = logging.getLogger("admc.serve")
AT_ONCE: Final = 50
"""Groups that are published before streams have their turn again."""


class Options(NamedTuple):
    """What `admc serve` was asked to do."""

    source: Source
    endpoints: Path | None
    settings: Settings
    kept: Kept | None = None
    """Where the state is kept for the next start."""
    drain_seconds: float = DRAIN_SECONDS
    """How long proxies leave older connections open: their `--drain-time-s`."""


class Change(NamedTuple):
    """From what is in force to what is wanted."""

    old: State | None
    new: State
    groups: Groups
    """Of `new`; where only addresses have changed, no more than what they change."""
    recipe: Recipe | None = None
    """With which `new` can be made again."""

    @property
    def only_addresses(self) -> bool:
        old = self.old
        return old is not None and old.program is self.new.program and old.placement is self.new.placement


class NotKeptError(Exception):
    """The folder of the kept state takes nothing now: what a restarted server would not know of is not told either."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        said = "what was in force stays; this is tried again until the folder takes it"
        self.diagnostics = tuple(replace(item, hint=said) for item in diagnostics)
        super().__init__("; ".join(item.message for item in self.diagnostics))


class InForce:
    """What is served, and how it changes."""

    def __init__(self, options: Options, problems: Problems) -> None:
        self.options = options
        self.problems = problems
        self.store = SnapshotCache()
        limits = Limits(connections=file_descriptors.connections(Limits().connections))
        self.server = XdsServer(self.store, self.identify, limits)
        self.moving = Moving(
            self.server,
            self.publish,
            drain_seconds=options.drain_seconds,
            folder=None if options.kept is None else options.kept.folder,
            settle=self._settle,
            failed=self._step_failed,
        )
        self.state: State | None = None
        self.recipe: Recipe | None = None
        """With which the state can be made again."""
        self.identities: Identities | None = None
        self.held_back = False
        """What an earlier server kept waits for the first compile: what is kept may be a moment older than what proxies
        have, and they lose nothing by waiting."""
        self._passing: Snapshot | None = None
        self._knowing = asyncio.Lock()

    @property
    def ready(self) -> bool:
        """Whether there is something to serve."""
        return bool(self.store.groups) and not self.held_back

    def identify(self, caller: Caller) -> Admission:
        """Who is who. Raises `DeniedError`. Before there is a program nobody can tell: such a group has no snapshot,
        and its client is to come again."""
        known = None if self.held_back else self.identities
        return Admission("") if known is None else known.identify(caller)

    def may_administer(self, caller: Caller) -> bool:
        """Whether a client may see what every other one has."""
        return self.identities is not None and self.identities.may_administer(caller)

    async def know(self) -> bool:
        """Read who is who in the state in force: streams of clients that are not what they were end. Says whether all
        that the files say is in use from now on.

        A file that cannot be used is reported, and the last good one stays. A name that is no service is such a
        mistake, but for the time of a program that is refused, or not compiled yet: the name may be of that program,
        and is left out, so that an identity that is taken away does not wait until somebody mends the program.
        """
        async with self._knowing:
            if self.state is None:
                return False  # they are read with the first one
            try:
                self._know(await self._identities(self.state.program, others=self.held_back))
            except CommandError as error:
                self.problems.report_once("identities", error.diagnostics, error.folder)
                if "program" in self.problems.held:
                    with contextlib.suppress(CommandError):  # then it is wrong in another way, which has been said
                        self._know(await self._identities(self.state.program, others=True))
                return False
            self.problems.clear("identities")
            return True

    async def _identities(self, program: Program, *, others: bool = False) -> Identities:
        return await asyncio.to_thread(identity.load, self.options.settings, program, others=others)

    def _know(self, identities: Identities) -> None:
        self.identities = identities
        self.server.recheck_identities()

    def begin(self, state: State, recipe: Recipe) -> None:
        """With what an earlier server had in force. Nobody is told anything yet."""
        self.held_back = True
        self.state, self.recipe, self.problems.stays = state, recipe, state.version

    def let_go(self) -> None:
        """Serve what there is: the first compile is done, or takes too long."""
        self.held_back = False

    async def apply(self, change: Change) -> None:
        """Every new state goes into force here. Raises `SnapshotError` or `CommandError` where it cannot, and
        `NotKeptError` where the same change may be made later: then what was in force is, identities included.

        Who is who goes with the program: a file that does not fit the new one refuses it, and what it says goes into
        force once the program is accepted. An identity that is taken away waits for neither. `know` reads it for the
        state in force, whatever becomes of the new one; and the file is read again at the end here, since it may have
        changed on the way.
        """
        fitting = None if change.only_addresses else await self._identities(change.new.program)
        try:
            await self._move(change)
        except CommandError as error:
            if error.exit_code is Exit.NO_PLACEMENT:
                raise
            raise NotKeptError(error.diagnostics) from error
        self.state, self.recipe, self.problems.stays = change.new, change.recipe, change.new.version
        self.problems.counts.changed_at = time.time()
        if fitting is not None:
            self.problems.clear("program")
            self.identities = self.identities or fitting
            await self.know()

    async def _move(self, change: Change) -> None:
        if change.old is None and self.moving.underway is None:
            # There is nothing to stay with: where it cannot be kept, which will be said, it is served all the same.
            with contextlib.suppress(CommandError):
                await self._settle(change.recipe)
            await self.publish(change.groups, change.new)
        elif change.only_addresses:
            await self.moving.relocate(Planned(change.new, change.recipe), change.groups)
        else:
            new = Planned(change.new, change.recipe)
            old = new if change.old is None else Planned(change.old, self.recipe)
            await self.moving.change(old, new, change.groups)

    async def publish(self, groups: Groups, state: State, held: frozenset[str] = frozenset()) -> None:
        """Hand snapshots to the store, but for services that somebody else has in hand. Whoever has no ADM, or is no
        service any more, passes everything on. Raises `SnapshotError` before anything has changed."""
        wanted: dict[str, Snapshot] = dict(groups.adms)
        passing = groups.passing or self._passing
        if passing is not None:
            hosts = {adm.service for adm in state.placement.adms}
            for name in (*state.program.services, *self.store.groups):
                if name not in hosts:
                    wanted[name] = passing
        new = {name: item for name, item in wanted.items() if name not in held and not self._has(name, item)}
        names = list(new)
        for start in range(0, len(names), AT_ONCE):
            for name in names[start : start + AT_ONCE]:
                new[name].check()
            await asyncio.sleep(0)
        self._passing = passing
        for start in range(0, len(names), AT_ONCE):
            self.store.publish_all({name: new[name] for name in names[start : start + AT_ONCE]})
            await asyncio.sleep(0)
        if new:
            LOG.info("published", extra={"groups": len(new), "state": state.version})

    def _has(self, name: str, snapshot: Snapshot) -> bool:
        current = self.store.current(name)
        return current is not None and (current is snapshot or current.version == snapshot.version)

    @property
    def taken(self) -> dict[str, Snapshot]:
        """What some proxy of each service has acknowledged as a whole."""
        found = {name: self.store.last_acked(name) for name in self.store.groups}
        return {name: snapshot for name, snapshot in found.items() if snapshot is not None}

    async def _settle(self, recipe: Recipe | None) -> None:
        if self.options.kept is not None:
            await asyncio.to_thread(self.options.kept.settle, recipe, self.taken)

    def _step_failed(self) -> None:
        self.problems.counts.transition_errors += 1
