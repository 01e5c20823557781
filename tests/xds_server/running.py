"""A server in a process of its own, so that its memory can be measured apart from that of its clients.

    python -m tests.xds_server.running

Prints its port, then answers each line of stdin with one line: `publish N` gives clients another snapshot, `stats` says
as JSON what the process holds. Whatever goes wrong without ending it, in a task or a callback, is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from tests.xds_server.build import resource
from xds_server.limits.limits import Limits
from xds_server.protocol.wire import PayloadCache
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET
from xds_server.transport.event_loop import GrpcEventLoop
from xds_server.transport.process import tune_garbage_collection
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xds_server.resources.snapshot import Resource

GROUPS: Final = ("web", "shop")
NAMES: Final = tuple(f"{word}-{number}" for word in ("cart", "pay", "user") for number in range(10))
LIMITS: Final = Limits(
    streams_per_peer=5_000, first_request_seconds=10.0, age_seconds=20.0, age_grace_seconds=2.0, patience_seconds=0.5
)


class Stats(NamedTuple):
    """What the process of the server holds."""

    rss: int
    files: int
    tasks: int
    streams: int
    errors: list[str]
    """Errors in the log, and exceptions that no caller handled."""
    served: int
    """Responses so far."""


def snapshot(seed: int) -> Snapshot:
    """A consistent snapshot: the same from the same seed, and mostly another one from another."""
    chosen = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret

    def resources() -> Iterator[Resource]:
        clusters = [name for name in NAMES if chosen.random() < 0.8] or [NAMES[0]]
        for name in clusters:
            yield resource(CLUSTER, name, chosen.randrange(1, 4))
            yield resource(ENDPOINTS, name, chosen.randrange(1, 4))
        for name in ("in", "out"):
            if chosen.random() < 0.9:
                yield resource(LISTENER, name, chosen.randrange(1, 3), (f"routes-{name}",))
                yield resource(ROUTES, f"routes-{name}", chosen.randrange(1, 4), (chosen.choice(clusters),))
        yield resource(SECRET, "certificate", chosen.randrange(1, 4))
        for name in ("limit", "trial"):
            if chosen.random() < 0.8:
                yield resource(EXTENSION, name, chosen.randrange(1, 4))

    return Snapshot.of(resources())


class _Noticed(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors.append(self.format(record)[:2000])


def _give_back() -> None:
    """What is not in use and the C library keeps for the next time: it is no leak, and hides whether there is one."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def main() -> None:
    tune_garbage_collection()
    noticed = _Noticed()
    logging.getLogger().addHandler(noticed)
    loop = asyncio.get_running_loop()
    store = SnapshotCache()
    server = XdsServer(store, lambda caller: caller.node.cluster if caller.node.cluster in GROUPS else None, LIMITS)
    # Its bound is more than a leak may be before it is noticed.
    server.shared.payloads = PayloadCache(1 << 20)
    print(await server.start("127.0.0.1:0"), flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        word, _, rest = line.decode().strip().partition(" ")
        if word == "publish":
            for number, group in enumerate(GROUPS):
                store.publish(group, snapshot(int(rest) + number))
            print("published", flush=True)
        else:
            gc.collect()
            _give_back()
            print(
                json.dumps(
                    Stats(
                        rss=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
                        files=sum(1 for _ in Path("/proc/self/fd").iterdir()),
                        tasks=len(asyncio.all_tasks()),
                        streams=server.metrics.connected,
                        errors=noticed.errors[:20],
                        served=sum(server.metrics.pushes.values()),
                    )
                ),
                flush=True,
            )
    await server.stop(0)


class Running:
    """The process, from outside."""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.xds_server.running",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=1 << 20,
        )
        self._turn = asyncio.Lock()
        self.port = int(await self._line())
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def publish(self, seed: int) -> None:
        assert await self._ask(f"publish {seed}") == "published"

    async def stats(self) -> Stats:
        return Stats(*json.loads(await self._ask("stats")))

    async def at_rest(self, before: Stats | None = None, seconds: float = 60.0) -> Stats:
        """What it holds once the last stream has ended, and it has no more files and tasks than before."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            found = await self.stats()
            rests = not found.streams and (
                before is None or (found.files <= before.files and found.tasks <= before.tasks)
            )
            if rests or asyncio.get_running_loop().time() > deadline:
                return found
            await asyncio.sleep(0.1)

    async def _ask(self, line: str) -> str:
        stdin: Any = self._process.stdin
        async with self._turn:
            stdin.write(line.encode() + b"\n")
            return await self._line()

    async def _line(self) -> str:
        stdout: Any = self._process.stdout
        line = await asyncio.wait_for(stdout.readline(), 60)
        if not line:
            raise AssertionError(f"the server has ended with {await self._process.wait()}")
        return str(line.decode().strip())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=GrpcEventLoop) as runner:
        runner.run(main())
