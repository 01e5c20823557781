"""Files in, snapshots out, and the last good state in force whatever goes wrong.

    program files --Worker--> State + SnapshotSet --> ActiveConfig
    endpoints file --^ (only what other addresses change)

Everything here runs on one event loop and takes no time; reading, solving and emitting is in processes of their own
(`worker`). Two of them take turns: one holds what is in force and answers for new addresses, the other is warm for the
next program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
    from admc.serve.state_dir.store import Recipe

LOG: Final = logging.getLogger("admc.serve")
RECALLED_SECONDS: Final = 10.0
"""How long the first compile may take before proxies that come are told what an earlier server kept."""
AGAIN_SECONDS: Final = 5.0
"""Between attempts at a compile whose process has ended or met a bug: for want of memory perhaps, which may be over."""
ENDPOINTS_QUIET_SECONDS: Final = 0.01
"""Half of a file is no JSON, so this one need not be quiet for long."""
RETRY_SECONDS: Final = 1.0
"""Between attempts to put a plan in force that the folder of the kept state does not take."""
SUPERSEDED: Final = 3
"""Times in a row that an unfinished compile gives way to newer text; then one is finished."""


class _Made(NamedTuple):
    """What came of a compile, and who made it."""

    worker: Worker
    read: ReadResult
    state: State
    groups: SnapshotSet


class Reconciler:
    """Follows files. All calls belong on one event loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.problems = Problems()
        self.counts = self.problems.counts
        self.force = ActiveConfig(options, self.problems)
        self.keeping = None if options.kept is None else Persistence(self.force, options.kept)
        self._endpoints: tuple[bytes, ...] = ()
        """The endpoints file's content, and before it the last that could be used; the latest first."""
        self._seen: Signature = {options.source.path: None}
        self._again = asyncio.Event()
        """Another compile is wanted."""
        self._located = asyncio.Event()
        """There is an endpoints file."""
        self._active: Worker | None = None
        self._spare: Worker | None = None
        self._turn = asyncio.Lock()
        self._unfinished = False
        """The last compile lost its process."""
        self._recalled = False
        """What is in force is what was kept. Of some services that may be older than what their proxies were told."""

    async def follow(self) -> None:
        """Begin with what was kept, then follow whatever changes, for ever. Raises `CommandError` where a transition
        cannot be gone on with."""
        identities = await signature(self.options.settings.files)
        if self.keeping is not None:
            self._spare = Worker()
            if await self.keeping.restore(self._spare):
                self._active, self._spare, self._recalled = self._spare, None, True
        await asyncio.gather(
            self._follow_endpoints(),
            self._follow_program(),
            self._follow_identities(identities),
            self.force.rollout.follow(),
            self._wait_no_longer(),
            *(() if self.keeping is None else (self.keeping.follow(),)),
        )

    async def _wait_no_longer(self) -> None:
        """Serve what was kept if the first compile takes too long."""
        await asyncio.sleep(RECALLED_SECONDS)
        if self._recalled and self.options.endpoints is not None and not self._located.is_set():
            await self._renew()  # no compile has begun: there are no addresses to begin with
        self.force.release_startup_hold()

    async def save(self) -> None:
        """Keep what is in force, and what proxies have acknowledged of it."""
        if self.keeping is not None:
            await self.keeping.save()

    async def close(self) -> None:
        """End the processes."""
        for worker in (self._active, self._spare):
            if worker is not None:
                await worker.end()

    async def _follow_identities(self, seen: Signature) -> None:
        """Read again who is who whenever its files change, for ever."""
        while self.options.settings.files:
            await until_changed(seen)
            # Before they are read: what changes meanwhile is read once more, and nobody's revocation is missed.
            seen = await signature(seen)
            if await self.force.reload_identities():
                LOG.info("identities_read")
            if "program" in self.problems.current:
                self._again.set()  # it may have been refused for what these files said

    # ---- the program ----

    async def _follow_program(self) -> None:
        """Compile now and whenever a file of the program changes, for ever."""
        given_way = 0
        while True:
            self._again.clear()
            self._unfinished = False
            seen = await signature(self._seen)
            async with _cancelled(self._compile(seen), self._changed(seen)) as (compiling, changed):
                wait_for = (compiling, changed) if given_way < SUPERSEDED else (compiling,)
                await asyncio.wait(wait_for, return_when=asyncio.FIRST_COMPLETED)
                if not compiling.done():
                    given_way += 1
                    LOG.info("compile_superseded")
                    continue
                given_way = 0
                made = compiling.result()
            # Newer text does not interrupt this: half of a state in force is one that nobody knows of.
            if made is not None:
                made = await self._put_in_force(made)
            if self._recalled:
                await self._renew()
            self.force.release_startup_hold()
            if {"program", "identities"} <= self.problems.current.keys():
                await self.force.reload_identities()  # what was wrong with them may have been right for the program
            while made is not None and not await self._changes_within(RETRY_SECONDS):
                made = await self._put_in_force(made)
            if self._unfinished:
                await self._changes_within(AGAIN_SECONDS)
            else:
                await self._changed(self._seen)

    async def _changes_within(self, seconds: float) -> bool:
        """Wait for another compile to be wanted, so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed(self._seen)
        except TimeoutError:
            return False
        return True

    async def _changed(self, seen: Signature) -> None:
        """Wait until files look otherwise, or somebody asks for another compile."""
        async with _cancelled(until_changed(seen), self._again.wait()) as tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _compile(self, seen: Signature) -> _Made | None:
        """What came of the program, and who made it; None if that is nothing to put in force. Its files have been seen
        as they are now."""
        if self.options.endpoints is not None:
            await self._located.wait()
        worker, self._spare = self._spare, None
        if worker is not None and not worker.alive:
            await worker.end()
            worker = None
        worker = worker or Worker()
        try:
            read, groups = await worker.build(
                BuildState(self.options.source, self._endpoints, self.options.kept is not None)
            )
        except WorkerError as error:
            self._seen = seen
            await self._lost(worker, error)
            return None
        except asyncio.CancelledError:
            await worker.end()
            raise
        # A change that comes while this goes into force makes another compile.
        self._seen = read.files
        if read.state is not None:
            return _Made(worker, read, read.state, groups)
        self._spare = worker
        self.counts.compile_errors += 1
        self.problems.report("program", read.findings, read.folder)
        return None

    async def _put_in_force(self, made: _Made) -> _Made | None:
        """What is to be tried again, if the folder of the kept state does not take it now."""
        if self._spare is made.worker:
            self._spare = None
        try:
            async with self._turn:
                made = await self._at_addresses_of_now(made)
                return await self._take_over(made)
        except WorkerError as error:
            await self._lost(made.worker, error)
        except asyncio.CancelledError:
            await made.worker.end()
            raise
        return None

    async def _lost(self, worker: Worker, error: WorkerError) -> None:
        self.counts.compile_errors += 1
        self.problems.report_worker_failure("program", error)
        self._unfinished = True
        await worker.end()

    async def _at_addresses_of_now(self, made: _Made) -> _Made:
        """They may have changed while it was made, or while the folder took nothing."""
        latest = self._endpoints[:1]
        if not latest or digest(latest[0]) == made.state.endpoints_digest:
            return made
        found, moved = await made.worker.update_addresses(latest[0])
        if found.addresses is None:
            self.problems.report_if_new("endpoints", found.findings)
            return made
        return made._replace(
            state=replace(made.state, addresses=found.addresses, endpoints_digest=found.digest),
            groups=SnapshotSet(
                {**made.groups.by_service, **moved.by_service}, moved.passthrough or made.groups.passthrough
            ),
            read=made.read._replace(recipe=_at(made.read.recipe, latest[0]), unlisted=found.unlisted),
        )

    async def _take_over(self, made: _Made) -> _Made | None:
        """Put in force what was made; what is to be tried again."""
        worker, read, state, groups = made
        try:
            await self.force.apply(StateUpdate(self.force.state, state, groups, read.recipe))
        except StateNotSavedError as error:
            self._spare = worker
            self.problems.report_not_saved("program", error.diagnostics)
            return made
        except (SnapshotError, CommandError) as error:
            self._spare = worker
            self.problems.report_rejected(error)
            return None
        self._active, self._spare, self._recalled = worker, self._active or Worker(), False
        latest = self._endpoints[:1]
        if latest and digest(latest[0]) == state.endpoints_digest:
            self._used(latest[0])
        self.counts.compiles += 1
        self.counts.compile_seconds = read.seconds
        self.problems.report("warnings", read.findings, read.folder)
        said = {"state": state.version, "adms": len(state.placement.adms), "seconds": round(read.seconds, 3)}
        LOG.info("compiled", extra=said)
        self.problems.report_unlisted(read.unlisted)
        return None

    async def _renew(self) -> None:
        """Nothing better than what was kept came of the program: then all of what it makes is told, at the addresses of
        now. Of some services an older part was kept, since their proxies had not acknowledged all that they were told.
        """
        async with self._turn:
            if self._active is not None and self.force.state is not None:
                usable = () if "endpoints" in self.problems.current else self._endpoints[:1]
                await self._locate(self._active, self.force.state, next(iter(usable), None), whole=True)

    # ---- addresses ----

    async def _follow_endpoints(self) -> None:
        """Put the addresses of the endpoints file in force whenever it changes, for ever."""
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
        # The last good one stays at hand for a program that comes meanwhile.
        self._endpoints = (content, *self._endpoints[-1:])
        self._located.set()
        async with self._turn:
            if self._active is not None and self.force.state is not None:
                await self._locate(self._active, self.force.state, content)
            elif not first:  # for the first one a compile is waiting
                self._again.set()

    async def _locate(self, worker: Worker, old: State, content: bytes | None, *, whole: bool = False) -> None:
        if content is not None and digest(content) == old.endpoints_digest and not whole:
            self._used(content)
            return
        try:
            found, groups = await worker.update_addresses(content, whole=whole)
            if found.addresses is None:
                self.counts.endpoint_errors += 1
                self.problems.report("endpoints", found.findings, "")
                return
            new = replace(old, addresses=found.addresses, endpoints_digest=found.digest)
            recipe = self.force.recipe if content is None else _at(self.force.recipe, content)
            await self.force.apply(StateUpdate(old, new, groups, recipe))
        except WorkerError as error:
            self.counts.endpoint_errors += 1
            self.problems.report_worker_failure("endpoints", error)
            await self._lose(worker)
            return
        except StateNotSavedError as error:
            # A compile makes the same again, and that is tried until the folder takes it.
            self.problems.report_not_saved("program", error.diagnostics)
            await self._lose(worker)
            return
        except (SnapshotError, CommandError) as error:
            self.problems.report_rejected(error)
            await self._lose(worker)
            return
        if whole:
            self._recalled = False
        if content is not None:
            self._used(content)
        self.counts.locates += 1
        LOG.info("located", extra={"adms": len(groups.by_service), "seconds": round(found.seconds, 4)})
        self.problems.report_unlisted(found.unlisted)

    async def _lose(self, worker: Worker) -> None:
        """A worker whose state is not what is in force is of no more use: compile anew."""
        self._active = None
        await worker.end()
        self._again.set()

    def _used(self, content: bytes) -> None:
        self._endpoints = (content,)
        self.problems.clear("endpoints")


def _at(recipe: Recipe | None, endpoints: bytes) -> Recipe | None:
    return None if recipe is None else recipe._replace(endpoints=endpoints)


@contextlib.asynccontextmanager
async def _cancelled(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[tuple[asyncio.Task[Any], ...]]:
    """Tasks that do not outlive the block."""
    tasks = tuple(asyncio.ensure_future(each) for each in coroutines)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
