"""A new plan goes into force step by step where policies change sides (admc/transition).

    change(old, new) -> Walk --look--> Telling, one step after the other

Only the services that a transition is about are held by it; all others have what the new plan says from the beginning.
While one is under way, a newer plan waits until it is over, or undone as far as it has let go of anything. Where
connections know another policy by a name, the plan goes into force with other names first, and with its own next.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.exits import CommandError
from admc.serve.build.snapshots import SnapshotSet
from admc.serve.file_watch import look
from admc.serve.rollout import progress
from admc.serve.rollout.addresses import changed, elsewhere, is_elsewhere, listed
from admc.serve.rollout.publisher import Telling
from admc.serve.rollout.redirection import Capturing
from admc.serve.rollout.stepping import passing, walked
from admc.serve.rollout.underway import Next, Planned, Underway
from admc.serve.state_dir.rollout_record import NAME, unusable, write
from admc.transition.driver import OLDER, Walk
from admc.transition.model import Phase, Placed
from admc.transition.older import dropped, names
from admc.transition.steps import outlasting, version
from emitters.envoy import Mode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from admc.serve.build.source import State
    from admc.serve.file_watch import FileStat
    from admc.serve.state_dir.rollout_record import Record
    from admc.serve.state_dir.store import Recipe
    from admc.transition.model import Step
    from admc.transition.older import Dropped
    from xds_server.transport.server import XdsServer

    Publish = Callable[[SnapshotSet, State, frozenset[str]], Awaitable[None]]
    Settle = Callable[[Recipe | None], Awaitable[None]]

LOG: Final = logging.getLogger("admc.serve")
LOOK_SECONDS: Final = 0.1
"""How often it is looked whether a step is over."""
CONFIRM_SECONDS: Final = 0.5
"""How often it is looked whether redirection is loaded."""
AGAIN_SECONDS: Final = 1.0
"""Between attempts to begin with a plan that waits."""
UNKEPT_SECONDS: Final = 5.0
"""How long it is left at that where the folder takes nothing."""
LOGGED: Final = 20
"""How many of the things that are waited for the log names."""
DRAIN_SECONDS: Final = 600.0
"""How long an Envoy that was not told otherwise (`--drain-time-s`) leaves old connections open."""


class _Failure(NamedTuple):
    """Why a plan that waits could not be begun with, and until when that is not tried again."""

    plan: Next | None
    until: float
    error: CommandError


class Moving:
    """At most one transition at a time. All calls belong on the server's event loop, one after the other."""

    def __init__(
        self,
        server: XdsServer,
        publish: Publish,
        *,
        drain_seconds: float = DRAIN_SECONDS,
        folder: Path | None = None,
        settle: Settle | None = None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """`publish` is for what needs no steps: of groups, in a state, but for some services. `folder` is where a
        transition under way is kept; `settle` keeps there what proxies have taken, and the state with which a restart
        is to begin, if one is given. It raises `CommandError` where it cannot, or the folder is another server's.
        `failed` is told of each attempt at a step that failed."""
        self._publish = publish
        self._drain_seconds = drain_seconds
        self._folder = folder
        self._settle = settle
        self._failed = failed
        self._turn = asyncio.Lock()
        self._next: Next | None = None
        self.underway: Underway | None = None
        self.waits: tuple[str, ...] = ()
        """What is waited for, in words."""
        self._refused: tuple[str, ...] = ()
        """Why the next step could not be taken, when that was tried last."""
        self._failure: _Failure | None = None
        self._capturing = Capturing(folder)
        self._telling = Telling(server, self._capturing)
        self._left: FileStat | None = None
        """What `transition.json` looked like when it was read or written last."""
        self._confirmed = 0.0
        """When it was last looked whether redirection is loaded."""

    @property
    def said(self) -> str:
        """What the step under way waits for, in a sentence; empty where there is none."""
        if self.underway is None:
            return self._capturing.said
        walk = self.underway.walk
        left = walk.left(time.monotonic(), self._drain_seconds) if OLDER in self.waits else None
        said = progress.said(walk, self.underway.old.placed, self.underway.new.placed, self.waits, left)
        return said if self._next is None else f"{said}; then a newer plan begins"

    async def resume(self, kept: Record, old: Planned, new: Planned) -> None:
        """Go on with the transition that an earlier server was in. Raises `CommandError`."""
        async with self._turn:
            old, new = old._replace(names=kept.old_names), new._replace(names=kept.new_names)
            made = await asyncio.to_thread(walked, old, new, kept.key, kept.undone)
            if self._folder is not None:
                self._left = await asyncio.to_thread(look, self._folder / NAME)
                if kept.at >= len(made):
                    raise unusable(self._folder)
            walk = Walk(made, kept.at, kept.back, reached=len(made) - 1)
            walk = replace(walk, steps=outlasting(made, kept.lingering))
            nothing = await asyncio.to_thread(passing, new.state)
            older = dict.fromkeys(kept.dropped)
            underway = Underway(walk, old, new, kept.key, nothing, kept.lingering, older, kept.undone)
            redirected = old.state.source.mode is Mode.REDIRECT
            await asyncio.to_thread(self._capturing.resume, old.placed, redirected=redirected)
            await self._telling.take(underway)
            self.underway = underway

    async def change(self, old: Planned, new: Planned, groups: SnapshotSet) -> None:
        """Put a newer plan in force. Raises `CommandError` where the way to it cannot be said in Envoy's terms."""
        async with self._turn:
            underway = self.underway
            if underway is None:
                await self._begin(old, new, groups)
            elif self._next is None and not underway.walk.back and version(underway.new.plain) == version(new.plain):
                await self._relocate(underway, new, groups)
            else:
                before, waiting, was_back = underway, self._next, underway.walk.back
                blocked = underway.walk.blocked(self._telling.sight(underway))
                underway = replace(underway, walk=underway.walk.redone() if blocked else underway.walk.undone())
                if not self._may_end(underway):
                    await self._try(underway, new)
                self._next = Next(new, groups)
                try:
                    await self._move(underway)
                    if blocked:
                        await self._take(underway, before)
                    if underway.walk.back and not was_back:
                        LOG.info("transition_undoing", extra={"state": underway.old.state.version})
                    if self._may_end(underway):
                        await self._go_on()
                    if self._next is not None and self.underway is not None:
                        await self._locate(self.underway, new)
                except CommandError:
                    self._next = waiting  # whoever asked is told that this one is not in force: it must not come later
                    raise

    async def relocate(self, new: Planned, groups: SnapshotSet) -> None:
        """The plan is the same, and addresses have changed."""
        async with self._turn:
            if self.underway is None:
                await self._publish(groups, new.state, frozenset())
            elif self._next is not None:
                adms = {**self._next.groups.by_service, **groups.by_service}
                told = SnapshotSet(adms, groups.passthrough or self._next.groups.passthrough)
                self._next = replace(self._next, new=new, groups=told)
                await self._locate(self.underway, new)
            else:
                await self._relocate(self.underway, new, groups)

    async def keep(self, *, anew: bool, force: State | None = None) -> bool:
        """Have on disk where it is and what it asks for, if somebody has removed or touched that, or put another folder
        in its place (`anew`); whether that was so. `force`: what is in force. Raises `CommandError`."""
        async with self._turn:
            folder = self._folder
            touched = folder is not None and (anew or await asyncio.to_thread(look, folder / NAME) != self._left)
            if touched:
                await self._move(self.underway)
            rests = self.underway is None and force is not None and force.source.mode is Mode.REDIRECT
            rest = (Placed(force.program, force.placement), force.addresses) if force is not None and rests else None
            return await asyncio.to_thread(self._capturing.keep, rest) or touched

    async def follow(self) -> None:
        """Go on whenever a step is over, for ever."""
        async with self._turn:
            await asyncio.to_thread(self._capturing.recall)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            async with self._turn:
                await self._confirm()
                if self.underway is not None:
                    await self._look()

    # ---- one after the other ----

    async def _begin(
        self,
        old: Planned,
        new: Planned,
        groups: SnapshotSet,
        lingering: frozenset[str] = frozenset(),
        older: Dropped = MappingProxyType({}),
        undone: frozenset[str] = frozenset(),
    ) -> None:
        older = older if lingering else {}
        new = new._replace(names=await asyncio.to_thread(names, older, old.placed, new.plain))
        # Whoever has learned the markers of an earlier transition knows nothing of this one's.
        key = secrets.token_bytes(32)
        made = await asyncio.to_thread(walked, old, new, key, undone)
        made = outlasting(made, lingering)
        underway = Underway(Walk(made), old, new, key, groups.passthrough, lingering, older, undone)
        if underway.involved:
            before = self.underway
            redirected = old.state.source.mode is Mode.REDIRECT
            await self._secure()
            await asyncio.to_thread(self._capturing.begin, old.placed, redirected=redirected)
            await self._move(underway)
            await self._take(underway, before)
            reasons = (reason for step in made for reason in step.reasons)
            for sentence in dict.fromkeys((*progress.called(new.names), *reasons)):
                LOG.info("transition", extra={"reason": sentence})
        else:
            await self._move(None, new)
        await self._publish(groups, new.state, underway.involved)

    async def _try(self, underway: Underway, newer: Planned) -> tuple[Step, ...]:
        """The way that there will be to a plan that has to wait. Raises `CommandError`: who asks must not take it for
        what is in force in the end."""
        back = underway.walk.back
        old, undone = (underway.old, underway.involved) if back else (underway.new, frozenset[str]())
        called = await asyncio.to_thread(names, underway.dropped, old.placed, newer.plain)
        return await asyncio.to_thread(walked, old, newer._replace(names=called), underway.key, undone)

    async def _relocate(self, underway: Underway, new: Planned, groups: SnapshotSet) -> None:
        new = new._replace(names=underway.new.names)
        going = replace(underway, new=new, passing=groups.passthrough or underway.passing)
        await self._telling.take(going)
        self.underway = going
        await self._publish(groups, new.state, underway.involved)

    async def _locate(self, underway: Underway, newer: Planned) -> None:
        """Addresses that came with a plan that has to wait, or for it, hold for the one under way, too."""
        before = underway.new.state
        if is_elsewhere(before, newer.state):
            state, recipe = elsewhere(before, newer.state), underway.new.recipe
            if recipe is not None:
                recipe = recipe._replace(endpoints=listed(state))  # the newer program may know others
            try:
                groups = await asyncio.to_thread(changed, before, state)
                await self._relocate(underway, Planned(state, recipe), groups)
            except CommandError as error:
                # No fault of the newer plan, and no reason to keep that waiting.
                LOG.error("transition_refused", extra={"findings": [item.message for item in error.diagnostics]})

    async def _move(self, underway: Underway | None, rest: Planned | None = None) -> None:
        """Be somewhere else, on disk first: a step that is published is one that a restarted server knows of. `rest`:
        what is in force where none is under way any more; until that is kept, a restart has to begin with the last
        step. What proxies took in the steps before is kept, too: older connections need it in the next one."""
        if self._folder is not None:
            await self._secure(None if rest is None else rest.recipe)
            if rest is not None:
                await asyncio.to_thread(self._capturing.rest, rest.placed)
            record = None if underway is None else underway.record
            await asyncio.to_thread(write, self._folder, record)
            self._left = await asyncio.to_thread(look, self._folder / NAME)
        self.underway = underway

    async def _secure(self, recipe: Recipe | None = None) -> None:
        if self._settle is not None:
            await self._settle(recipe)

    async def _look(self) -> None:
        underway = self.underway
        if underway is None:
            return
        walk, waits = underway.walk.look(self._telling.sight(underway), self._drain_seconds)
        if waits and waits != self.waits:
            said = {"phase": walk.step.phase.value, "for": list(waits[:LOGGED]), "of": len(waits)}
            LOG.info("transition_waits", extra=said)
        self.waits = waits
        going = replace(underway, walk=walk)
        try:
            await self._follow(underway, going)
        except CommandError as error:
            # Where it was, until the folder takes something again or other addresses come: no step is left out.
            self.underway = underway
            self._failed()
            self.waits = tuple(item.message for item in error.diagnostics)
            if self.waits != self._refused:
                LOG.error("transition_refused", extra={"findings": list(self.waits)})
            self._refused = self.waits
        else:
            self._refused = ()

    async def _follow(self, underway: Underway, going: Underway) -> None:
        walk = going.walk
        if walk.index != underway.walk.index:
            await self._move(going)
            await self._telling.take(going)
            return
        self.underway = going
        over = walk.over and not self.waits and walk.since is not None
        if not over and not (self._next is not None and self._may_end(going)):
            return
        if self._next is None and walk.step.phase is Phase.CLEAN:
            if going.new.names:
                # Connections that knew other policies by these names are gone.
                plain = going.new._replace(names={})
                await self._begin(going.new, plain, SnapshotSet({}, going.passing))
                return
            await self._move(None, going.new)
            LOG.info("transition_over", extra={"state": underway.new.state.version})
        following, failure = self._next, self._failure
        if failure is not None and failure.plan is following and time.monotonic() < failure.until:
            raise failure.error
        try:
            await self._go_on()
        except CommandError as error:
            # It goes on waiting: when it came there was a way to it, and it is taken for what will be in force.
            self._failure = _Failure(following, time.monotonic() + AGAIN_SECONDS, error)
            raise
        self._failure = None

    async def _go_on(self) -> None:
        """Begin with the plan that waits, now that the one under way has come to where another may begin."""
        following, underway = self._next, self.underway
        if following is None or underway is None or await self._is_held_up(underway, following):
            return
        if underway.walk.back:
            LOG.info("transition_undone", extra={"state": underway.old.state.version})
        old = underway.old if underway.walk.at_old else underway.new
        lingering = underway.involved if underway.walk.step.phase is Phase.FINAL else underway.lingering
        undone = underway.involved if underway.walk.at_old else frozenset()
        older = underway.dropped
        if underway.walk.step.phase is Phase.CLEAN:
            lingering = frozenset()
        elif underway.walk.step.phase is Phase.FINAL:
            older = dropped(older, underway.old.placed, underway.new.placed)
            if not underway.walk.may_end:
                older = dict.fromkeys(older)  # route tables may skip them wherever a proxy has not the newest
        self.underway = replace(underway, walk=replace(underway.walk, back=False))
        await self._begin(old, following.new, following.groups, lingering, older, undone)
        self._next = None  # not before: while its steps are worked out, what is said is about the one under way

    async def _is_held_up(self, underway: Underway, following: Next) -> bool:
        """Whether a plan that moves something waits for proxies that do not have the last step of the one before. The
        way to it would begin with what they are to have, and they would be waited for there. Where somebody refuses
        that, it is taken back first."""
        walk, sight = underway.walk, self._telling.sight(underway)
        lacking = walk.lacking(sight) if walk.step.phase is Phase.FINAL and not walk.back else frozenset()
        if not lacking:
            return False
        moves = following.moves
        if moves is None:
            first = (await self._try(underway, following.new))[0]
            moves = frozenset((*first.awaits, *first.leaves)) if first.phase is Phase.ANNOUNCE else frozenset[str]()
            self._next = replace(following, moves=moves)
        if moves and walk.refused(lacking, sight):  # who is not moved is waited for, too, before policies change sides
            await self._take_back(underway, following.new)
            return True
        return bool(lacking & moves)

    async def _take_back(self, underway: Underway, newer: Planned) -> None:
        """Turn round in `final`, unless there would be no way from there. Where nothing changed sides there is no step
        before it yet. Raises `CommandError`."""
        await self._try(replace(underway, walk=underway.walk.taken_back()), newer)
        if underway.walk.step is underway.walk.steps[0]:
            undone = underway.undone | underway.involved
            made = await asyncio.to_thread(walked, underway.old, underway.new, underway.key, undone)
            made = outlasting(made, underway.lingering)
            underway = replace(underway, undone=undone, walk=Walk(made, index=1))
        await self._move(replace(underway, walk=underway.walk.taken_back()))
        LOG.info("transition_undoing", extra={"state": underway.old.state.version})

    def _may_end(self, underway: Underway) -> bool:
        """Whether a newer plan may begin now. Where all is done but what some proxy refuses, or has refused before it
        was replaced, only a newer plan mends it: then a policy may be met twice on older connections."""
        if underway.walk.may_end:
            return True
        sight = self._telling.sight(underway)
        refused = bool(sight.refused) or any(client.refuses for client in sight.clients)
        return underway.walk.step.phase is Phase.FINAL and not underway.walk.back and refused

    async def _take(self, underway: Underway, before: Underway | None) -> None:
        """Publish the step that it has moved to. One that is not published must not be taken for acknowledged: then it
        is where it was before."""
        try:
            await self._telling.take(underway)
        except CommandError:
            self.underway = before
            raise

    async def _confirm(self) -> None:
        """Look whether redirection has been loaded that was asked for."""
        now = time.monotonic()
        if now < self._confirmed + CONFIRM_SECONDS:
            return
        try:
            await asyncio.to_thread(self._capturing.confirm)
            self._confirmed = now
        except CommandError as error:
            self._confirmed = now + UNKEPT_SECONDS
            self._failed()
            LOG.error("redirection_not_kept", extra={"findings": [item.message for item in error.diagnostics]})
