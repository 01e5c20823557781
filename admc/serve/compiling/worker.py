"""Reads, solves and emits in a worker process, so that the server's event loop is never blocked.

A worker is a process, because a thread would hold the interpreter lock: only the solver's engine releases the lock, and
a large application takes 20 s of Python besides. A worker keeps the state that it has built. When addresses change, it
rebuilds the snapshots that they affect. Another worker builds a newer program; until the newer state is active, the
older worker handles changes of addresses. The server kills a worker that it no longer needs, even in the middle of a
solve.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, TypeVarTuple

from admc.base.exits import CommandError, Exit
from admc.base.unexpected import describe
from admc.serve.compiling import snapshots, source
from admc.serve.compiling.address_changes import AddressChanges, changed, changes
from admc.serve.compiling.address_deps import AddressIndex
from admc.serve.compiling.snapshots import SnapshotSet
from admc.serve.compiling.source import ReadResult, Source, State
from dsl.collector import no_collection
from emitters.addresses import Addresses
from emitters.envoy.checks.missing_addresses import Unlisted
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from multiprocessing.connection import Connection

    from admc.serve.storage.position import Recipe
    from dsl.diagnostics.diagnostic import Diagnostic
    from emitters.hops import Hop
    from xds_server.resources.snapshot import Snapshot

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class WorkerError(Exception):
    """The process ended without a reply, or met a bug in admc; the message says which."""


class BuildState(NamedTuple):
    """Read a program or a plan, and build all of its snapshots."""

    source: Source
    endpoints: tuple[bytes, ...]
    """Contents of the endpoints file, the latest first. The worker uses the first content without errors."""
    with_recipe: bool = False


@dataclass(frozen=True, slots=True)
class RestoreState:
    """Build the state of a recipe, and all of its snapshots."""

    source: Source | None
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class UpdateAddresses:
    """Build the snapshots that new addresses affect, or all snapshots."""

    endpoints: bytes | None
    """The new endpoints file; None if the addresses stay."""
    rebuild_all: bool = False


class AddressUpdate(NamedTuple):
    """The new addresses, or the findings of an endpoints file that cannot be used."""

    addresses: Addresses | None
    digest: str
    findings: tuple[Diagnostic, ...]
    seconds: float = 0.0
    unlisted: Unlisted = Unlisted()
    """Names that the endpoints file does not list."""

    def applied_to(self, state: State) -> State:
        """The same state at the new addresses. Raises `CommandError` with the findings if there are no new
        addresses."""
        if self.addresses is None:
            raise CommandError(Exit.INPUT, self.findings)
        return replace(state, addresses=self.addresses, endpoints_digest=self.digest)


class _Relocated(NamedTuple):
    """An address update as the process sends it: with the changes in place of all addresses."""

    changes: AddressChanges | None
    digest: str
    findings: tuple[Diagnostic, ...]
    seconds: float = 0.0
    unlisted: Unlisted = Unlisted()


Request = BuildState | RestoreState | UpdateAddresses
Reply = ReadResult | _Relocated


class _SnapshotPart(NamedTuple):
    """A part of a reply: the snapshot of a service, or the passthrough snapshot if `service` is None."""

    service: str | None
    snapshot: Snapshot | None


class _Failure(NamedTuple):
    message: str


class Worker:
    """One process with one state. All calls belong on the event loop; it handles one request at a time."""

    def __init__(self) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        lifeline, self._lifeline = multiprocessing.Pipe(duplex=False)
        files = (theirs.fileno(), lifeline.fileno())
        # `multiprocessing` does not start the process: its processes print a traceback if their parent ends while they
        # start. The process has a group of its own, so that Ctrl-C interrupts only the server.
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and two numbers
            [sys.executable, "-P", "-m", "admc.serve.compiling.worker_process", *map(str, files)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=files,
            process_group=0,
        )
        theirs.close()
        lifeline.close()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="admc-worker")
        self._lock = asyncio.Lock()
        self._addresses = Addresses()
        """The addresses of the state that the process holds."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once the process is known to have ended. The system closes its files before it reports its end, so a
        process may still count as alive just after the connection to it has broken."""
        return self._process.poll() is None

    async def build(self, request: BuildState) -> tuple[ReadResult, SnapshotSet]:
        """Build a new state, which the worker holds afterwards. Errors are findings of the answer, without a state:
        then the worker holds its earlier one. Raises `WorkerError`."""
        read, groups = await self._ask(request)
        return self._held(read), groups

    async def restore(self, request: RestoreState) -> tuple[ReadResult, SnapshotSet]:
        """Build the state of a recipe, which the worker holds afterwards. Errors and `WorkerError` as in `build`."""
        read, groups = await self._ask(request)
        return self._held(read), groups

    def _held(self, read: Reply) -> ReadResult:
        assert isinstance(read, ReadResult)  # noqa: S101 - the reply to this request
        if read.state is not None:
            self._addresses = read.state.addresses
        return read

    async def update_addresses(
        self, endpoints: bytes | None, *, rebuild_all: bool = False
    ) -> tuple[AddressUpdate, SnapshotSet]:
        """Change the addresses of the worker's state, and build the snapshots that the change affects, or all
        snapshots. With None the addresses stay. Raises `WorkerError`."""
        update, groups = await self._ask(UpdateAddresses(endpoints, rebuild_all))
        assert isinstance(update, _Relocated)  # noqa: S101 - the reply to this request
        if update.changes is None:
            return AddressUpdate(None, update.digest, update.findings), groups
        self._addresses = changed(self._addresses, update.changes)
        return AddressUpdate(self._addresses, update.digest, (), update.seconds, update.unlisted), groups

    async def _ask(self, request: Request) -> tuple[Reply, SnapshotSet]:
        async with self._lock:
            by_service: dict[str, Snapshot] = {}
            passthrough: Snapshot | None = None
            try:
                await self._in_thread(self._connection.send, request)
                while True:
                    # Snapshots arrive one by one: unpickling a large reply at once would block the event loop.
                    reply = await self._in_thread(self._receive)
                    if isinstance(reply, _Failure):
                        raise WorkerError(reply.message)
                    if isinstance(reply, _SnapshotPart):
                        if reply.service is None:
                            passthrough = reply.snapshot
                        elif reply.snapshot is not None:
                            by_service[reply.service] = reply.snapshot
                    else:
                        return reply, SnapshotSet(by_service, passthrough)
            except (EOFError, OSError) as error:
                raise WorkerError("the process that compiles has ended") from error

    async def end(self) -> None:
        """Kill the process, whatever it is doing."""
        self._process.kill()
        await self._in_thread(self._process.wait)
        self._reader.shutdown(wait=False)
        self._connection.close()
        self._lifeline.close()

    @no_collection()
    def _receive(self) -> Reply | _SnapshotPart | _Failure:
        """The next message of the process. Unpickling is safe: the process is admc's own, and builds each message."""
        message: Reply | _SnapshotPart | _Failure = self._connection.recv()
        return message

    async def _in_thread(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._reader, function, *arguments)


