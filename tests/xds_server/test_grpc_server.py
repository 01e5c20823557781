"""A second dataplane: gRPC as an xDS server and as an xDS client, configured by this server, without any proxy.

What they were configured with is asked of themselves (client status); changes come under calls without a pause, and no
call fails.
"""

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
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc

from tests.testbed.ports import free_port
from tests.xds_server.envoy_bed import ADS, made, typed
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PEER = Path(__file__).with_name("grpc_peer.py")
TEMPLATE = "grpc/server?xds.resource.listening_address=%s"
PATIENCE = 60.0


class Peer:
    """A process of its own: a gRPC server or client that asks for its configuration."""

    def __init__(self, process: asyncio.subprocess.Process, status_port: int) -> None:
        self.process = process
        self._status_port = status_port

    async def ask(self) -> dict[str, int]:
        """For a client: answers, and how often each came since the last time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        await self.process.stdin.drain()
        found = json.loads(await asyncio.wait_for(self.process.stdout.readline(), PATIENCE))
        return {str(answer): int(number) for answer, number in found.items()}

    async def view(self) -> dict[str, dict[str, str]]:
        """By type, the names that it knows, and whether it took them."""
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._status_port}") as channel:
            stub = csds_pb2_grpc.ClientStatusDiscoveryServiceStub(channel)
            answer = await stub.FetchClientStatus(csds_pb2.ClientStatusRequest(), timeout=PATIENCE)
        found: dict[str, dict[str, str]] = {}
        for config in answer.config:
            for item in config.generic_xds_configs:
                kind = type(item).DESCRIPTOR.fields_by_name["client_status"].enum_type
                found.setdefault(item.type_url, {})[item.name] = kind.values_by_number[item.client_status].name
        return found

    async def until_acked(self, wanted: dict[str, set[str]]) -> None:
        """Until it has taken these, by its own account."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = {
                    url: {name for name, status in items.items() if status == "ACKED"}
                    for url, items in (await self.view()).items()
                }
                if all(found.get(url) == names for url, names in wanted.items()):
                    return
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def peer(xds: int, cluster: str, *arguments: str) -> AsyncIterator[Peer]:
    bootstrap = {
        "node": {"id": f"{cluster}-1", "cluster": cluster},
        "xds_servers": [
            {
                "server_uri": f"127.0.0.1:{xds}",
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "server_listener_resource_name_template": TEMPLATE,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PEER),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Peer(process, int(await asyncio.wait_for(process.stdout.readline(), PATIENCE)))
    finally:
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 10.0)
        if process.returncode is None:
            process.kill()
            await process.wait()


def manager(routes: str, prefix: str = "x") -> dict[str, Any]:
    return typed(
        http_connection_manager_pb2.HttpConnectionManager,
        stat_prefix=prefix,
        rds={"route_config_name": routes, "config_source": ADS},
        http_filters=[{"name": "router", "typed_config": typed(router_pb2.Router)}],
    )


def served(port: int, host: str = "all", chain: str = "one") -> Snapshot:
    """What a gRPC server at a port needs: a listener of the address, and routes that it answers itself."""
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    filters = [{"name": "http", "typed_config": manager("in")}]
    listener = {
        "name": TEMPLATE % f"127.0.0.1:{port}",
        "address": address,
        "filter_chains": [{"name": chain, "filters": filters}],
    }
    route = {"match": {"prefix": ""}, "non_forwarding_action": {}}
    hosts = [{"name": host, "domains": ["*"], "routes": [route]}]
    return Snapshot.of(
        [
            made(listener_pb2.Listener, listener),
            made(route_pb2.RouteConfiguration, {"name": "in", "virtual_hosts": hosts}),
        ]
    )


def called(cluster: str, *ports: int) -> Snapshot:
    """What a gRPC client of `search` needs to call it at some ports."""
    endpoints = [
        {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}} for port in ports
    ]
    locality = {"locality": {"region": "here"}, "load_balancing_weight": 1, "lb_endpoints": endpoints}
    hosts = [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": ""}, "route": {"cluster": cluster}}]}]
    resources: list[Resource] = [
        made(listener_pb2.Listener, {"name": "search", "api_listener": {"api_listener": manager("to-search")}}),
        made(route_pb2.RouteConfiguration, {"name": "to-search", "virtual_hosts": hosts}),
        made(
            cluster_pb2.Cluster,
            {"name": cluster, "type": "EDS", "eds_cluster_config": {"eds_config": ADS}, "lb_policy": "ROUND_ROBIN"},
        ),
        made(endpoint_pb2.ClusterLoadAssignment, {"cluster_name": cluster, "endpoints": [locality]}),
    ]
    return Snapshot.of(resources)


async def until_only(client: Peer, *wanted: str) -> None:
    """Until all answers since the last question are these, and each came. No error came on the way."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await client.ask()
            assert all(answer in {"one hello", "two hello"} for answer in found), found
            if found.keys() == {f"{name} hello" for name in wanted}:
                return
            await asyncio.sleep(0.02)


async def test_a_grpc_server_and_its_client_are_configured_and_follow_changes_without_a_failed_call() -> None:
    store = SnapshotCache()
    xds = XdsServer(store, lambda caller: caller.node.cluster or None)
    port = await xds.start("127.0.0.1:0")
    one, two = free_port(), free_port()
    store.publish_all({"one": served(one), "two": served(two), "web": called("a", one)})
    names = {where: TEMPLATE % f"127.0.0.1:{where}" for where in (one, two)}
    try:
        async with (
            peer(port, "one", "server", f"127.0.0.1:{one}", "one") as first,
            peer(port, "two", "server", f"127.0.0.1:{two}", "two") as second,
        ):
            for server, where in ((first, one), (second, two)):
                await server.until_acked({LISTENER: {names[where]}, ROUTES: {"in"}})
            async with peer(port, "web", "client", "xds:///search") as client:
                await until_only(client, "one")
                await client.until_acked(
                    {LISTENER: {"search"}, ROUTES: {"to-search"}, CLUSTER: {"a"}, ENDPOINTS: {"a"}}
                )
                # The server's own view agrees with the clients'.
                assert {status.node.cluster for status in xds.clients()} == {"one", "two", "web"}

                for _ in range(5):
                    store.publish("web", called("a", one, two))  # endpoints alone
                    await until_only(client, "one", "two")
                    store.publish("web", called("a", two))
                    await until_only(client, "two")
                    store.publish("web", called("b", one))  # routes, to another cluster
                    await until_only(client, "one")
                    store.publish("web", called("a", one))
                    await until_only(client, "one")
                await client.until_acked({CLUSTER: {"a"}, ENDPOINTS: {"a"}})

                store.publish("one", served(one, host="other"))  # the server's routes, under calls
                await first.until_acked({LISTENER: {names[one]}, ROUTES: {"in"}})
                await until_only(client, "one")
                store.publish("one", served(one, host="other", chain="two"))  # its listener: connections are drained
                await until_only(client, "one")

                async with asyncio.timeout(PATIENCE):
                    while not all(status.wanted == status.acknowledged for status in xds.clients()):
                        await asyncio.sleep(0.02)
                assert not xds.metrics.rejects
                assert xds.metrics.connected == 3
                assert sum(xds.metrics.convergence.counts) > 0
    finally:
        await xds.stop(0.1)
