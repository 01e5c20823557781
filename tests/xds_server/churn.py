"""Streams come and go while plans change: memory and file handles must stay where they are.

    python -m tests.xds_server.churn --minutes 30

Always the same number of streams is open, of both variants. Each lives for seconds, and its client acknowledges at
once, or slowly, or refuses some, or closes its half early; some bring a connection of their own. What the server's
process holds is read every few seconds; the first third of the readings is warming up. The program ends with 1 if
there is a trend in the rest, if something fails, or if anything is left when the last stream has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc

from tests.xds_server.client import Client
from tests.xds_server.running import GROUPS, NAMES, Running, Stats
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIFE_SECONDS: Final = 6.0
CHANGE_SECONDS: Final = 0.5
MORE_SECONDS: Final = 60.0
"""How long a slow machine is waited for."""
NEEDED: Final = 12
"""So many readings show a trend."""
MAY_DRIFT_BYTES: Final = 3_000_000
MAY_DRIFT: Final = 0.03
"""What the middle of the last readings may be above that of those before, of memory ..."""
MAY_DRIFT_FILES: Final = 0.10
"""... and of files, whose number depends on which streams there are at the moment."""
MAY_GROW: Final = 32 << 20
"""What may stay in memory after a short run: what the allocator keeps."""


ASKED: Final[dict[str, tuple[str, ...]]] = {
    CLUSTER: (),
    ENDPOINTS: NAMES,
    LISTENER: (),
    SECRET: ("certificate",),
    ROUTES: ("routes-in", "routes-out"),
}


class Reading(NamedTuple):
    seconds: float
    stats: Stats


class Outcome(NamedTuple):
    before: Stats
    readings: list[Reading]
    after: Stats
    streams: int
    responses: int
    failures: list[str]


class Trend(NamedTuple):
    """Of the last two thirds of the readings."""

    first: float
    """Median of the earlier half of them."""
    second: float
    slope: float
    """By least squares, for one hour."""


class Crowd:
    """The clients, and what they have seen."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._chosen = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.over = False
        self.streams = 0
        self.responses = 0
        self.failures: list[str] = []

    async def one_after_the_other(self) -> None:
        # Not by cancellation alone: Python 3.11 loses one that comes together with what was waited for.
        while not self.over:
            self.streams += 1
            await self._one()

    async def _one(self) -> None:
        chosen = self._chosen
        ending = time.monotonic() + chosen.uniform(0.2, 2 * LIFE_SECONDS)
        kind = chosen.choice(("good", "good", "good", "slow", "refuses", "half-closed", "silent"))
        variant = chosen.choice(("sotw", "delta"))
        client = Client(self._port, variant, chosen.choice(GROUPS), id=f"{kind}-{self.streams}")
        async with client:
            try:
                for type_url, names in ASKED.items():
                    await client.send(type_url, *names)
                if kind == "half-closed":
                    await client.call.done_writing()
                while not self.over and (left := ending - time.monotonic()) > 0:
                    response: Any = await client.read(left)
                    if response is grpc.aio.EOF:
                        break
                    self.responses += 1
                    if kind == "slow":
                        await asyncio.sleep(min(left, chosen.random()))
                    if kind not in ("half-closed", "silent"):
                        refuses = kind == "refuses" and chosen.random() < 0.3
                        names = ASKED.get(response.type_url, ()) if variant == "sotw" else ()
                        error = "no thanks" if refuses else None
                        await client.send(response.type_url, *names, nonce=response.nonce, error=error)
            except TimeoutError:
                pass  # its time is over
            except asyncio.InvalidStateError as error:
                self._failed(kind, str(error))
            except grpc.aio.AioRpcError as error:
                self._failed(kind, f"{error.code().name} {error.details()}")

    def _failed(self, kind: str, why: str) -> None:
        # A client that never answers is cut off after the age of its stream, and then the grace.
        if kind != "silent" and len(self.failures) < 20:
            self.failures.append(f"a client ({kind}) failed: {why}")


