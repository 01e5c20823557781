"""Compiles when a file changes, and applies the result; on any error the last good state stays active.

    program files --Worker--> State + SnapshotSet --> ActiveConfig
    endpoints file --^ (only the snapshots that the changed addresses affect)

All of this runs on one event loop. Reading, solving and emitting would block it, so worker processes do that
(`build.worker`). There are two workers. The active one built the active state, and rebuilds the snapshots that new
addresses affect. The spare one has loaded its modules, and waits for the next compile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from admc.emit.emission import MAX_ENDPOINTS
from admc.exits import CommandError
from admc.files import read_bounded
from admc.serve.active_config import ActiveConfig, Options, StateNotSavedError, StateUpdate
from admc.serve.build.snapshots import SnapshotSet
from admc.serve.build.source import digest
from admc.serve.build.worker import BuildState, Worker, WorkerError
from admc.serve.file_watch import signature, until_changed
from admc.serve.observe.problems import Problems
from admc.serve.persistence import Persistence
from xds_server.resources.snapshot import SnapshotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from admc.serve.build.source import ReadResult, State
    from admc.serve.file_watch import Signature
    from admc.serve.storage.position import Recipe

LOG: Final = logging.getLogger("admc.serve")
STARTUP_HOLD_SECONDS: Final = 10.0
"""How long the first compile may take before proxies receive the stored state of an earlier server."""
COMPILE_RETRY_SECONDS: Final = 5.0
"""Between attempts at a compile whose worker has ended or met a bug. It may have lacked memory that is free later."""
ENDPOINTS_QUIET_SECONDS: Final = 0.01
"""A half-written file is not valid JSON, so this file need not be quiet for long."""
STORE_RETRY_SECONDS: Final = 1.0
"""Between attempts to activate a state that could not be stored in the state directory."""
MAX_SUPERSEDED: Final = 3
"""Compiles in a row that a newer change of the files may cancel; the next one runs to its end."""
First = TypeVar("First")
Second = TypeVar("Second")


class _Compiled(NamedTuple):
    """The result of a compile, and the worker that holds it."""

    worker: Worker
    read: ReadResult
    state: State
    snapshots: SnapshotSet


class Reconciler:
    """Follows the files of a program. All calls belong on one event loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.problems = Problems()
        self.counts = self.problems.counts
        self.config = ActiveConfig(options, self.problems)
        self.persistence = None if options.state_dir is None else Persistence(self.config, options.state_dir)
        self._endpoints: tuple[bytes, ...] = ()
        """Contents of the endpoints file: the latest one, then the latest one that was usable."""
        self._program_files: Signature = {options.source.path: None}
        self._compile_requested = asyncio.Event()
        self._endpoints_read = asyncio.Event()
        """The endpoints file has been read at least once."""
        self._active_worker: Worker | None = None
        self._spare_worker: Worker | None = None
        self._apply_lock = asyncio.Lock()
        self._worker_was_lost = False
        """The last compile lost its worker."""
        self._serves_stored_state = False
        """The active state was read from the state directory. The stored snapshots of some services may be older than
        those that their proxies received."""

    async def run(self) -> None:
        """Restore the stored state, then follow all files until cancelled.

        Raises `CommandError` if the stored state is in the middle of a rollout that cannot be continued.
        """
        identities = await signature(self.options.settings.files)
        if self.persistence is not None:
            self._spare_worker = Worker()
            if await self.persistence.restore(self._spare_worker):
                self._active_worker, self._spare_worker, self._serves_stored_state = self._spare_worker, None, True
        await asyncio.gather(
            self._follow_endpoints(),
            self._follow_program(),
            self._follow_identities(identities),
            self.config.rollout.follow(),
            self._limit_startup_hold(),
            *(() if self.persistence is None else (self.persistence.run(),)),
        )

    async def _limit_startup_hold(self) -> None:
        """Serve the stored state if the first compile takes too long."""
        await asyncio.sleep(STARTUP_HOLD_SECONDS)
        if self._serves_stored_state and self.options.endpoints is not None and not self._endpoints_read.is_set():
            await self._rebuild_snapshots()  # the first compile waits for the endpoints file
        self.config.release_startup_hold()

    async def save(self) -> None:
        """Store the active state, and the snapshots that proxies have acknowledged."""
        if self.persistence is not None:
            await self.persistence.save()

    async def close(self) -> None:
        """End the workers."""
        for worker in (self._active_worker, self._spare_worker):
            if worker is not None:
                await worker.end()

    async def _follow_identities(self, seen: Signature) -> None:
        """Reload the identities whenever their files change."""
        while self.options.settings.files:
            await until_changed(seen)
            # The signature is taken before the files are read: a change during the read causes another read.
            seen = await signature(seen)
            if await self.config.reload_identities():
                LOG.info("identities_read")
            if "program" in self.problems.current:
                self._compile_requested.set()  # the program may have been rejected because of these files

    # ---- the program ----

    async def _follow_program(self) -> None:
        """Compile at once, and whenever a file of the program changes."""
        superseded = 0
        while True:
            self._compile_requested.clear()
            self._worker_was_lost = False
            seen = await signature(self._program_files)
            async with _cancelled(self._compile(seen), self._changed(seen)) as (compiling, changed):
                wait_for = (compiling, changed) if superseded < MAX_SUPERSEDED else (compiling,)
                await asyncio.wait(wait_for, return_when=asyncio.FIRST_COMPLETED)
                if not compiling.done():
                    superseded += 1
                    LOG.info("compile_superseded")
                    continue
                superseded = 0
                compiled = compiling.result()
            # A newer change of the files does not cancel the activation: it would leave a half-applied state.
            await self._activate_first(compiled)
            if self._worker_was_lost:
                await self._changes_within(COMPILE_RETRY_SECONDS)
            else:
                await self._changed(self._program_files)

    async def _activate_first(self, compiled: _Compiled | None) -> None:
        """Activate a compiled state, and end the startup hold. Retries while the state directory is not writable, until
        a file of the program changes."""
        if compiled is not None:
            compiled = await self._activate(compiled)
        if self._serves_stored_state:
            await self._rebuild_snapshots()
        self.config.release_startup_hold()
        if {"program", "identities"} <= self.problems.current.keys():
            # The names of an identities file that the active program rejects may belong to this program.
            await self.config.reload_identities()
        while compiled is not None and not await self._changes_within(STORE_RETRY_SECONDS):
            compiled = await self._activate(compiled)

    async def _changes_within(self, seconds: float) -> bool:
        """Whether another compile is needed within so many seconds; waits no longer than that."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed(self._program_files)
        except TimeoutError:
            return False
        return True

    async def _changed(self, seen: Signature) -> None:
        """Wait until files differ from what was seen, or another task requests a compile."""
        async with _cancelled(until_changed(seen), self._compile_requested.wait()) as tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _compile(self, seen: Signature) -> _Compiled | None:
        """Compile the program; None if it has errors or the worker fails. `seen` is the signature of its files."""
        if self.options.endpoints is not None:
            await self._endpoints_read.wait()
        worker = await self._take_spare_worker()
        request = BuildState(self.options.source, self._endpoints, self.options.state_dir is not None)
        try:
            read, snapshots = await worker.build(request)
        except WorkerError as error:
            self._program_files = seen
            await self._report_lost_worker(worker, error)
            return None
        except asyncio.CancelledError:
            await worker.end()
            raise
        # A file that changes while this state is activated causes another compile.
        self._program_files = read.files
        if read.state is not None:
            return _Compiled(worker, read, read.state, snapshots)
        self._spare_worker = worker
        self.counts.compile_errors += 1
        self.problems.report("program", read.findings, read.folder)
        return None

    async def _take_spare_worker(self) -> Worker:
        worker, self._spare_worker = self._spare_worker, None
        if worker is not None and not worker.alive:
            await worker.end()
            worker = None
        return worker or Worker()

    async def _activate(self, compiled: _Compiled) -> _Compiled | None:
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

    async def _with_current_addresses(self, compiled: _Compiled) -> _Compiled:
        """The same state with the endpoints file as it is now. It may have changed during the compile, or while the
        state could not be stored."""
        latest = self._endpoints[:1]
        if not latest or digest(latest[0]) == compiled.state.endpoints_digest:
            return compiled
        update, changed = await compiled.worker.update_addresses(latest[0])
        if update.addresses is None:
            self.problems.report_if_new("endpoints", update.findings)
            return compiled
        return compiled._replace(
            state=replace(compiled.state, addresses=update.addresses, endpoints_digest=update.digest),
            snapshots=compiled.snapshots.updated(changed),
            read=compiled.read._replace(
                recipe=_with_endpoints(compiled.read.recipe, latest[0]), unlisted=update.unlisted
            ),
        )

    async def _apply(self, compiled: _Compiled) -> _Compiled | None:
        """Make the compiled state the active one. Returns it if it could not be stored; None otherwise."""
        worker, read, state, snapshots = compiled
        try:
            await self.config.apply(StateUpdate(self.config.state, state, snapshots, read.recipe))
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

        The first compile did not replace the stored state. For some services the state directory holds an older
        snapshot: the last one that their proxies had acknowledged.
        """
        async with self._apply_lock:
            if self._active_worker is not None and self.config.state is not None:
                usable = () if "endpoints" in self.problems.current else self._endpoints[:1]
                await self._update_addresses(
                    self._active_worker, self.config.state, next(iter(usable), None), rebuild_all=True
                )

    # ---- addresses ----

    async def _follow_endpoints(self) -> None:
        """Apply the addresses of the endpoints file whenever it changes."""
        path = self.options.endpoints
        while path is not None:
            seen = await signature((path,))
            await self._read_endpoints(path)
            await until_changed(seen, quiet=ENDPOINTS_QUIET_SECONDS)

    async def _read_endpoints(self, path: Path) -> None:
        try:
            content = await asyncio.to_thread(read_bounded, path, MAX_ENDPOINTS, "the endpoints file", regular=True)
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
        """Apply the content of the endpoints file to the active state (None: the addresses stay)."""
        if content is not None and digest(content) == old.endpoints_digest and not rebuild_all:
            self._set_usable_endpoints(content)
            return
        try:
            update, snapshots = await worker.update_addresses(content, rebuild_all=rebuild_all)
            if update.addresses is None:
                self.counts.endpoint_errors += 1
                self.problems.report("endpoints", update.findings, "")
                return
            new = replace(old, addresses=update.addresses, endpoints_digest=update.digest)
            recipe = self.config.recipe if content is None else _with_endpoints(self.config.recipe, content)
            await self.config.apply(StateUpdate(old, new, snapshots, recipe))
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
