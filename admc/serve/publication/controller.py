"""Rolls out plans: it computes the next state from an observation of the proxies, stores it, and then publishes it.

    observation, command --reduce--> RolloutState --store--> storage --publish--> proxies

All effects of a rollout are in this module, in this order. `admc.serve.rollout.reducer` has the rules. A label is never
published before its state is stored, but for the first one, when no proxy has another: it is published even if it
cannot be stored.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError, wrong_usage
from admc.serve.environment import BegunStep
from admc.serve.publication import progress
from admc.serve.publication.closing import ClosedDestinations
from admc.serve.publication.plans import Plans, hosts
from admc.serve.publication.publisher import Publisher
from admc.serve.rollout.reducer import Command, CommandName, next_bases, next_plan, reduce
from admc.serve.rollout.rollout_state import STEPS, Label, begun
from admc.serve.storage.manifest import SECRET_BYTES, plans_of
from admc.serve.storage.position import Position
from xds_server.resources.snapshot import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from admc.serve.environment import Closing, Redirection
    from admc.serve.publication.plans import Planned
    from admc.serve.publication.publisher import Prepared
    from admc.serve.rollout.model import Placed, Step
    from admc.serve.rollout.reducer import Observation
    from admc.serve.rollout.rollout_state import RolloutState
    from xds_server.transport.server import XdsServer

    Store = Callable[[Position | None], Awaitable[None]]

LOG: Final = logging.getLogger("admc.serve")
LOOK_SECONDS: Final = 0.1
"""How often proxies are observed while a rollout waits for them."""
LOOK_SHARE: Final = 0.1
"""The largest share of the event loop's time for observations: with 10,000 proxies one of them takes some 60 ms."""
RETURN_SECONDS: Final = 2.0
"""How often proxies are observed after a start while some have not come back."""
CONFIRM_SECONDS: Final = 0.5
"""How often the server reads the confirmations of redirection."""
UNKEPT_SECONDS: Final = 5.0
"""The pause after a failure to write the folder."""
LOGGED: Final = 20
"""How many of the reasons for which a rollout waits the log names."""
REMEMBERED_STEPS: Final = 20
"""How many steps that have begun stay known."""
LEAD: Final = "this server to lead the proxies again"