async def churn(
    seconds: float,
    *,
    streams: int = 200,
    every: float = 5.0,
    seed: int = 1,
    least: int = 0,
    report: Callable[[Reading], None] | None = None,
) -> Outcome:
    """Go on for so long, with so many streams, and a reading at these intervals of seconds; and then until there were
    `least` responses, on a slow machine."""
    async with Running() as server:
        await server.publish(0)
        before = await server.stats()
        crowd = Crowd(server.port, seed)
        clients = [asyncio.create_task(crowd.one_after_the_other()) for _ in range(streams)]
        changes = asyncio.create_task(_change(server, crowd, seed))
        readings: list[Reading] = []
        started = time.monotonic()
        try:
            while time.monotonic() - started < seconds:
                await asyncio.sleep(every)
                readings.append(Reading(time.monotonic() - started, await server.stats()))
                if report is not None:
                    report(readings[-1])
                for task in (changes, *clients):
                    if task.done():
                        task.result()
            while crowd.responses < least and time.monotonic() - started < seconds + MORE_SECONDS:
                await asyncio.sleep(0.1)
        finally:
            crowd.over = True
            for task in clients:
                task.cancel()
            await asyncio.gather(changes, *clients, return_exceptions=True)
        after = await server.at_rest(before)
        return Outcome(before, readings, after, crowd.streams, crowd.responses, crowd.failures)


async def _change(server: Running, crowd: Crowd, seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    while not crowd.over:
        await server.publish(chosen.randrange(1_000_000))
        await asyncio.sleep(min(chosen.expovariate(1 / CHANGE_SECONDS), 3 * CHANGE_SECONDS))


def trend(readings: Sequence[Reading], value: Callable[[Stats], float]) -> Trend:
    """Raises `statistics.StatisticsError` where there are too few readings."""
    settled = readings[len(readings) // 3 :]
    values = [value(each.stats) for each in settled]
    middle = len(values) // 2
    slope = statistics.linear_regression([each.seconds / 3600 for each in settled], values).slope
    return Trend(statistics.median(values[:middle]), statistics.median(values[middle:]), slope)


def verdict(outcome: Outcome) -> list[str]:
    """The failures."""
    before, after = outcome.before, outcome.after
    found = [*outcome.failures, *after.errors]
    if after.streams or after.tasks > before.tasks:
        found.append(f"{after.streams} streams and {after.tasks} tasks are left, and {before.tasks} were before")
    if after.files > before.files:
        found.append(f"{after.files} files are left open, and {before.files} were before")
    if len(outcome.readings) < NEEDED:
        if after.rss > before.rss + MAY_GROW:
            found.append(f"{after.rss / 1e6:.0f} MB are left in use, and {before.rss / 1e6:.0f} were before")
        return found
    memory, files = trends(outcome)
    if memory.second > memory.first * (1 + MAY_DRIFT) + MAY_DRIFT_BYTES:
        found.append(f"memory grows: {memory.first / 1e6:.1f} MB, later {memory.second / 1e6:.1f}")
    if files.second > files.first * (1 + MAY_DRIFT_FILES):
        found.append(f"open files grow: {files.first:.0f}, later {files.second:.0f}")
    return found


def trends(outcome: Outcome) -> tuple[Trend, Trend]:
    return trend(outcome.readings, lambda stats: stats.rss), trend(outcome.readings, lambda stats: stats.files)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.xds_server.churn", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{'seconds':>8} {'MB':>7} {'files':>6} {'tasks':>6} {'streams':>8} {'responses':>10}")

    def report(reading: Reading) -> None:
        at, stats = reading
        print(
            f"{at:8.0f} {stats.rss / 1e6:7.1f} {stats.files:6} {stats.tasks:6} {stats.streams:8} {stats.served:10}",
            flush=True,
        )

    every = min(5.0, options.minutes * 60 / NEEDED / 2)
    outcome = asyncio.run(
        churn(options.minutes * 60, streams=options.streams, every=every, seed=options.seed, report=report)
    )
    with contextlib.suppress(statistics.StatisticsError):
        memory, files = trends(outcome)
        print(f"memory {memory.first / 1e6:.1f} -> {memory.second / 1e6:.1f} MB, slope {memory.slope / 1e6:+.1f} MB/h")
        print(f"files  {files.first:.0f} -> {files.second:.0f}, slope {files.slope:+.1f} /h")
    print(
        f"{outcome.streams} streams, {outcome.responses} responses\nbefore: {outcome.before}\nafter:  {outcome.after}"
    )
    found = verdict(outcome)
    print("\n".join(found) or "flat")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
