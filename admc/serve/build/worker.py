"""Reading, solving and emitting in a process of its own, so that streams go on whatever it takes.

A process and not a thread: only the solver's engine lets other threads run, and a large application is 20 s of Python
besides. Each program has its own process, which keeps the state that it made and emits what changes of it. A newer
program gets another one, while the older still answers for new addresses; and what is not wanted any more is ended, in
the middle of a solve if need be.
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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.bug import said_of
from admc.exits import CommandError
from admc.serve.build import source as feed, snapshots as groups
from admc.serve.build.address_deps import Index
from admc.serve.build.source import Read, Source, State
from admc.serve.build.snapshots import Groups
from dsl.collector import no_collection
from emitters.envoy.checks.missing_addresses import Unlisted
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from multiprocessing.connection import Connection

    from admc.serve.state_dir.store import Recipe
    from dsl.diagnostics.diagnostic import Diagnostic
    from emitters.addresses import Addresses
    from emitters.hops import Hop
    from xds_server.resources.snapshot import Snapshot


class WorkerError(Exception):
    """The process ended without an answer, or met a bug of admc; the message says which."""


class Build(NamedTuple):
    """Read a program or a plan, and make all of its snapshots."""

    source: Source
    endpoints: tuple[bytes, ...]
    """What the endpoints file holds, the latest first; the first that can be used is."""
    keep: bool = False
    """Whether the recipe is wanted, too."""


class Recall(NamedTuple):
    """Make the state of a recipe, without any snapshot."""

    source: Source
    recipe: Recipe


class Locate(NamedTuple):
    """Make the snapshots that other addresses change, or all of them."""

    endpoints: bytes | None
    """None: the addresses are those of before."""
    whole: bool = False


class Located(NamedTuple):
    """What came of other addresses: them, or findings."""

    addresses: Addresses | None
    digest: str
    findings: tuple[Diagnostic, ...]
    seconds: float = 0.0
    unlisted: Unlisted = Unlisted()
    """Whose addresses are missing."""


Request = Build | Recall | Locate
Answer = Read | Located


class _Group(NamedTuple):
    """A part of an answer. Without a service it is for whoever has no ADM."""

    service: str | None
    snapshot: Snapshot | None


class _Bug(NamedTuple):
    said: str


class Worker:
    """One process with one state. All calls belong on the event loop; one request at a time."""

    def __init__(self) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        lifeline, self._lifeline = multiprocessing.Pipe(duplex=False)
        files = (theirs.fileno(), lifeline.fileno())
        # Not by `multiprocessing`, whose processes complain when they lose their parent before they have begun; and not
        # in the server's group, so that it is the server alone to whom Ctrl-C is said.
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and two numbers
            [sys.executable, "-P", "-m", "admc.serve.build.worker_process", *map(str, files)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=files,
            process_group=0,
        )
        theirs.close()
        lifeline.close()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="admc-worker")
        self._lock = asyncio.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is not known to have ended. It may have: the system closes what a process has open before
        it tells anybody of its end, so that whoever has just lost one finds it alive."""
        return self._process.poll() is None

    async def build(self, request: Build) -> tuple[Read, Groups]:
        """A new state, which is the worker's from now on. Raises `WorkerError`."""
        read, groups = await self._ask(request)
        assert isinstance(read, Read)  # noqa: S101 - what a build is answered with
        return read, groups

    async def recall(self, request: Recall) -> Read:
        """The state of a recipe, which is the worker's from now on. Raises `WorkerError`."""
        read, _ = await self._ask(request)
        assert isinstance(read, Read)  # noqa: S101 - what a recipe is answered with
        return read

    async def locate(self, endpoints: bytes | None, *, whole: bool = False) -> tuple[Located, Groups]:
        """The worker's state at other addresses (None: at those of before), and the groups that they may change, or all
        of them. Raises `WorkerError`."""
        located, groups = await self._ask(Locate(endpoints, whole))
        assert isinstance(located, Located)  # noqa: S101 - what such a question is answered with
        return located, groups

    async def _ask(self, request: Request) -> tuple[Answer, Groups]:
        async with self._lock:
            found: dict[str, Snapshot] = {}
            passing: Snapshot | None = None
            try:
                await self._run(self._connection.send, request)
                while True:
                    # One after the other: to read a large one in one go would hold up all streams.
                    answer = await self._run(self._received)
                    if isinstance(answer, _Bug):
                        raise WorkerError(answer.said)
                    if isinstance(answer, _Group):
                        if answer.service is None:
                            passing = answer.snapshot
                        elif answer.snapshot is not None:
                            found[answer.service] = answer.snapshot
                    else:
                        return answer, Groups(found, passing)
            except (EOFError, OSError) as error:
                raise WorkerError("the process that compiles has ended") from error

    async def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        await self._run(self._process.wait)
        self._reader.shutdown(wait=False)
        self._connection.close()
        self._lifeline.close()

    @no_collection()
    def _received(self) -> Any:
        """What the process sends next. It is our own, and sends nothing that others wrote as it came."""
        return self._connection.recv()

    async def _run(self, what: Any, *arguments: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._reader, what, *arguments)


