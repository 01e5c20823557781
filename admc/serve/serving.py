"""Files in, snapshots out, and the last good state in force whatever goes wrong.

    program files --Worker--> State + Groups --apply--> SnapshotStore --> XdsServer
    endpoints file --^ (only what other addresses change)

Everything here runs on one event loop and takes no time; reading, solving and emitting is in processes of their own
(`worker`). Two of them take turns: one holds what is in force and answers for new addresses, the other is warm for the
next program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.emission import MAX_ENDPOINTS
from admc.exits import CommandError, Exit
from admc.files import read_bounded
from admc.render import text
from admc.render.report import Report
from admc.serve import handles, identity, record
from admc.serve.feed import digest, recalled
from admc.serve.groups import Groups
from admc.serve.moving import DRAIN_SECONDS, Moving, Planned
from admc.serve.watch import signature, until_changed
from admc.serve.worker import Build, Recall, Worker, WorkerError
from dsl.diagnostics import Diagnostic, Severity
from xds_server.connection import Admission
from xds_server.server import Limits, XdsServer
from xds_server.snapshot import SnapshotError
from xds_server.store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from admc.serve.feed import Read, Source, State
    from admc.serve.identity import Identities, Settings
    from admc.serve.kept import Kept, Recipe
    from admc.serve.watch import Signature
    from dsl.program import Program
    from xds_server.connection import Caller
    from xds_server.snapshot import Snapshot

LOG: Final = logging.getLogger("admc.serve")
KEEP_SECONDS: Final = 0.5
AGAIN_SECONDS: Final = 5.0
"""After a process was killed in the middle of a compile."""
RECALLED_SECONDS: Final = 10.0
"""How long the first compile may take before proxies that come are told what an earlier server kept."""
AT_ONCE: Final = 50
"""Groups that are published before streams have their turn again."""
ENDPOINTS_QUIET_SECONDS: Final = 0.01
"""Half of a file is no JSON, so this one need not be quiet for long."""
SUPERSEDED: Final = 3
"""Times in a row that an unfinished compile gives way to newer text; then one is finished."""


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


@dataclass(slots=True)
class Counts:
    """What has happened since the start."""

    compiles: int = 0
    compile_errors: int = 0
    locates: int = 0
    """Changes of addresses that were put in force."""
    endpoint_errors: int = 0
    apply_errors: int = 0
    transition_errors: int = 0
    """Times that a step could not be taken, and was tried again later."""
    kept_errors: int = 0
    """Times that the kept state could not be used or written."""
    compile_seconds: float = 0.0
    """Of the last compile that was put in force."""
    changed_at: float = 0.0
    """When the last state was put in force, in seconds since 1970."""


@dataclass(slots=True)
class Problems:
    """What is wrong now, by what it is wrong with: `program`, `endpoints`, `identities`. Empty when all is well."""

    held: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)

    def set(self, what: str, findings: tuple[Diagnostic, ...]) -> None:
        self.held[what] = findings

    def clear(self, what: str) -> None:
        self.held.pop(what, None)

    @property
    def said(self) -> str:
        """The first of them, and how many more there are; empty where there are none."""
        found = [item.message for items in self.held.values() for item in items]
        return "" if not found else found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


class Serving:
    """What is served, and how it changes. All calls belong on one event loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.store = SnapshotStore()
        limits = Limits(connections=handles.connections(Limits().connections))
        self.server = XdsServer(self.store, self.identify, limits)
        self.counts = Counts()
        self.moving = Moving(
            self.server,
            self.publish,
            drain_seconds=options.drain_seconds,
            folder=None if options.kept is None else options.kept.folder,
            failed=self._step_failed,
        )
        self.state: State | None = None
        """What is in force."""
        self.identities: Identities | None = None
        self.problems = Problems()
        self._endpoints: tuple[bytes, ...] = ()
        """The endpoints file's content, and before it the last that could be used; the latest first."""
        self._seen: Signature = {options.source.path: None}
        self._again = asyncio.Event()
        """Another compile is wanted."""
        self._located = asyncio.Event()
        """There is an endpoints file."""
        self._active: Worker | None = None
        self._spare: Worker | None = None
        self._passing: Snapshot | None = None
        self._recipe: Recipe | None = None
        self._turn = asyncio.Lock()
        self._held_back = False
        """What an earlier server kept waits for the first compile: what is kept may be a moment older than what proxies
        have, and they lose nothing by waiting."""

    @property
    def ready(self) -> bool:
        """Whether there is something to serve."""
        return bool(self.store.groups) and not self._held_back

    def identify(self, caller: Caller) -> Admission:
        """Who is who. Raises `DeniedError`. Before there is a program nobody can tell: such a group has no snapshot,
        and its client is to come again."""
        known = None if self._held_back else self.identities
        return Admission("") if known is None else known.identify(caller)

    def may_administer(self, caller: Caller) -> bool:
        """Whether a client may see what every other one has."""
        return self.identities is not None and self.identities.may_administer(caller)

    async def _know(self, program: Program) -> None:
        """Who is who in a program: streams of clients that are not what they were end. Raises `CommandError`."""
        self.identities = await asyncio.to_thread(identity.load, self.options.settings, program)
        self.problems.clear("identities")
        self.server.identify_again()

    async def follow_identities(self) -> None:
        """Read again who is who whenever its files change, for ever."""
        files = self.options.settings.files
        seen = await signature(files)
        while files:
            await until_changed(seen)
            # Before they are read: what changes meanwhile is read once more, and nobody's revocation is missed.
            seen = await signature(files)
            try:
                if self.state is not None:
                    await self._know(self.state.program)
                    LOG.info("identities_read")
            except CommandError as error:
                self._report("identities", error.diagnostics, error.folder)
            if "program" in self.problems.held:
                self._again.set()  # it may have been refused for what these files said

    # ---- changes ----

    async def apply(self, change: Change) -> None:
        """Every new state goes into force here. Raises `SnapshotError` or `CommandError` where it cannot: then nothing
        has changed."""
        if not change.only_addresses:
            await self._know(change.new.program)
        if change.old is None and self.moving.underway is None:
            await self.publish(change.groups, change.new)
        elif change.only_addresses:
            await self.moving.relocate(Planned(change.new, self._recipe), change.groups)
        else:
            new = Planned(change.new, change.recipe)
            old = new if change.old is None else Planned(change.old, self._recipe)
            await self.moving.change(old, new, change.groups)
        self.state = change.new
        self.counts.changed_at = time.time()

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

    # ---- what is kept ----

    async def recall(self) -> None:
        """Begin with what an earlier server kept, until something better is known.

        Raises `CommandError` where it was in a transition and that cannot be gone on with: proxies keep what they
        have, which is better than a guess.
        """
        if self.options.kept is not None:
            identities = await self._recall(self.options.kept)
            await self._resume(self.options.kept.folder)
            # Only now is anybody told anything: of a transition, what was kept may be older than its step.
            self.identities = identities
            if identities is not None and self.moving.underway is None:
                self._held_back = True
                asyncio.get_running_loop().call_later(RECALLED_SECONDS, self._let_go)

    def _let_go(self) -> None:
        self._held_back = False

    async def _recall(self, kept: Kept) -> Identities | None:
        """What was kept goes into force for whoever will be known; who that is."""
        worker = Worker()
        try:
            found = await asyncio.to_thread(kept.recall)
            if found is None or found.recipe is None:
                self._spare = worker
                return None
            read = await worker.recall(Recall(self.options.source, found.recipe))
            if read.state is None:
                raise CommandError(Exit.INPUT, read.findings, read.folder)
            identities = await asyncio.to_thread(identity.load, self.options.settings, read.state.program)
        except (CommandError, WorkerError) as error:
            self.counts.kept_errors += 1
            if isinstance(error, CommandError):
                self._report("kept", error.diagnostics, error.folder)
            else:
                self._failed("kept", error)
            await worker.end()
            return None
        except asyncio.CancelledError:
            await worker.end()
            raise
        for problem in found.problems:
            self.counts.kept_errors += 1
            LOG.error("kept_group_not_used", extra={"problem": problem})
        self.store.publish_all(found.groups)
        for name, snapshot in found.groups.items():
            self.store.accepted(name, snapshot)
        self.state, self._recipe, self._active = read.state, found.recipe, worker
        LOG.info("recalled", extra={"groups": len(found.groups), "state": read.state.version})
        return identities

    async def _resume(self, folder: Path) -> None:
        """Go on with the transition that the earlier server was in."""
        kept = await asyncio.to_thread(record.read, folder)
        if kept is not None:
            source = self.options.source
            old, new = [await asyncio.to_thread(recalled, source, recipe) for recipe in (kept.old, kept.new)]
            await self.moving.resume(kept, Planned(old, kept.old), Planned(new, kept.new))

    async def follow_kept(self) -> None:
        """Keep what proxies acknowledge, as it comes, for ever."""
        while self.options.kept is not None:
            await self.keep()
            await asyncio.sleep(KEEP_SECONDS)

    async def keep(self) -> None:
        """Keep what is in force and what proxies have acknowledged."""
        kept = self.options.kept
        if kept is None or self.state is None:
            return
        taken = {name: self.store.taken(name) for name in self.store.groups}
        groups = {name: snapshot for name, snapshot in taken.items() if snapshot is not None}
        try:
            await asyncio.to_thread(kept.save, self._recipe, groups)
        except CommandError as error:
            self.counts.kept_errors += 1
            if self.problems.held.get("kept") != error.diagnostics:
                self._report("kept", error.diagnostics, "")
        else:
            self.problems.clear("kept")

    # ---- the program ----

    async def follow_program(self) -> None:
        """Compile now and whenever a file of the program changes, for ever."""
        given_way = 0
        while True:
            self._again.clear()
            seen = await signature(self._seen)
            async with _cancelled(self._compile(), self._changed(seen)) as (compiling, changed):
                wait_for = (compiling, changed) if given_way < SUPERSEDED else (compiling,)
                await asyncio.wait(wait_for, return_when=asyncio.FIRST_COMPLETED)
                if not compiling.done():
                    given_way += 1
                    LOG.info("compile_superseded")
                    continue
                given_way = 0
                compiled = compiling.result()
            # Newer text does not interrupt this: half of a state in force is one that nobody knows of.
            if compiled is not None:
                await self._put_in_force(*compiled)
            self._let_go()
            await self._changed(self._seen)

    async def _changed(self, seen: Signature) -> None:
        """Wait until files look otherwise, or somebody asks for another compile."""
        async with _cancelled(until_changed(seen), self._again.wait()) as tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _compile(self) -> tuple[Worker, Read, State, Groups] | None:
        """What came of the program, and who made it; None if that is nothing to put in force."""
        if self.options.endpoints is not None:
            await self._located.wait()
        worker, self._spare = self._spare, None
        if worker is None or not worker.alive:
            worker = Worker()
        try:
            read, groups = await worker.build(
                Build(self.options.source, self._endpoints, self.options.kept is not None)
            )
        except WorkerError as error:
            await self._lost(worker, error)
            return None
        except asyncio.CancelledError:
            await worker.end()
            raise
        # A change that comes while this goes into force makes another compile.
        self._seen = read.files
        if read.state is not None:
            return worker, read, read.state, groups
        self._spare = worker
        self.counts.compile_errors += 1
        self._report("program", read.findings, read.folder)
        return None

    async def _put_in_force(self, worker: Worker, read: Read, state: State, groups: Groups) -> None:
        try:
            async with self._turn:
                await self._take_over(worker, read, state, groups)
        except WorkerError as error:
            await self._lost(worker, error)
        except asyncio.CancelledError:
            await worker.end()
            raise

    async def _lost(self, worker: Worker, error: WorkerError) -> None:
        self.counts.compile_errors += 1
        self._failed("program", error)
        if not worker.alive:  # killed, for want of memory perhaps: that may be over by then
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._again.set)
        await worker.end()

    async def _take_over(self, worker: Worker, read: Read, state: State, groups: Groups) -> None:
        """A compile is done: put it in force, with the addresses of now."""
        latest = self._endpoints[:1]
        if latest and digest(latest[0]) != state.located:
            found, moved = await worker.locate(latest[0])
            if found.addresses is None:
                self._report("endpoints", found.findings, "")
            else:
                state = replace(state, addresses=found.addresses, located=found.digest)
                groups = Groups({**groups.adms, **moved.adms}, moved.passing or groups.passing)
                read = read._replace(recipe=_at(read.recipe, latest[0]))
        try:
            await self.apply(Change(self.state, state, groups, read.recipe))
        except (SnapshotError, CommandError) as error:
            self._spare = worker
            self._refused(error)
            return
        self._active, self._spare = worker, self._active or Worker()
        self._recipe = read.recipe
        self.problems.clear("program")
        if latest and digest(latest[0]) == state.located:
            self._used(latest[0])
        self.counts.compiles += 1
        self.counts.compile_seconds = read.seconds
        self._report("warnings", read.findings, read.folder)
        said = {"state": state.version, "adms": len(state.placement.adms), "seconds": round(read.seconds, 3)}
        LOG.info("compiled", extra=said)

    # ---- addresses ----

    async def follow_endpoints(self) -> None:
        """Put the addresses of the endpoints file in force whenever it changes, for ever."""
        path = self.options.endpoints
        while path is not None:
            seen = await signature((path,))
            await self._read_endpoints(path)
            await until_changed(seen, quiet=ENDPOINTS_QUIET_SECONDS)

    async def _read_endpoints(self, path: Path) -> None:
        try:
            content = await asyncio.to_thread(read_bounded, path, MAX_ENDPOINTS, "the endpoints file")
        except CommandError as error:
            self.counts.endpoint_errors += 1
            self._report("endpoints", error.diagnostics, "")
            return
        if self._endpoints and content == self._endpoints[0]:
            return
        first = not self._endpoints
        # The last good one stays at hand for a program that comes meanwhile.
        self._endpoints = (content, *self._endpoints[-1:])
        self._located.set()
        async with self._turn:
            if self._active is not None and self.state is not None:
                await self._locate(self._active, self.state, content)
            elif not first:  # for the first one a compile is waiting
                self._again.set()

    async def _locate(self, worker: Worker, old: State, content: bytes) -> None:
        if digest(content) == old.located:
            self._used(content)
            return
        try:
            found, groups = await worker.locate(content)
            if found.addresses is None:
                self.counts.endpoint_errors += 1
                self._report("endpoints", found.findings, "")
                return
            new = replace(old, addresses=found.addresses, located=found.digest)
            await self.apply(Change(old, new, groups))
        except WorkerError as error:
            self.counts.endpoint_errors += 1
            self._failed("endpoints", error)
            await self._lose(worker)
            return
        except (SnapshotError, CommandError) as error:
            self._refused(error)
            await self._lose(worker)
            return
        self._used(content)
        self._recipe = _at(self._recipe, content)
        self.counts.locates += 1
        LOG.info("located", extra={"adms": len(groups.adms), "seconds": round(found.seconds, 4)})

    async def _lose(self, worker: Worker) -> None:
        """A worker whose state is not what is in force is of no more use: compile anew."""
        self._active = None
        await worker.end()
        self._again.set()

    def _used(self, content: bytes) -> None:
        self._endpoints = (content,)
        self.problems.clear("endpoints")

    # ---- what is wrong ----

    def _report(self, about: str, findings: tuple[Diagnostic, ...], folder: str) -> None:
        """Tell of findings, and keep them for whoever asks. What was in force stays."""
        errors = any(item.severity is Severity.ERROR for item in findings)
        if about != "warnings":
            self.problems.set(about, findings)
        for item in findings:
            LOG.log(
                logging.ERROR if item.severity is Severity.ERROR else logging.WARNING,
                "finding",
                extra={
                    "about": about,
                    "code": item.code,
                    "text": text.render(Report((item,), folder=folder)).rpartition("\n\n")[0],
                },
            )
        if errors:
            LOG.error("last_good_state_stays", extra={"about": about, "state": self._version()})

    def _failed(self, about: str, error: WorkerError) -> None:
        bug = Diagnostic("ADM901", Severity.ERROR, "admc met something that it does not foresee", None, str(error))
        self._report(about, (bug,), "")

    def _refused(self, error: SnapshotError | CommandError) -> None:
        self.counts.apply_errors += 1
        if isinstance(error, CommandError):
            self._report("program", error.diagnostics, error.folder)
        else:
            message = "the configuration does not hold together; this is a bug in admc"
            self._report("program", (Diagnostic("ADM901", Severity.ERROR, message, None, str(error)),), "")

    def _step_failed(self) -> None:
        self.counts.transition_errors += 1

    def _version(self) -> str:
        return "" if self.state is None else self.state.version

    async def close(self) -> None:
        """End the processes."""
        for worker in (self._active, self._spare):
            if worker is not None:
                await worker.end()


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
