"""The API server is away for all replicas alike: the one that held the Lease goes on afterwards, however long it was.

python -m tests.cluster.standby.test_outages    how long a takeover takes, and for how long nothing is published
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.api.lease import ATTEMPT, DURATION_SECONDS, LOOK, LeaseHolder
from tests.cluster.memory_api import MemoryApi
from tests.cluster.standby.simulated import Clock, FaultyApi, chance, now, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATH = "/apis/coordination.k8s.io/v1/namespaces/admc/leases/admc-mesh"
SEEDS = range(12)
OUTAGES = (4.0, 8.0, 12.0, 20.0)
TRAVEL = 0.5
"""Seconds for requests, at most, in these simulations."""


class Api(FaultyApi):
    is_away = False

    async def _travel(self) -> None:
        await super()._travel()
        if self.is_away:
            raise ApiError(0, "Connection", "refused")


class Pair(NamedTuple):
    active: LeaseHolder
    other: LeaseHolder
    apis: tuple[Api, Api]
    running: dict[str, asyncio.Task[None]]


@asynccontextmanager
async def pair(seed: int, duration: float = DURATION_SECONDS) -> AsyncIterator[Pair]:
    """Two replicas some time after one of them took the Lease."""
    own, cluster = chance(seed), MemoryApi()
    apis = Api(cluster, own), Api(cluster, own)
    holders = [LeaseHolder(api, PATH, name, duration, clock=Clock(own)) for api, name in zip(apis, "ab", strict=True)]
    running = {name: asyncio.create_task(each.run()) for each, name in zip(holders, "ab", strict=True)}
    try:
        while not any(each.held for each in holders):
            await asyncio.sleep(0.1)
        await asyncio.sleep(own.uniform(2, 3) * duration)
        active, other = holders if holders[0].held else reversed(holders)
        yield Pair(active, other, apis, running)
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


async def outage(pair: Pair, seconds: float) -> float:
    """The API server is away; for how long the active replica does not hold the Lease until some replica does."""
    for api in pair.apis:
        api.is_away = True
    lapsed, end = 0.0, now() + seconds
    while now() < end or not (pair.active.held or pair.other.held):
        for api in pair.apis:
            api.is_away = now() < end
        await asyncio.sleep(0.05)
        lapsed += 0 if pair.active.held else 0.05
    for api in pair.apis:
        api.is_away = False
    return lapsed


async def killed(pair: Pair) -> float:
    """The active replica is killed; how long it takes until the other one holds the Lease."""
    pair.running[pair.active.holder].cancel()
    began = now()
    await pair.other.until_held()
    return now() - began


@pytest.mark.parametrize("seconds", OUTAGES)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_changes_no_holder(seed: int, seconds: float) -> None:
    async def main() -> None:
        async with pair(seed) as both:
            await outage(both, seconds)
            await asyncio.sleep(DURATION_SECONDS)
            assert both.active.held
            assert not both.other.was_held

    run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_one_is_replaced_as_soon_as_is_safe(seed: int) -> None:
    async def main() -> None:
        async with pair(seed) as both:
            took = await killed(both)
            # Since its last renewal a renewal's time may have passed, and the other one saw that at its next look.
            assert (1 - ATTEMPT) * DURATION_SECONDS - TRAVEL < took < (1 + 2 * LOOK) * DURATION_SECONDS + TRAVEL

    run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_one_that_was_killed_in_an_outage_is_replaced(seed: int) -> None:
    async def main() -> None:
        async with pair(seed) as both:
            both.running[both.active.holder].cancel()
            await outage(both, DURATION_SECONDS)
            assert both.other.held

    run(main())


def table(duration: float) -> None:
    async def main() -> None:
        took = []
        for seed in SEEDS:
            async with pair(seed, duration) as both:
                took.append(await killed(both))
        print(f"a Lease of {duration:.0f} s: a takeover takes {min(took):.1f} to {max(took):.1f} s")
        for seconds in OUTAGES:
            lapsed = []
            for seed in SEEDS:
                async with pair(seed, duration) as both:
                    lapsed.append(await outage(both, seconds))
            print(f"    {seconds:.0f} s without the API server: nothing is published for {max(lapsed):.1f} s at most")

    run(main())


if __name__ == "__main__":
    for each in (6.0, 10.0, DURATION_SECONDS):
        table(each)
