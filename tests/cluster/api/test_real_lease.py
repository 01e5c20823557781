"""A Lease at a real API server: taken, renewed, taken over, deleted, and out of reach."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.counts import Request
from admc.kubernetes.cluster.api.lease import LeaseHolder
from tests.cluster.api.proxy import kubeconfig_of, proxied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from admc.kubernetes.cluster.api.requests import Api
    from tests.cluster.api_server import ApiServer

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DURATION = 3.0


@asynccontextmanager
async def _running(holder: LeaseHolder) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(holder.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def api(cluster_api: ApiServer) -> AsyncIterator[Api]:
    async with await connect(cluster_api.kubeconfig) as found:
        yield found


async def test_one_of_two_holds_it_and_the_other_follows(api: Api) -> None:
    path = f"{LEASES}/follows"
    first, second = (LeaseHolder(api, path, name, DURATION) for name in ("first", "second"))
    async with _running(second) as waiting:
        async with _running(first):
            await asyncio.wait(
                {asyncio.create_task(each.until_held()) for each in (first, second)}, return_when="FIRST_COMPLETED"
            )
            await asyncio.sleep(1.5 * DURATION)
            holder, other = (first, second) if first.held else (second, first)
            assert holder.held
            assert not other.held
            assert other.holder == holder.holder
        if holder is first:
            stopped = time.monotonic()
            await asyncio.wait_for(second.until_held(), 3 * DURATION)
            assert time.monotonic() - stopped > DURATION / 2
            assert not first.held
            assert not waiting.done()
    spec = (await api.get(path))["spec"]
    assert spec["leaseDurationSeconds"] == DURATION
    assert spec["holderIdentity"] in ("first", "second")


async def test_a_deleted_lease_is_made_again_by_its_holder(api: Api) -> None:
    path = f"{LEASES}/deleted"
    holder = LeaseHolder(api, path, "it", DURATION)
    async with _running(holder):
        await holder.until_held()
        await api.delete(path)
        for _ in range(int(DURATION * 20)):
            await asyncio.sleep(0.1)
            assert holder.held
        assert (await api.get(path))["spec"]["holderIdentity"] == "it"
    await holder.release()
    assert not (await api.get(path))["spec"].get("holderIdentity")


async def test_an_api_server_that_is_killed_or_hangs_is_bounded(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path
) -> None:
    server = await asyncio.to_thread(new_cluster_api)
    async with proxied(server) as proxy, await connect(kubeconfig_of(server, proxy, tmp_path)) as api:
        holder = LeaseHolder(api, f"{LEASES}/hangs", "it", DURATION)
        async with _running(holder) as running:
            await holder.until_held()
            server.stop_etcd()
            stopped = time.monotonic()
            await asyncio.wait_for(holder.until_lapsed(), DURATION + 1)
            assert time.monotonic() - stopped <= DURATION
            server.continue_etcd()
            await asyncio.wait_for(holder.until_held(), 15)
            proxy.silence()
            await asyncio.sleep(2 * DURATION)
            assert holder.held  # the connection that fell silent cost one attempt
            server.kill()
            await asyncio.wait_for(holder.until_lapsed(), DURATION + 1)
            assert holder.problem
            await asyncio.to_thread(server.restart)
            await asyncio.wait_for(holder.until_held(), 15)
            assert not running.done()
        assert api.counts[Request("update", "leases", "200")] > 2
