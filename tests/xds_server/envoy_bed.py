"""A real Envoy with a server and services behind it, and the resources that it is given."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import extension_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.http.header_mutation.v3 import header_mutation_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from google.protobuf import json_format

from admc.testbed.envoys import Envoy, Envoys, envoy_binary
from tests.testbed.ports import free_port
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

ENVOY = envoy_binary()
SECONDS = 60.0
NEEDS_ENVOY = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
BOTH = pytest.mark.parametrize("variant", ["GRPC", "DELTA_GRPC"])
ADS = {"ads": {}, "resource_api_version": "V3"}


@contextlib.asynccontextmanager
async def backend(text: str) -> AsyncIterator[int]:
    """A service that answers everything with one text."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                seen = b"x-tier: gold" if b"x-tier: gold" in head.lower() else b""
                body = text.encode() + b" " + seen
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def made(kind: Any, content: dict[str, Any]) -> Resource:
    return Resource.of(json_format.ParseDict(content, kind()))


def typed(message: Any, **content: Any) -> dict[str, Any]:
    name = message.DESCRIPTOR.full_name
    return {"@type": f"type.googleapis.com/{name}", **content}


def cluster(name: str, seconds: int = 1) -> Resource:
    return made(
        cluster_pb2.Cluster,
        {
            "name": name,
            "type": "EDS",
            "connect_timeout": f"{seconds}s",
            "eds_cluster_config": {"eds_config": ADS},
        },
    )


def endpoints(name: str, port: int) -> Resource:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return made(
        endpoint_pb2.ClusterLoadAssignment,
        {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]},
    )


def routes(name: str, to: str) -> Resource:
    return made(
        route_pb2.RouteConfiguration,
        {
            "name": name,
            "virtual_hosts": [
                {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": to}}]}
            ],
        },
    )


def extension(value: str, name: str = "tier") -> Resource:
    header = {"append": {"header": {"key": "x-tier", "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}
    config = typed(header_mutation_pb2.HeaderMutation, mutations={"request_mutations": [header]})
    return made(extension_pb2.TypedExtensionConfig, {"name": name, "typed_config": config})


def listener(port: int, prefix: str = "in", name: str = "in", table: str = "r", tier: str = "tier") -> Resource:
    """One filter chain that gets its route table by RDS and a filter's configuration by ECDS."""
    discovered = {
        "config_source": ADS,
        "type_urls": ["type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"],
    }
    manager = typed(
        http_connection_manager_pb2.HttpConnectionManager,
        stat_prefix=prefix,
        rds={"route_config_name": table, "config_source": ADS},
        http_filters=[
            {"name": tier, "config_discovery": discovered},
            {"name": "router", "typed_config": typed(router_pb2.Router)},
        ],
    )
    return made(
        listener_pb2.Listener,
        {
            "name": name,
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        },
    )


def bootstrap(port: int, variant: str, folder: Path) -> Path:
    server = {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}}
    content = {
        "node": {"cluster": "web", "id": "web"},
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": free_port()}}},
        "static_resources": {
            "clusters": [
                {
                    "name": "xds",
                    "connect_timeout": "1s",
                    "load_assignment": {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [server]}]},
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                            "explicit_http_config": {"http2_protocol_options": {}},
                        }
                    },
                }
            ]
        },
        "dynamic_resources": {
            "ads_config": {
                "api_type": variant,
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [
                    {
                        "envoy_grpc": {
                            "cluster_name": "xds",
                            "retry_policy": {
                                "retry_back_off": {"base_interval": "0.05s", "max_interval": "0.1s"},
                            },
                        }
                    }
                ],
            },
            "cds_config": ADS,
            "lds_config": ADS,
        },
    }
    path = folder / "bootstrap.json"
    path.write_text(json.dumps(content))
    return path


@dataclass
class Running:
    server: XdsServer
    envoy: Envoy
    port: int
    xds_port: int

    async def replace_server(self, *resources: Resource) -> None:
        """End the server, and start another one at its port, which knows these resources and nothing else."""
        await self.server.stop(0.1)
        self.server, _ = await _serving(resources, self.xds_port)

    async def ask(self) -> str:
        """What comes back from the service behind the proxy."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")
        data = await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        head, _, body = data.partition(b"\r\n\r\n")
        return f"{head.split()[1].decode()} {body.decode()}".strip()

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not await condition():
                await asyncio.sleep(0.02)

    async def until_answer(self, wanted: str) -> None:
        seen: list[str] = []

        async def there() -> bool:
            seen.append(await self.ask())
            return seen[-1] == wanted

        await self.until(there)
        # Nothing that should have passed failed on the way.
        assert {answer.split()[0] for answer in seen} == {"200"}

    async def complete(self) -> bool:
        """Whether the only proxy has acknowledged all that there is."""
        current = self.server.store.current("web")
        assert current is not None
        return [each.acknowledged for each in self.server.registry.views(["web"])] == [current.version]

    async def stats(self) -> dict[str, int]:
        return await asyncio.to_thread(self.envoy.stats)

    async def until_refused(self, stat: str, type_url: str) -> None:
        """Until the proxy has refused something, and the server has heard of it."""

        async def there() -> bool:
            return (await self.stats()).get(stat, 0) > 0 and self.server.metrics.rejects[type_url] > 0

        await self.until(there)


@contextlib.asynccontextmanager
async def running(
    variant: str, folder: Path, *resources: Resource, port: int, options: Sequence[str] = ()
) -> AsyncIterator[Running]:
    """An Envoy that serves these resources at `port`; `options` are of its command line."""
    server, where = await _serving(resources)
    assert ENVOY is not None
    envoys = Envoys(folder, ENVOY, options)
    bed: Running | None = None
    try:
        await asyncio.to_thread(envoys.start, {"web": bootstrap(where, variant, folder)})
        bed = Running(server, envoys.running["web"], port, where)
        await bed.until(bed.complete)  # it serves before the server has heard that it took the last of it
        yield bed
    finally:
        await asyncio.to_thread(envoys.stop)
        await (server if bed is None else bed.server).stop(0.1)


async def _serving(resources: Sequence[Resource], port: int = 0) -> tuple[XdsServer, int]:
    """A server with these resources, and its port."""
    store = SnapshotCache()
    store.publish("web", Snapshot.of(resources))
    server = XdsServer(store, lambda caller: caller.node.cluster)
    return server, await server.start(f"127.0.0.1:{port}")


async def clusters(bed: Running) -> set[str]:
    """The names of the clusters that Envoy has."""
    _, body = await asyncio.to_thread(bed.envoy.admin_get, "/clusters?format=json")
    return {state["name"] for state in json.loads(body)["cluster_statuses"]}
