"""A snapshot that is withdrawn while a real Envoy, or a real client of gRPC, is on its way to it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.testbed.ports import free_port
from tests.xds_server import envoy_bed
from tests.xds_server.envoy_bed import BOTH, NEEDS_ENVOY, cluster, clusters, endpoints, extension, listener, routes
from tests.xds_server.test_grpc_client import backend, caller, resources, said
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES
from xds_server.transport.connection import Connection
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

pytestmark = pytest.mark.long
SECONDS = 60.0
QUIET = 0.3
"""Longer than the server waits for further changes before it pushes one."""


class Delay:
    """From the first request of one type on, the server gets all requests of clients late."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._receive: Any = Connection._receive
        self._kind = ""
        self.late: list[tuple[Any, Any]] = []

        def receive(connection: Any, request: Any) -> None:
            if self.late or request.type_url == self._kind:
                self.late.append((connection, request))
            else:
                self._receive(connection, request)

        patch.setattr(Connection, "_receive", receive)

    async def begin(self, kind: str, publish: Callable[[], object]) -> None:
        """Publish, and wait until a request of this type is late."""
        self._kind = kind
        publish()
        async with asyncio.timeout(SECONDS):
            while not self.late:
                await asyncio.sleep(0.01)

    def end(self) -> None:
        self._kind = ""
        late, self.late = self.late, []
        for connection, request in late:
            self._receive(connection, request)


@contextlib.asynccontextmanager
async def watched(ask: Callable[[], Awaitable[str]]) -> AsyncIterator[set[str]]:
    """All answers while the block runs."""
    seen: set[str] = set()
    over = asyncio.Event()

    async def watch() -> None:
        while not over.is_set():
            seen.add(await ask())
            await asyncio.sleep(0.005)

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        over.set()
        await task


@NEEDS_ENVOY
@BOTH
@pytest.mark.parametrize("step", [CLUSTER, ENDPOINTS, EXTENSION, LISTENER], ids=["CDS", "EDS", "ECDS", "LDS"])
async def test_envoy_never_uses_a_withdrawn_route(
    variant: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    async with envoy_bed.backend("one") as one, envoy_bed.backend("two") as two:
        good = [cluster("a"), endpoints("a", one), routes("r", "a"), extension("plain"), listener(port)]
        bad = [cluster("a"), endpoints("a", one), cluster("b"), endpoints("b", two), routes("r", "b")]
        async with envoy_bed.running(variant, tmp_path, *good, port=port) as bed:
            store = bed.server.store
            delay = Delay(monkeypatch)
            wrong = Snapshot.of([*bad, extension("gold"), listener(port, "other")])
            await delay.begin(step, lambda: store.publish("web", wrong))
            async with watched(bed.ask) as seen:
                store.publish("web", Snapshot.of(good))
                await asyncio.sleep(QUIET)
                delay.end()
                await bed.until(bed.complete)
                await asyncio.sleep(QUIET)
            assert seen <= {"200 one", "200 one x-tier: gold"}
            assert await bed.ask() == "200 one"
            assert "b" not in await clusters(bed)
            assert not bed.server.metrics.rejects


@pytest.mark.parametrize("step", [ROUTES, CLUSTER, ENDPOINTS], ids=["RDS", "CDS", "EDS"])
async def test_grpc_never_uses_a_withdrawn_route(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with backend("one") as one, backend("two") as two:
        store = SnapshotCache()
        store.publish("web", resources("a", one))
        server = XdsServer(store, lambda called: called.node.cluster)
        port = await server.start("127.0.0.1:0")
        try:
            async with caller(port) as process:
                assert await said(process) == "one hello"
                delay = Delay(monkeypatch)
                await delay.begin(step, lambda: store.publish("web", resources("b", two)))
                good = resources("a", one)
                async with watched(lambda: said(process)) as seen:
                    store.publish("web", good)
                    await asyncio.sleep(QUIET)
                    delay.end()
                    async with asyncio.timeout(SECONDS):
                        while [each.acknowledged for each in server.clients()] != [good.version]:
                            await asyncio.sleep(0.02)
                    await asyncio.sleep(QUIET)
                assert seen == {"one hello"}
                assert not server.metrics.rejects
        finally:
            await server.stop(0.1)