# ---- in the process ----


_HEAVY: Final = (
    "dsl.loader",
    "solver.place",
    "solver.verify.verifier",
    "ortools.sat.python.cp_model",
    "emitters.envoy.listeners",
)
"""Loaded before the first question: 0.6 s that a change of the program need not wait for."""


def serve(connection: Connection) -> None:
    """Answer until whoever started this process (`compiling`) goes away."""
    for name in _HEAVY:
        importlib.import_module(name)
    desk = _Desk()
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = connection.recv()
            try:
                for answer in desk.answers(request):
                    connection.send(answer)
            except OSError:
                raise
            except Exception as error:
                # Whatever it is, it must reach whoever waits for an answer.
                connection.send(_Bug(said_of(error)))


class _Desk:
    """The state that this process has made, and answers about it."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._index: Index | None = None

    def answers(self, request: Request) -> Iterator[_Group | Answer]:
        started = time.perf_counter()
        if isinstance(request, Build):
            yield from self._build(request, started)
        elif isinstance(request, Recall):
            yield self._recall(request, started)
        elif self._state is None:
            raise WorkerError("there is no state yet")
        else:
            yield from self._locate(self._state, request, started)

    def _build(self, request: Build, started: float) -> Iterator[_Group | Answer]:
        read = feed.read(request.source, request.endpoints, keep=request.keep)
        if read.state is not None:
            try:
                enforced = hops(read.state.program, read.state.placement)
                yield from _groups(read.state, None, enforced)
                read = read._replace(unlisted=feed.missing(read.state, enforced))
                self._state, self._index = read.state, None
            except CommandError as error:
                read = read._replace(state=None, findings=error.diagnostics, folder=error.folder)
        yield read._replace(seconds=time.perf_counter() - started)
        if self._state is not None and self._index is None:
            self._index = Index(self._state.program, self._state.placement)

    def _recall(self, request: Recall, started: float) -> Read:
        try:
            state = feed.recalled(request.source, request.recipe)
        except CommandError as error:
            return Read(None, error.diagnostics, error.folder, {})
        self._state, self._index = state, Index(state.program, state.placement)
        return Read(state, (), "", {}, None, time.perf_counter() - started)

    def _locate(self, state: State, request: Locate, started: float) -> Iterator[_Group | Answer]:
        try:
            moved = state if request.endpoints is None else feed.relocated(state, request.endpoints)
            only = None
            if self._index is not None and not request.whole:
                only = self._index.affected(state.addresses, moved.addresses)
            enforced = hops(moved.program, moved.placement) if self._index is None else self._index.hops
            yield from _groups(moved, only, enforced)
            unlisted = feed.missing(moved, enforced)
        except CommandError as error:
            yield Located(None, "", error.diagnostics)
            return
        self._state = moved
        yield Located(moved.addresses, moved.located, (), time.perf_counter() - started, unlisted)


def _groups(state: State, only: Collection[str] | None, enforced: Mapping[str, tuple[Hop, ...]]) -> Iterator[_Group]:
    made = groups.snapshots(state, only, enforced)
    for name, snapshot in made.adms.items():
        yield _Group(name, snapshot)
    yield _Group(None, made.passing)