class Rollout:
    """The rollout of one server. All calls belong on the server's event loop, one after the other."""

    def __init__(
        self,
        server: XdsServer,
        store: Store,
        redirection: Redirection,
        failed: Callable[[], None] = lambda: None,
        *,
        closing: Closing | None = None,
        may_publish: Callable[[], bool] = lambda: True,
        plans: Plans | None = None,
    ) -> None:
        """`store` stores a position for a restarted server, and raises `CommandError` if it cannot. `failed` is called
        for each failed attempt at a step. While `may_publish` returns false, no new label is stored or published.
        `plans` may have plans that were built before the server started."""
        self._store = store
        self._redirection = redirection
        self._closed = ClosedDestinations(closing)
        self._may_publish = may_publish
        self._failed = failed
        self._turn = asyncio.Lock()
        self.plans = Plans() if plans is None else plans
        self.publisher = Publisher(server, redirection.proxies)
        self.state: RolloutState | None = None
        self._stored: RolloutState | None = None
        """A state that is stored, and perhaps published in part, before it becomes `state`."""
        self.waits: tuple[str, ...] = ()
        """What the rollout waits for, in sentences."""
        self.steps: deque[BegunStep] = deque(maxlen=REMEMBERED_STEPS)
        """The steps that have begun last, the newest one at the end."""
        self._error: tuple[str, ...] = ()
        """Why the last attempt to publish the next label failed."""
        self._arrives = False
        """Not every proxy has had the plan at rest since it was published last. Also true of a plan that a rollout was
        taken back to, which every proxy had before."""
        self._confirmed = 0.0
        self._due = 0.0
        """When to observe proxies again."""
        self._due_at_rest = 0.0
        """The same while the rollout waits for nothing, and some proxies have not come back after a start."""

    @property
    def under_way(self) -> bool:
        """Whether some proxy may lack the newest plan."""
        state = self.state
        if state is None:
            return False
        return state.now.goal is not None or state.queued is not None or self._arrives

    @property
    def placed(self) -> tuple[Placed, ...]:
        """All plans of which a proxy may enforce policies, and the newest plan, which is the last one."""
        state = self.state
        if state is None:
            return ()
        names = [*sorted(plans_of(state) - {state.newest}), state.newest]
        return tuple(self.plans[name].placed for name in names)

    @property
    def published(self) -> tuple[Placed, ...]:
        """The plans whose policies are published at present; two plans in the middle of a rollout."""
        return () if self.state is None else tuple(self.plans[name].placed for name in self.state.now.plans)

    @property
    def _present(self) -> RolloutState:
        """The state, once a first plan is published."""
        assert self.state is not None  # noqa: S101 - the caller looked
        return self.state

    @property
    def text(self) -> str:
        """A sentence with the reasons for which the rollout waits. If no rollout is under way, a sentence with
        redirection or NetworkPolicies that are missing; empty if none are."""
        state = self.state
        if state is None or not self.under_way:
            return self._redirection.text or self._closed.text
        return progress.text(state, self.plans, self.waits)

    # ---- plans, addresses and commands ----

    async def accept(self, planned: Planned) -> None:
        """Roll out a compiled plan. Raises `CommandError` if no safe steps lead to it, its acceptance cannot be stored,
        or another server may lead the proxies."""
        async with self._turn:
            self._check_lead()
            if self.state is None:
                await self._begin(planned)
                return
            name = await asyncio.to_thread(self.plans.put, planned)
            try:
                await asyncio.to_thread(self.plans.compare, name)
                if name != self.state.newest:
                    await asyncio.to_thread(self._try, name, next_bases(self.state, self._observe()))
                await self._command(Command(CommandName.PLAN, name))
            finally:
                self.plans.forget_all_but(plans_of(self.state))
            # While the plan waits, the label that proxies have is published at the addresses of the plan.
            await asyncio.to_thread(self.plans.relocate, planned)
            await self._again()

    async def relocate(self, planned: Planned) -> None:
        """Publish the same plan at other addresses. Raises `CommandError` while another server may lead the proxies."""
        async with self._turn:
            self._check_lead()
            await asyncio.to_thread(self.plans.relocate, planned)
            await self._again()

    async def abort(self) -> str:
        """Take back the rollout under way. Returns what the server does, in a sentence. Raises `CommandError` if there
        is nothing to take back, or the state cannot be stored."""
        return await self._operate(CommandName.ABORT)

    async def continue_(self) -> str:
        """Go on with the aborted plan. Returns and raises as `abort` does."""
        return await self._operate(CommandName.CONTINUE)

    async def _operate(self, name: CommandName) -> str:
        async with self._turn:
            self._check_lead()
            before = self.state
            if before is None:
                raise progress.not_done(name, "no plan has been published yet")
            progress.check(name, before, self.plans)
            await self._command(Command(name))
            outcome = progress.outcome(name, before, self.state or before, self.plans)
            LOG.info("rollout_command", extra={"command": name.value, "outcome": outcome})
            return outcome

    async def resume(self, position: Position, planned: Mapping[str, Planned]) -> None:
        """Continue from the position of an earlier server. Raises `CommandError`."""
        async with self._turn:
            await asyncio.to_thread(self.plans.restore, position, planned)
            self.publisher.begin(position.frozen)
            if self._redirects(position.rollout.now):
                await asyncio.to_thread(self._redirection.resume)
            await self._ask(position.rollout)
            state = await self._with_renamed(position.rollout)
            self._closed.ask(state, self.plans)
            prepared = await self._prepared(state)
            await self._hand_over(state, prepared)
            now = state.now
            guards = await asyncio.to_thread(self.plans.guards, now.base, now.goal or now.base)
            self.publisher.began(prepared.content, guards)
            self.state = state
            self._arrives = state.now.goal is None and state.proven != state.now

    async def _with_renamed(self, state: RolloutState) -> RolloutState:
        """Keep the chains whose names an earlier release gave: after an update of admc, connections still use them."""
        content = await asyncio.to_thread(self.plans.content, state.now, state.key)
        renamed = self.publisher.renamed(content, hosts(state.now, self.plans))
        return replace(state, kept=state.kept | renamed)

    async def follow(self) -> None:
        """Observe the proxies while a rollout waits for them, and continue the rollout. Runs until it is cancelled."""
        async with self._turn:
            await asyncio.to_thread(self._redirection.load_record)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            async with self._turn:
                await self._confirm()
                if self._is_due and not self._may_publish():
                    self._wait((LEAD,))
                elif self._is_due:
                    await self._look()

    @property
    def _is_due(self) -> bool:
        """Whether it is time to observe the proxies. At rest the rollout does not wait for them, and each command
        begins with an observation of its own."""
        state = self.state
        if state is None or time.monotonic() < self._due:
            return False
        rests = state.now.goal is None and state.proven == state.now and len(state.may_have) == 1
        if not rests or self._arrives or bool(state.kept) or state.queued not in (None, state.aborted):
            return True
        return self.publisher.awaits_proxies and time.monotonic() >= self._due_at_rest

    # ---- one after the other ----

    async def _begin(self, planned: Planned) -> None:
        """Publish the first plan, when no proxy has another plan. It is published even if it cannot be stored; then
        the log has an error."""
        name = self.plans.put(planned)
        state = begun(name, secrets.token_bytes(SECRET_BYTES))
        self._closed.ask(state, self.plans)
        try:
            if self._redirects(state.now):
                await asyncio.to_thread(self._redirection.begin, planned.placed)
            await self._store(self._position(state))
        except CommandError:
            LOG.warning("first_plan_not_kept")
        await self._publish(state)
        self.state = state

    def _try(self, name: str, bases: Sequence[str]) -> None:
        """Build the steps to a plan from the first plan in `bases` from which they are safe. Raises `CommandError` if
        they are safe from none of them, so that the caller does not make the plan the active one."""
        state = self._present
        move = state.moves + 1
        for base in bases:
            label = Label(base, name, STEPS[0], move)
            try:
                self.plans.try_steps(label, replace(state, now=label).key)
            except CommandError:
                if base == bases[-1]:
                    raise
            else:
                return

    def _observe(self) -> Observation:
        state = self._present
        step = self._step(state)
        if step is None:
            following = next_plan(state)
            relied_on = () if following is None else self.plans.relied_on(state.now.base, following)
            seen = self.publisher.observe(state, self.plans, None, ())
        else:
            relied_on = step.relies_on
            seen = self.publisher.observe(state, self.plans, step.services, self._redirection.missing(step))
        return seen._replace(unclosed=self._closed.missing(relied_on))

    def _step(self, state: RolloutState) -> Step | None:
        return None if state.now.goal is None else self.plans.step(state.now, state.key)

    async def _command(self, command: Command) -> None:
        await self._advance(reduce(self._present, self._observe(), command), stored=True)
        await self._look()

    async def _look(self) -> None:
        state = self._present
        began = time.monotonic()
        seen = self._observe()
        waits = progress.waits(state, seen, self.plans)
        if seen.unclosed and (to_apply := self._closed.text):
            waits = (*waits, to_apply)
        self._wait(waits)
        ended = time.monotonic()
        self._due, self._due_at_rest = ended + (ended - began) / LOOK_SHARE, ended + RETURN_SECONDS
        try:
            await self._advance(reduce(state, seen))
            if self._arrives and self.state == state and all(client.has_now for client in seen.clients):
                self._arrives = False
                LOG.info("rollout_over", extra={"state": self.plans[state.now.base].state.version})
        except (CommandError, SnapshotError) as error:
            # The rollout stays at this label until the folder can be written, or the addresses change.
            self._failed()
            self.waits = progress.causes(error)
            if self.waits != self._error:
                LOG.error("rollout_refused", extra={"findings": list(self.waits)})
            self._error = self.waits
        else:
            self._error = ()

    def _wait(self, waits: tuple[str, ...]) -> None:
        state = self.state
        if waits and waits != self.waits and state is not None and self.under_way:
            extra = {"step": progress.phase(state.now), "for": list(waits[:LOGGED]), "of": len(waits)}
            LOG.info("rollout_waits", extra=extra)
        self.waits = waits

    async def _advance(self, state: RolloutState, *, stored: bool = False) -> None:
        """Store a state, and publish its label. Raises `CommandError` or `SnapshotError`; then the state is
        unchanged."""
        before = self._present
        if state == before:
            return
        self._check_lead()
        if state.now != before.now:
            # The label has no snapshots, or the state cannot be stored. Then its redirection is not needed either.
            prepared = await self._prepared(state, before.now.goal or before.now.base)
            await self._leave(before, state)
            self._closed.ask(state, self.plans)
            self._check_lead()
            await self._store(self._position(state, prepared))
            self._check_lead()
            try:
                await self._ask(state)
            except CommandError:
                await self._ask(before)  # the label that proxies have goes on needing its redirection
                raise
            self._stored = state
            self.publisher.labelled()
            await self._hand_over(state, prepared)
            self.state, self._stored = state, None
            self._arrives = state.now.goal is None
            progress.log(before, state, self._step(state), self.plans)
            if state.now.goal is not None:
                number = self.steps[-1].number + 1 if self.steps else 1
                self.steps.append(BegunStep(number, progress.step_text(state, self.plans, state.now.goal)))
            self.plans.forget_all_but(plans_of(state))
        else:
            if stored or state.back != before.back:
                await self._store(self._position(state))
            if state.kept != before.kept:
                await self._publish(state)
            self.state = state
            self._closed.ask(state, self.plans)

    async def _again(self) -> None:
        """Publish the same label at other addresses."""
        state = self._present
        await self._ask(state)
        await self._publish(state)

    async def _publish(self, state: RolloutState) -> None:
        """Publish a label again, or the first one."""
        prepared = await self._prepared(state, state.now.base)
        self._check_lead()
        await self._hand_over(state, prepared)

    async def _prepared(self, state: RolloutState, before: str = "") -> Prepared:
        """Return the snapshots to publish for a state. `before` is the published plan. It is empty after a start, when
        the
        stored snapshots have the resources that older connections need. Raises `CommandError` or `SnapshotError`."""
        content = await asyncio.to_thread(self.plans.content, state.now, state.key)
        after = state.now.goal or state.now.base
        guards = await asyncio.to_thread(self.plans.guards, before, after) if before in self.plans else frozenset()
        self.publisher.stay(guards)
        return await asyncio.to_thread(self.publisher.prepared, state, content, guards)

    async def _hand_over(self, state: RolloutState, prepared: Prepared) -> None:
        count = await self.publisher.publish(prepared)
        if count:
            version = self.plans[state.now.goal or state.now.base].state.version
            LOG.info("published", extra={"groups": count, "state": version})

    def _redirects(self, label: Label) -> bool:
        return self.plans.state(label).source.mode.redirected

    async def _leave(self, before: RolloutState, state: RolloutState) -> None:
        """Confirm anew when the rollout leaves a plan at rest: only the redirection of that plan is sure to be loaded
        still."""
        if before.now.goal is None and self._redirects(state.now):
            old = self.plans[before.now.base].placed if self._redirects(before.now) else None
            await asyncio.to_thread(self._redirection.begin, old)

    async def _ask(self, state: RolloutState) -> None:
        """Request the redirection that a label needs."""
        if self._redirects(state.now):
            step = self._step(state)
            placed = self.plans[state.now.base].placed if step is None else step.merged
            await asyncio.to_thread(self._redirection.ask, placed, self.plans.state(state.now).addresses)

    def _check_lead(self) -> None:
        """Raises `CommandError` while another server may lead the proxies."""
        if not self._may_publish():
            raise wrong_usage("ADM951", "another server may lead the proxies now: nothing new is stored or published")

    def _position(self, state: RolloutState, prepared: Prepared | None = None) -> Position | None:
        """Return the position to store for a state. `prepared` has the snapshots that are about to be published."""
        recipes = self.plans.recipes
        wanted = plans_of(state)
        if not wanted <= recipes.keys():
            return None
        return Position(state, {name: recipes[name] for name in wanted}, self.publisher.to_freeze(state, prepared))

    @property
    def position(self) -> Position | None:
        """The position from which a restarted server continues. A server that stops while it publishes a label has
        stored that label already, and proxies may have it."""
        state = self._stored or self.state
        return None if state is None else self._position(state)

    async def save(self, store: Store) -> None:
        """Store the position again, with the snapshots that proxies have acknowledged since; nothing, while another
        server may lead the proxies. No label is stored meanwhile: this earlier position would replace it."""
        async with self._turn:
            if self._may_publish():
                await store(self.position)

    async def keep(self) -> bool:
        """Write the files of redirection again if one was changed from outside; returns whether one was. Raises
        `CommandError`."""
        async with self._turn:
            return await asyncio.to_thread(self._redirection.keep)

    async def _confirm(self) -> None:
        """Read the confirmations of requested redirection."""
        now = time.monotonic()
        if now < self._confirmed + CONFIRM_SECONDS:
            return
        try:
            await asyncio.to_thread(self._redirection.confirm)
            self._confirmed = now
        except CommandError as error:
            self._confirmed = now + UNKEPT_SECONDS
            self._failed()
            LOG.error("redirection_not_kept", extra={"findings": [item.message for item in error.diagnostics]})
