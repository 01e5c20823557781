"""What is in force: one state, who is who in it, and the way to the next one.

    Change --apply--> Moving --publish--> SnapshotStore --> XdsServer
                      identities ------------------------^

All calls belong on the server's event loop and take no time there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.serve import handles, identity
from admc.serve.moving import DRAIN_SECONDS, Moving, Planned
from xds_server.connection import Admission
from xds_server.server import Limits, XdsServer
from xds_server.store import SnapshotStore

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.feed import Source, State
    from admc.serve.groups import Groups
    from admc.serve.identity import Identities, Settings
    from admc.serve.kept import Kept, Recipe
    from admc.serve.wrong import Problems
    from dsl.program import Program
    from xds_server.connection import Caller
    from xds_server.snapshot import Snapshot

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


class InForce:
    """What is served, and how it changes."""

    def __init__(self, options: Options, problems: Problems) -> None:
        self.options = options
        self.problems = problems
        self.store = SnapshotStore()
        limits = Limits(connections=handles.connections(Limits().connections))
        self.server = XdsServer(self.store, self.identify, limits)
        self.moving = Moving(
            self.server,
            self.publish,
            drain_seconds=options.drain_seconds,
            folder=None if options.kept is None else options.kept.folder,
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

    async def know(self, program: Program) -> None:
        """Who is who in a program: streams of clients that are not what they were end. Raises `CommandError`."""
        self.identities = await asyncio.to_thread(identity.load, self.options.settings, program)
        self.problems.clear("identities")
        self.server.identify_again()

    def begin(self, state: State, recipe: Recipe) -> None:
        """With what an earlier server had in force."""
        self.state, self.recipe, self.problems.stays = state, recipe, state.version

    async def apply(self, change: Change) -> None:
        """Every new state goes into force here. Raises `SnapshotError` or `CommandError` where it cannot: then nothing
        has changed."""
        if not change.only_addresses:
            await self.know(change.new.program)
        if change.old is None and self.moving.underway is None:
            await self.publish(change.groups, change.new)
        elif change.only_addresses:
            await self.moving.relocate(Planned(change.new, self.recipe), change.groups)
        else:
            new = Planned(change.new, change.recipe)
            old = new if change.old is None else Planned(change.old, self.recipe)
            await self.moving.change(old, new, change.groups)
        self.state, self.problems.stays = change.new, change.new.version
        self.problems.counts.changed_at = time.time()

    async def publish(self, groups: Groups, state: State, held: frozenset[str] = frozenset()) -> None:
        """Hand snapshots to the store, but for services that somebody else has in hand. Whoever has no ADM, or is no
        service any more, passes everything on. Raises `SnapshotError` before anything has changed."""
        wanted: dict[str, Snapshot] = dict(groups.adms)
        if groups.passing is not None:
            self._passing = groups.passing
        if self._passing is not None:
            hosts = {adm.service for adm in state.placement.adms}
            for name in (*state.program.services, *self.store.groups):
                if name not in hosts:
                    wanted[name] = self._passing
        new = {name: item for name, item in wanted.items() if name not in held and not self._has(name, item)}
        names = list(new)
        for start in range(0, len(names), AT_ONCE):
            for name in names[start : start + AT_ONCE]:
                new[name].check()
            await asyncio.sleep(0)
        for start in range(0, len(names), AT_ONCE):
            self.store.publish_all({name: new[name] for name in names[start : start + AT_ONCE]})
            await asyncio.sleep(0)
        LOG.info("published", extra={"groups": len(new), "state": state.version})

    def _has(self, name: str, snapshot: Snapshot) -> bool:
        current = self.store.current(name)
        return current is not None and (current is snapshot or current.version == snapshot.version)

    def _step_failed(self) -> None:
        self.problems.counts.transition_errors += 1
