"""A server that ends its streams closes the connections, too: clients connect anew, and it goes on serving."""

from __future__ import annotations

import asyncio

import grpc

from tests.xds_server.client import SECONDS, Client, names
from tests.xds_server.transcript import world
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER
from xds_server.transport.server import XdsServer


async def test_clients_connect_anew() -> None:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, lambda caller: caller.node.cluster or None)
    port = await server.start("127.0.0.1:0")
    try:
        async with Client(port, "delta") as client:
            await client.send(CLUSTER)
            answer = await client.read()
            assert names(answer) == ["a"]
            await client.send(CLUSTER, nonce=answer.nonce)
            assert await server.end_streams(0.2) == 1  # so many connections
            code, _ = await client.status()
            assert code is grpc.StatusCode.OK
            async with asyncio.timeout(SECONDS):
                while server.metrics.connected:
                    await asyncio.sleep(0.01)
        async with Client(port, "delta") as client:
            await client.send(CLUSTER)
            assert names(await client.read()) == ["a"]
    finally:
        await server.stop(0.1)
