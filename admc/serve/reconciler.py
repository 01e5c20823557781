"""Compiles when the program changes, and applies the result; on any error the last good state stays active.

    program --Worker--> State + SnapshotSet --> ActiveConfig
    addresses --^ (only the snapshots that the changed addresses affect)

All of this runs on one event loop. Reading, solving and emitting would block it, so worker processes do that
(`compiling.worker`). There are two workers. The active one built the active state, and rebuilds the snapshots that new
addresses affect. The spare one has loaded its modules, and waits for the next compile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from admc.base.exits import CommandError
from admc.serve.active_config import ActiveConfig, StateNotSavedError, StateUpdate
from admc.serve.compiling.compiled import Built
from admc.serve.compiling.source import digest
from admc.serve.compiling.worker import BuildState, Worker, WorkerError
from admc.serve.observe.problems import Problems
from admc.serve.persistence import Persistence
from admc.serve.warm_start import WarmStart
from xds_server.resources.snapshot import SnapshotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from admc.serve.compiling.source import Source, State
    from admc.serve.environment import AddressSource, Environment
    from admc.serve.storage.position import Recipe

LOG: Final = logging.getLogger("admc.serve")
STARTUP_HOLD_SECONDS: Final = 10.0
"""How long the first compile may take before proxies receive the stored state of an earlier server."""
COMPILE_RETRY_SECONDS: Final = 5.0
"""Between attempts at a compile whose worker has ended or met a bug. It may have lacked memory that is free later."""
STORE_RETRY_SECONDS: Final = 1.0
"""Between attempts to activate a state that could not be stored."""
MAX_SUPERSEDED: Final = 3
"""Compiles in a row that a newer change of the program may cancel; the next one runs to its end."""
First = TypeVar("First")
Second = TypeVar("Second")


class Reconciler:
    """Follows a program, its addresses and its identities. All calls belong on one event loop."""

    def __init__(self, environment: Environment, warm: WarmStart | None = None) -> None:
        """`warm` has the parts that were built ahead."""
        self.environment = environment
        self.problems = Problems()
        self.counts = self.problems.counts
        self._warm = warm or WarmStart()
        self.config = ActiveConfig(environment, self.problems, self._warm.plans)
        storage = environment.storage
        self.persistence = None if storage is None else Persistence(self.config, storage)
        self._endpoints: tuple[bytes, ...] = ()
        """Contents of the endpoints file: the latest one, then the latest usable one."""
        self._compile_requested = asyncio.Event()
        self._endpoints_read = asyncio.Event()
        """Set once the addresses have been read."""
        self._active_worker: Worker | None = None
        self._spare_worker: Worker | None = None
        self._apply_lock = asyncio.Lock()
        self._worker_was_lost = False
        """Whether the last compile lost its worker."""
        self._serves_stored_state = False
        """Whether the active state is a stored one. The stored snapshots of some services may be older than the
        snapshots that their proxies received."""

    async def run(self) -> None:
        """Restore the stored state, then follow the environment until cancelled.

        Raises `CommandError` if the stored state is in the middle of a rollout that cannot be continued.
        """
        if self.persistence is not None:
            stored = self._warm.stored
            stored.begin()
            self._serves_stored_state = await self.persistence.restore(stored)
            if self._serves_stored_state:
                self._active_worker = stored.take_worker()
            else:
                self._spare_worker = stored.take_worker()
        await asyncio.gather(
            self._follow_endpoints(),
            self._follow_program(),
            self._follow_identities(),
            self.config.rollout.follow(),
            self._limit_startup_hold(),
            *(() if self.persistence is None else (self.persistence.run(),)),
        )

    async def _limit_startup_hold(self) -> None:
        """Serve the stored state if the first compile takes too long."""
        await asyncio.sleep(STARTUP_HOLD_SECONDS)
        if self._serves_stored_state and self.environment.addresses is not None and not self._endpoints_read.is_set():
            await self._rebuild_snapshots()  # the first compile waits for the addresses
        self.config.release_startup_hold()

    async def save(self) -> None:
        """Store the active state, and the snapshots that proxies have acknowledged."""
        if self.persistence is not None:
            await self.persistence.save()

    async def close(self) -> None:
        """End the workers."""
        await self._warm.close()
        for worker in (self._active_worker, self._spare_worker):
            if worker is not None:
                await worker.end()

    async def _follow_identities(self) -> None:
        """Identify clients again whenever that may have another result."""
        while True:
            services = await self.environment.identities.changed()
            if services is not None:
                self.config.recheck(services)
                continue
            if await self.config.reload_identities():
                LOG.info("identities_read")
            if "program" in self.problems.current:
                self._compile_requested.set()  # the program may have been rejected because of the identities

    # ---- the program ----

    async def _follow_program(self) -> None:
        """Compile at once, and whenever the program changes."""
        superseded = 0
        while True:
            self._compile_requested.clear()
            self._worker_was_lost = False
            source = await self.environment.programs.current()
            async with _cancelled(self._compile(source), self._changed()) as (compiling, changed):
                wait_for = (compiling, changed) if superseded < MAX_SUPERSEDED else (compiling,)
                await asyncio.wait(wait_for, return_when=asyncio.FIRST_COMPLETED)
                if not compiling.done():
                    superseded += 1
                    LOG.info("compile_superseded")
                    continue
                superseded = 0
                compiled = compiling.result()
            # A newer change of the program does not cancel the activation: it would leave a half-applied state.
            await self._activate_first(compiled)
            if self._worker_was_lost:
                await self._changes_within(COMPILE_RETRY_SECONDS)
            else:
                await self._changed()

    async def _activate_first(self, compiled: Built | None) -> None:
        """Activate a compiled state, and end the startup hold. Retries while the state cannot be stored, until the
        program changes."""
        if compiled is not None:
            compiled = await self._activate(compiled)
        if self._serves_stored_state:
            await self._rebuild_snapshots()
        self.config.release_startup_hold()
        if {"program", "identities"} <= self.problems.current.keys():
            # The names of identities that the active program rejects may belong to this program.
            await self.config.reload_identities()
        while compiled is not None and not await self._changes_within(STORE_RETRY_SECONDS):
            compiled = await self._activate(compiled)

    async def _changes_within(self, seconds: float) -> bool:
        """Whether another compile is needed within so many seconds; waits no longer than that."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed()
        except TimeoutError:
            return False
        return True

    async def _changed(self) -> None:
        """Wait until the program changes, or another task requests a compile."""
        async with _cancelled(self.environment.programs.changed(), self._compile_requested.wait()) as tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _compile(self, source: Source | None) -> Built | None:
        """Compile the program; None if there is none, it has errors or the worker fails."""
        if self.environment.addresses is not None:
            await self._endpoints_read.wait()
        if source is None:
            self.problems.report_no_program()
            return None
        request = BuildState(source, self._endpoints, self.environment.storage is not None)
        built = self._warm.compile.take(request)
        if built is not None:
            await self._end_spare_worker()  # the worker of `built` takes its place
        else:
            built = await self._build(request)
        if built is None:
            return None
        # A program that changes while this state is activated causes another compile.
        self.environment.programs.compiled(built.read.files)
        if built.read.state is not None:
            return built
        self._spare_worker = built.worker
        self.counts.compile_errors += 1
        self.problems.report("program", built.read.findings, built.read.folder)
        return None

    async def _build(self, request: BuildState) -> Built | None:
        worker = await self._take_spare_worker()
        try:
            return Built(worker, *await worker.build(request))
        except WorkerError as error:
            await self._report_lost_worker(worker, error)
            return None
        except asyncio.CancelledError:
            await worker.end()
            raise

    async def _take_spare_worker(self) -> Worker:
        worker = self._spare_worker
        if worker is None or not worker.alive:
            await self._end_spare_worker()
            worker = await self._warm.compile.take_worker()
        self._spare_worker = None
        return worker or Worker()

    async def _end_spare_worker(self) -> None:
        worker, self._spare_worker = self._spare_worker, None
        if worker is not None:
            await worker.end()

    async def _activate(self, compiled: Built) -> Built | None:
        """Apply a compiled state at the current addresses. Returns it if it could not be stored, for another attempt;
        None otherwise."""
        if self._spare_worker is compiled.worker:
            self._spare_worker = None
        try:
            async with self._apply_lock:
                compiled = await self._with_current_addresses(compiled)
                return await self._apply(compiled)
        except WorkerError as error:
            await self._report_lost_worker(compiled.worker, error)
        except asyncio.CancelledError:
            await compiled.worker.end()
            raise
        return None

    async def _report_lost_worker(self, worker: Worker, error: WorkerError) -> None:
        self.counts.compile_errors += 1
        self.problems.report_worker_failure("program", error)
        self._worker_was_lost = True
        await worker.end()

    async def _with_current_addresses(self, compiled: Built) -> Built:
        """The same state at the current addresses, which may have changed during the compile or while the state could
        not be stored."""
        for latest in self._endpoints[:1]:
            try:
                return await compiled.at(latest)
            except CommandError as error:
                self.problems.report_if_new("endpoints", error.diagnostics)
        return compiled

    async def _apply(self, compiled: Built) -> Built | None:
        """Make the compiled state the active one. Returns it if it could not be stored; None otherwise."""
        worker, read, state = compiled.worker, compiled.read, compiled.state
        try:
            await self.config.apply(StateUpdate(self.config.state, state, compiled.snapshots, read.recipe))
        except StateNotSavedError as error:
            self._spare_worker = worker
            self.problems.report_not_saved("program", error.diagnostics)
            return compiled
        except (SnapshotError, CommandError) as error:
            self._spare_worker = worker
            self.problems.report_rejected(error)
            return None
        self._active_worker, self._spare_worker = worker, self._active_worker or Worker()
        self._serves_stored_state = False
        latest = self._endpoints[:1]
        if latest and digest(latest[0]) == state.endpoints_digest:
            self._set_usable_endpoints(latest[0])
        self.counts.compiles += 1
        self.counts.compile_seconds = read.seconds
        self.problems.report("warnings", read.findings, read.folder)
        fields = {"state": state.version, "adms": len(state.placement.adms), "seconds": round(read.seconds, 3)}
        LOG.info("compiled", extra=fields)
        self.problems.report_unlisted(read.unlisted)
        return None

    async def _rebuild_snapshots(self) -> None:
        """Build and publish all snapshots of the stored state at the current addresses.

        This is for a stored state that the first compile has not replaced. For some services it has an older snapshot:
        the last one that their proxies had acknowledged.
        """
        async with self._apply_lock:
            if self._active_worker is not None and self.config.state is not None:
                usable = () if "endpoints" in self.problems.current else self._endpoints[:1]
                await self._update_addresses(
                    self._active_worker, self.config.state, next(iter(usable), None), rebuild_all=True
                )

    # ---- addresses ----

    async def _follow_endpoints(self) -> None:
        """Apply the addresses whenever they change."""
        addresses = self.environment.addresses
        while addresses is not None:
            await self._read_endpoints(addresses)
            await addresses.changed()

    async def _read_endpoints(self, addresses: AddressSource) -> None:
        try:
            content = await addresses.current()
        except CommandError as error:
            self.counts.endpoint_errors += 1
            self.problems.report("endpoints", error.diagnostics, "")
            return
        first = not self._endpoints
        # A compile falls back to the last usable content if this one has errors.
        self._endpoints = (content, *self._endpoints[-1:])
        self._endpoints_read.set()
        async with self._apply_lock:
            if self._active_worker is not None and self.config.state is not None:
                await self._update_addresses(self._active_worker, self.config.state, content)
            elif not first:  # a compile already waits for the first content
                self._compile_requested.set()

    async def _update_addresses(
        self, worker: Worker, old: State, content: bytes | None, *, rebuild_all: bool = False
    ) -> None:
        """Apply the content of an endpoints file to the active state. With None the addresses stay."""
        if content is not None and digest(content) == old.endpoints_digest and not rebuild_all:
            self._set_usable_endpoints(content)
            return
        try:
            update, snapshots = await worker.update_addresses(content, rebuild_all=rebuild_all)
            if update.addresses is None:
                self.counts.endpoint_errors += 1
                self.problems.report("endpoints", update.findings, "")
                return
            recipe = self.config.recipe if content is None else _with_endpoints(self.config.recipe, content)
            await self.config.apply(StateUpdate(old, update.applied_to(old), snapshots, recipe))
        except WorkerError as error:
            self.counts.endpoint_errors += 1
            self.problems.report_worker_failure("endpoints", error)
            await self._discard_active_worker(worker)
            return
        except StateNotSavedError as error:
            # The compile that follows builds the same state again, and retries until it can be stored.
            self.problems.report_not_saved("program", error.diagnostics)
            await self._discard_active_worker(worker)
            return
        except (SnapshotError, CommandError) as error:
            self.problems.report_rejected(error)
            await self._discard_active_worker(worker)
            return
        if rebuild_all:
            self._serves_stored_state = False
        if content is not None:
            self._set_usable_endpoints(content)
        self.counts.address_updates += 1
        LOG.info("located", extra={"adms": len(snapshots.by_service), "seconds": round(update.seconds, 4)})
        self.problems.report_unlisted(update.unlisted)

    async def _discard_active_worker(self, worker: Worker) -> None:
        """End a worker whose state is not the active one, and request a compile."""
        self._active_worker = None
        await worker.end()
        self._compile_requested.set()

    def _set_usable_endpoints(self, content: bytes) -> None:
        self._endpoints = (content,)
        self.problems.clear("endpoints")


def _with_endpoints(recipe: Recipe | None, endpoints: bytes) -> Recipe | None:
    return None if recipe is None else recipe._replace(endpoints=endpoints)


@contextlib.asynccontextmanager
async def _cancelled(
    first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]
) -> AsyncIterator[tuple[asyncio.Task[First], asyncio.Task[Second]]]:
    """Run two coroutines as tasks, and cancel them at the end of the block."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
