"""A server that ends its streams closes the connections, too: clients connect anew, and it goes on serving."""

from __future__ import annotations

import asyncio

import pytest

from tests.xds_server.client import Client
from tests.xds_server.transcript import world
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER
from xds_server.transport.server import XdsServer


@pytest.mark.parametrize("variant", ["delta", "sotw"])
async def test_clients_connect_anew(variant: str) -> None:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, lambda caller: caller.node.cluster or None)
    port = await server.start("127.0.0.1:0")
    opened: list[asyncio.StreamWriter] = []

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Counts connections, as a Service in front of replicas would choose one for each."""
        there, back = await asyncio.open_connection("127.0.0.1", port)
        opened.append(writer)

        async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            while content := await source.read(1 << 16):
                to.write(content)
            to.close()

        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    proxy = await asyncio.start_server(through, "127.0.0.1", 0)
    try:
        async with Client(proxy.sockets[0].getsockname()[1], variant) as client:
            await client.send(CLUSTER)
            assert len((await client.read()).resources) == 1
            assert await server.end_streams(0.2) == 1
            assert server.metrics.connected == 0
        async with Client(proxy.sockets[0].getsockname()[1], variant) as client:
            await client.send(CLUSTER)
            assert len((await client.read()).resources) == 1
        assert len(opened) == 2
    finally:
        await server.stop(0.1)
        proxy.close()