# ---- in the process ----


_HEAVY: Final = (
    "dsl.loader",
    "solver.place",
    "solver.verify.verifier",
    "ortools.sat.python.cp_model",
    "emitters.envoy.listeners",
)
"""Modules that a process loads before its first request, so that no change of a program waits 0.6 s for them."""


def serve(connection: Connection) -> None:
    """Reply to requests until the server that started this process ends."""
    for name in _HEAVY:
        importlib.import_module(name)
    builder = _Builder()
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = connection.recv()
            try:
                for message in builder.reply(request):
                    connection.send(message)
            except OSError:
                raise
            except Exception as error:
                # The server waits for a reply, so it gets one after any error.
                connection.send(_Failure(describe(error)))


class _Builder:
    """Handles requests, with the state that this process has built."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._index: AddressIndex | None = None

    def reply(self, request: Request) -> Iterator[_SnapshotPart | Reply]:
        started = time.perf_counter()
        if isinstance(request, BuildState):
            yield from self._build(request, started)
        elif isinstance(request, RestoreState):
            yield from self._restore(request, started)
        elif self._state is None:
            raise WorkerError("there is no state yet")
        else:
            yield from self._update_addresses(self._state, request, started)

    def _build(self, request: BuildState, started: float) -> Iterator[_SnapshotPart | Reply]:
        read = source.read(request.source, request.endpoints, with_recipe=request.with_recipe)
        if read.state is not None:
            try:
                enforced = hops(read.state.program, read.state.placement)
                yield from _snapshots(read.state, None, enforced)
                read = read._replace(unlisted=source.unlisted_names(read.state, enforced))
                self._state, self._index = read.state, None
            except CommandError as error:
                read = read._replace(state=None, findings=error.diagnostics, folder=error.folder)
        yield read._replace(seconds=time.perf_counter() - started)
        if self._state is not None and self._index is None:
            self._index = AddressIndex(self._state.program, self._state.placement)

    def _restore(self, request: RestoreState, started: float) -> Iterator[_SnapshotPart | Reply]:
        try:
            state = source.restored(request.source, request.recipe)
            index = AddressIndex(state.program, state.placement)
            yield from _snapshots(state, None, index.hops)
        except CommandError as error:
            yield ReadResult(None, error.diagnostics, error.folder, {})
            return
        self._state, self._index = state, index
        yield ReadResult(state, (), "", {}, None, time.perf_counter() - started)

    def _update_addresses(
        self, state: State, request: UpdateAddresses, started: float
    ) -> Iterator[_SnapshotPart | Reply]:
        try:
            updated = state if request.endpoints is None else source.with_endpoints(state, request.endpoints)
            only = None
            if self._index is not None and not request.rebuild_all:
                only = self._index.affected(state.addresses, updated.addresses)
            enforced = hops(updated.program, updated.placement) if self._index is None else self._index.hops
            yield from _snapshots(updated, only, enforced)
            unlisted = source.unlisted_names(updated, enforced)
        except CommandError as error:
            yield _Relocated(None, "", error.diagnostics)
            return
        different = changes(state.addresses, updated.addresses)
        self._state = updated
        yield _Relocated(different, updated.endpoints_digest, (), time.perf_counter() - started, unlisted)


def _snapshots(
    state: State, only: Collection[str] | None, enforced: Mapping[str, tuple[Hop, ...]]
) -> Iterator[_SnapshotPart]:
    made = snapshots.snapshots(state, only, enforced)
    for name, snapshot in made.by_service.items():
        yield _SnapshotPart(name, snapshot)
    yield _SnapshotPart(None, made.passthrough)
