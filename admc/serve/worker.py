"""Reading, solving and emitting in a process of its own, so that streams go on whatever it takes.

A process and not a thread: only the solver's engine lets other threads run, and a large application is 20 s of Python
besides. Each program has its own process, which keeps the state that it made and emits what changes of it. A newer
program gets another one, while the older still answers for new addresses; and what is not wanted any more is ended, in
the middle of a solve if need be.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.exits import CommandError
from admc.serve import feed, groups
from admc.serve.affected import Index
from admc.serve.feed import Read, Source, State
from admc.serve.groups import Groups

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from xds_server.snapshot import Snapshot


class WorkerError(Exception):
    """The process ended without an answer, or met a bug of admc; the message says which."""


class Build(NamedTuple):
    """Read a program or a plan, and make all of its snapshots."""

    source: Source
    endpoints: tuple[bytes, ...]
    """What the endpoints file holds, the latest first; the first that can be used is."""


class Locate(NamedTuple):
    """Make the snapshots that other addresses change."""

    endpoints: bytes


class Made(NamedTuple):
    """An answer: what was read, and the snapshots of all services that it may have changed."""

    read: Read
    groups: Groups


class _Bug(NamedTuple):
    said: str


class Worker:
    """One process with one state. All calls belong on the event loop; one request at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name="admc-worker", daemon=True)
        self._process.start()
        theirs.close()
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="admc-worker")
        self._lock = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def ask(self, request: Build | Locate) -> Made:
        """The answer to a request. Raises `WorkerError`."""
        async with self._lock:
            found: dict[str, Snapshot] = {}
            passing: Snapshot | None = None
            try:
                await self._run(self._connection.send, request)
                while True:
                    # One after the other: to read a large one in one go would hold up all streams.
                    answer = await self._run(self._connection.recv)
                    if isinstance(answer, _Bug):
                        raise WorkerError(answer.said)
                    if isinstance(answer, Read):
                        return Made(answer, Groups(found, passing))
                    name, snapshot = answer
                    if name is None:
                        passing = snapshot
                    else:
                        found[name] = snapshot
            except (EOFError, OSError) as error:
                raise WorkerError(f"the process that compiles has ended (code {self._process.exitcode})") from error

    async def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        await self._run(self._process.join)
        self._reader.shutdown(wait=False)
        self._connection.close()

    async def _run(self, what: Any, *arguments: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._reader, what, *arguments)


# ---- in the process ----


def _serve(connection: Connection) -> None:
    """Answer until whoever started this process goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; who started this one decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    held: _Held | None = None
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            request = connection.recv()
            try:
                for answer in _answers(request, held):
                    if isinstance(answer, Read):
                        held = _holding(answer.state, request, held)
                    connection.send(answer)
            except (EOFError, OSError):
                return
            except Exception as error:
                from admc.bug import said_of

                connection.send(_Bug(said_of(error)))


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


class _Held(NamedTuple):
    state: State
    readers: Index


def _holding(state: State | None, request: Build | Locate, held: _Held | None) -> _Held | None:
    if state is None:
        return held
    if held is not None and isinstance(request, Locate):
        return _Held(state, held.readers)
    return _Held(state, Index(state.program, state.placement))


def _answers(request: Build | Locate, held: _Held | None) -> Iterator[tuple[str | None, Snapshot | None] | Read]:
    started = time.perf_counter()
    if isinstance(request, Build):
        read = feed.read(request.source, request.endpoints)
        if read.state is None:
            yield read
            return
        only = None
    else:
        if held is None:
            raise WorkerError("there is no state yet")
        try:
            moved = feed.relocated(held.state, request.endpoints)
        except CommandError as error:
            yield Read(None, error.diagnostics, error.folder, ())
            return
        read = Read(moved, (), "", ())
        only = held.readers.affected(held.state.addresses, moved.addresses)
    assert read.state is not None  # noqa: S101
    try:
        made = groups.snapshots(read.state, only)
    except CommandError as error:
        yield read._replace(state=None, findings=error.diagnostics, folder=error.folder)
        return
    yield from made.adms.items()
    yield None, made.passing
    yield read._replace(seconds=time.perf_counter() - started)
