"""gRPC itself as the client, without a proxy: `xds:///search` is resolved by this server, and follows its changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2

from tests.xds_server.envoy_bed import ADS, made, typed
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CALLER = Path(__file__).with_name("grpc_caller.py")
SECONDS = 60.0


@contextlib.asynccontextmanager
async def backend(name: str) -> AsyncIterator[int]:
    """A gRPC service that answers with its name and the text of the request."""

    async def say(request: bytes, _: Any) -> bytes:
        return name.encode() + b" " + request

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handlers = {"Say": grpc.unary_unary_rpc_method_handler(say)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def bootstrap(port: int) -> dict[str, str]:
    """An environment in which gRPC finds the server at this port."""
    found = {
        "node": {"id": "web-1", "cluster": "web"},
        "xds_servers": [
            {
                "server_uri": f"127.0.0.1:{port}",
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
    }
    return {**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(found)}


@contextlib.asynccontextmanager
async def caller(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CALLER),
        "xds:///search",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=bootstrap(port),
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 5.0)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"hello\n")
    await process.stdin.drain()
    return (await asyncio.wait_for(process.stdout.readline(), SECONDS)).decode().strip()


async def until_said(process: asyncio.subprocess.Process, wanted: str) -> None:
    """Call until the answer is this; no call fails on the way."""
    async with asyncio.timeout(SECONDS):
        while (answer := await said(process)) != wanted:
            assert answer.endswith(" hello"), answer
            await asyncio.sleep(0.02)


def resources(cluster: str, port: int) -> Snapshot:
    manager = typed(
        http_connection_manager_pb2.HttpConnectionManager,
        rds={"route_config_name": "to-search", "config_source": ADS},
        http_filters=[{"name": "router", "typed_config": typed(router_pb2.Router)}],
    )
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    locality = {
        "locality": {"region": "here"},
        "load_balancing_weight": 1,
        "lb_endpoints": [{"endpoint": {"address": address}}],
    }
    route = {"match": {"prefix": ""}, "route": {"cluster": cluster}}
    found: list[Resource] = [
        made(listener_pb2.Listener, {"name": "search", "api_listener": {"api_listener": manager}}),
        made(
            route_pb2.RouteConfiguration,
            {"name": "to-search", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        ),
        made(
            cluster_pb2.Cluster,
            {"name": cluster, "type": "EDS", "eds_cluster_config": {"eds_config": ADS}, "lb_policy": "ROUND_ROBIN"},
        ),
        made(endpoint_pb2.ClusterLoadAssignment, {"cluster_name": cluster, "endpoints": [locality]}),
    ]
    return Snapshot.of(found)


async def test_grpc_resolves_calls_and_follows_changes() -> None:
    async with backend("one") as one, backend("two") as two:
        store = SnapshotCache()
        store.publish("web", resources("a", one))
        server = XdsServer(store, lambda called: called.node.cluster)
        port = await server.start("127.0.0.1:0")
        try:
            async with caller(port) as process:
                assert await said(process) == "one hello"
                store.publish("web", resources("a", two))  # endpoints alone
                await until_said(process, "two hello")
                store.publish("web", resources("b", one))  # a route to another cluster
                await until_said(process, "one hello")
                (client,) = server.clients()
                assert client.node.user_agent.startswith("gRPC")
                assert {kind.type_url for kind in client.types} == {LISTENER, ROUTES, CLUSTER, ENDPOINTS}
                assert not server.metrics.rejects
        finally:
            await server.stop(0.1)
