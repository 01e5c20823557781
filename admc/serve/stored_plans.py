"""Builds the plans of a stored state again, with everything that a server computes from them before it publishes.

    StoredState --worker, threads--> Plans

A server does this at its start. A replica that stands by does the same for each state that the active replica stores. A
plan that was built before is known by its digest, and not built again: only new addresses are applied to it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.serve.compiling.source import digest, restored
from admc.serve.compiling.worker import RestoreState, Worker, WorkerError
from admc.serve.publication.addresses import elsewhere, is_elsewhere
from admc.serve.publication.plans import Planned
from admc.serve.storage.manifest import plans_of
from admc.serve.storage.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from admc.serve.compiling.source import Source
    from admc.serve.environment import AddressSource
    from admc.serve.publication.plans import Plans
    from admc.serve.storage.position import Recipe, StoredState

LOG: Final = logging.getLogger("admc.serve")


class Restored(NamedTuple):
    """A stored position, and the plans that it names."""

    position: Position
    plans: Mapping[str, Planned]

    @property
    def newest(self) -> Planned:
        return self.plans[self.position.rollout.newest]


class StoredPlans:
    """Puts stored plans into `plans`. All calls belong on the event loop, one after the other."""

    def __init__(self, plans: Plans, worker: Worker | None = None) -> None:
        self._plans = plans
        self._worker = worker
        self._holds: tuple[str, Source | None] | None = None
        """The digest of the plan that the worker holds, and the source with which the plan was compared. The worker has
        the same addresses of the plan as `plans`."""
        self._last: Restored | None = None
        self._turn = asyncio.Lock()

    def begin(self) -> Worker:
        """Return the worker. Without one, start a worker, which loads its modules while the caller continues."""
        if self._worker is None or not self._worker.alive:
            self._worker, self._holds = Worker(), None
        return self._worker

    def take_worker(self) -> Worker | None:
        """Return the worker, which holds the newest plan after `build`. The caller owns the worker from now on."""
        worker, self._worker, self._holds = self._worker, None, None
        return worker

    async def close(self) -> None:
        worker = self.take_worker()
        if worker is not None:
            await worker.end()

    async def build(
        self, stored: StoredState, source: Source | None, addresses: AddressSource | None
    ) -> Restored | None:
        """The plans of a stored state; None if it has none. `source` is the program to serve now, and `addresses` has
        the current addresses. Raises `CommandError`."""
        if stored.position is None:
            return None
        try:
            async with self._turn:
                return await self._build(stored.position, source, addresses, reduced=stored.is_reduced)
        except WorkerError as error:
            raise wrong_usage(
                "ADM854",
                "the stored state cannot be built again",
                cause=str(error),
                hint="start the server again; if that does not help, it is a bug in admc",
            ) from error

    async def _build(
        self, position: Position, source: Source | None, addresses: AddressSource | None, *, reduced: bool
    ) -> Restored:
        name = position.rollout.newest
        request = RestoreState(source, position.plans[name])
        newest = await self._located(name, request, addresses if reduced else None)
        if self._last is not None and self._last.position is position and self._last.newest is newest:
            self._holds = name, source
            return self._last
        plans = {name: newest}
        for other in plans_of(position.rollout) - {name}:
            if other in self._plans:
                continue  # `_put` applies the addresses of the newest plan to it
            recipe = position.plans[other]
            state = await asyncio.to_thread(restored, source, recipe)
            if reduced and is_elsewhere(state, newest.state):
                state = elsewhere(state, newest.state)
            plans[other] = Planned(state, recipe)
        await _to_its_end(lambda: self._put(position, plans, reduced=reduced))
        self._holds = name, source
        self._last = Restored(position, {plan_name: self._plans[plan_name] for plan_name in plans_of(position.rollout)})
        return self._last

    def _put(self, position: Position, plans: Mapping[str, Planned], *, reduced: bool) -> None:
        if any(planned.digest != name for name, planned in plans.items()):
            raise wrong_usage(
                "ADM854",
                "a stored plan differs from the one that was stored",
                cause="this admc compiles the same files to another plan",
                hint="let the earlier release finish, or remove what is stored once every proxy has one plan",
            )
        for planned in plans.values():
            self._plans.put(planned)
        if reduced:
            self._plans.relocate(self._plans[position.rollout.newest])
        self._plans.restore(position, {})

    async def _located(self, name: str, request: RestoreState, addresses: AddressSource | None) -> Planned:
        """The newest plan. If the storage left out its addresses, the plan gets the current addresses, if they fit.
        They may belong to a newer program, which is compiled next, and not fit."""
        if addresses is not None:
            try:
                recipe = request.recipe._replace(endpoints=await addresses.current())
                return await self._newest(name, replace(request, recipe=recipe))
            except CommandError as error:
                LOG.warning("kept_plan_without_addresses", extra={"why": str(error)})
        return await self._newest(name, request)

    async def _newest(self, name: str, request: RestoreState) -> Planned:
        """Restore the newest plan in the worker. Raises `CommandError` and `WorkerError`."""
        worker, held = self.begin(), self._holds
        self._holds = None  # until it is known what the worker holds
        try:
            if held == (name, request.source) and name in self._plans and request.recipe.endpoints is not None:
                return await _moved(worker, self._plans[name], request.recipe)
            read, groups = await worker.restore(request)
        except (asyncio.CancelledError, WorkerError):
            await self.close()  # the worker may be in the middle of the request
            raise
        if read.state is None:
            raise CommandError(Exit.INPUT, read.findings, read.folder)
        return Planned(read.state, request.recipe, groups)


async def _to_its_end(change: Callable[[], None]) -> None:
    """Run a change in a thread. A cancellation waits for its end, because the next server uses the changed plans."""
    changing = asyncio.create_task(asyncio.to_thread(change))
    try:
        await asyncio.shield(changing)
    except asyncio.CancelledError:
        await asyncio.wait({changing})
        raise


async def _moved(worker: Worker, planned: Planned, recipe: Recipe) -> Planned:
    """The plan that the worker holds, at the addresses of a recipe. At new addresses it has only the snapshots that the
    change affects. Raises `CommandError` if the addresses do not fit, and `WorkerError`."""
    endpoints = recipe.endpoints
    if endpoints is None or digest(endpoints) == planned.state.endpoints_digest:
        return planned
    update, changed = await worker.update_addresses(endpoints)
    return Planned(update.applied_to(planned.state), recipe, changed)
