"""A real Envoy gets everything from the server, in both variants: start, changes, refusals, and the server's return."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from admc.testbed.envoys import Envoys
from tests.testbed.ports import free_port
from tests.xds_server.envoy_bed import (
    BOTH,
    ENVOY,
    NEEDS_ENVOY,
    backend,
    bootstrap,
    cluster,
    clusters,
    endpoints,
    extension,
    listener,
    routes,
    running,
)
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import CLUSTER, LISTENER
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_ENVOY


@BOTH
async def test_envoy_starts_follows_changes_and_refuses(variant: str, tmp_path: Path) -> None:
    port = free_port()
    async with (
        backend("one") as one,
        backend("two") as two,
        running(
            variant,
            tmp_path,
            cluster("a"),
            endpoints("a", one),
            routes("r", "a"),
            extension("gold"),
            listener(port),
            port=port,
        ) as bed,
    ):
        store = bed.server.store
        assert await bed.ask() == "200 one x-tier: gold"

        # Endpoints alone.
        common = (extension("gold"), listener(port))
        store.publish("web", Snapshot.of([cluster("a"), endpoints("a", two), routes("r", "a"), *common]))
        await bed.until_answer("200 two x-tier: gold")

        # Another cluster, and a route to it; the old one goes.
        store.publish("web", Snapshot.of([cluster("b"), endpoints("b", one), routes("r", "b"), *common]))
        await bed.until_answer("200 one x-tier: gold")

        # A filter's configuration, and a changed cluster that has to warm up again.
        plain = (extension("plain"), listener(port))
        store.publish("web", Snapshot.of([cluster("b", 2), endpoints("b", one), routes("r", "b"), *plain]))
        await bed.until_answer("200 one")

        async def gone() -> bool:
            return "a" not in await clusters(bed)

        await bed.until(gone)
        stats = await bed.stats()
        assert [name for name, value in stats.items() if name.endswith("update_rejected") and value] == []

        # What Envoy refuses: traffic goes on as before, and the next good snapshot heals it.
        refused = [cluster("b", 0), endpoints("b", one)]
        mended = [cluster("a"), endpoints("a", two), routes("r", "a"), *plain]
        store.publish("web", Snapshot.of([*refused, *mended]))
        await bed.until_refused("cluster_manager.cds.update_rejected", CLUSTER)
        for _ in range(5):
            assert await bed.ask() == "200 one"
        assert bed.server.metrics.rejects[CLUSTER] == 1
        (status,) = bed.server.clients()
        errors = {kind.type_url: kind.error for kind in status.types if kind.error}
        assert "ConnectTimeout" in errors[CLUSTER]
        store.publish("web", Snapshot.of(mended))
        await bed.until_answer("200 two")
        assert bed.server.metrics.rejects[CLUSTER] == 1


@BOTH
async def test_a_restarted_server_and_a_restarted_proxy(variant: str, tmp_path: Path) -> None:
    port = free_port()
    async with backend("one") as one, backend("two") as two:
        good = [cluster("a"), endpoints("a", one), routes("r", "a"), extension("gold"), listener(port)]
        async with running(variant, tmp_path, *good, port=port) as bed:
            # A listener that no Envoy takes.
            bad = [*good[:-1], listener(port), listener(port, "", "second")]
            bed.server.store.publish("web", Snapshot.of(bad))
            await bed.until_refused("listener_manager.lds.update_rejected", LISTENER)
            assert bed.server.metrics.rejects[LISTENER] == 1
            assert await bed.ask() == "200 one x-tier: gold"

            # A proxy that starts now comes up on what was taken before.
            second = Envoys(tmp_path / "second", ENVOY or "")
            (tmp_path / "second").mkdir()
            where = json.loads((tmp_path / "bootstrap.json").read_text())["static_resources"]["clusters"][0]
            xds = where["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
            server_port = xds["socket_address"]["port_value"]
            try:
                path = bootstrap(server_port, variant, tmp_path / "second")
                await asyncio.to_thread(second.start, {"web": path})
                stats = await asyncio.to_thread(second.running["web"].stats)
                assert stats["listener_manager.lds.update_rejected"] == 0
                assert stats["listener_manager.total_listeners_active"] == 1
            finally:
                await asyncio.to_thread(second.stop)

            # The server goes and comes back with something else.
            await bed.server.stop(1.0)
            assert await bed.ask() == "200 one x-tier: gold"
            store = SnapshotCache()
            store.publish("web", Snapshot.of([good[0], endpoints("a", two), *good[2:]]))
            bed.server = XdsServer(store, lambda caller: caller.node.cluster)
            await bed.server.start(f"127.0.0.1:{server_port}")
            try:
                await bed.until_answer("200 two x-tier: gold")
            finally:
                await bed.server.stop(0.1)


@BOTH
async def test_an_envoy_comes_with_nothing_when_it_starts_and_with_versions_when_it_comes_back(
    variant: str, tmp_path: Path
) -> None:
    port = free_port()
    async with backend("one") as one:
        content = [cluster("a"), endpoints("a", one), routes("r", "a"), extension("gold"), listener(port)]
        async with running(variant, tmp_path, *content, port=port) as bed:
            assert [each.fresh for each in bed.server.registry.views(["web"])] == [True]

            # What the server gives meanwhile is no reason to say otherwise.
            bed.server.store.publish("web", Snapshot.of([*content[:3], extension("plain"), listener(port)]))
            await bed.until(bed.complete)
            assert [each.fresh for each in bed.server.registry.views(["web"])] == [True]

            (before,) = bed.server.registry
            before.end("age", 1.0)

            async def back() -> bool:
                there = [each for each in bed.server.registry if each is not before]
                # At no moment, whatever it has asked for so far.
                assert not any(each.fresh for each in there)
                return len(there) == len(bed.server.registry) == 1 and await bed.complete()

            await bed.until(back)
