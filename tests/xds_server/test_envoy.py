"""A real Envoy gets everything from the server, in both variants: start, changes, refusals, and the server's return."""

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
from xds_server.resources.cache import SnapshotStore
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, LISTENER
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

ENVOY = envoy_binary()
SECONDS = 60.0
pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
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


def extension(value: str) -> Resource:
    header = {"append": {"header": {"key": "x-tier", "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}
    config = typed(header_mutation_pb2.HeaderMutation, mutations={"request_mutations": [header]})
    return made(extension_pb2.TypedExtensionConfig, {"name": "tier", "typed_config": config})


def listener(port: int, prefix: str = "in", name: str = "in") -> Resource:
    discovered = {
        "config_source": ADS,
        "type_urls": ["type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"],
    }
    manager = typed(
        http_connection_manager_pb2.HttpConnectionManager,
        stat_prefix=prefix,
        rds={"route_config_name": "r", "config_source": ADS},
        http_filters=[
            {"name": "tier", "config_discovery": discovered},
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
        return [each.acknowledged for each in self.server.audience.seen(["web"])] == [current.version]

    async def stats(self) -> dict[str, int]:
        return await asyncio.to_thread(self.envoy.stats)

    async def until_refused(self, stat: str, type_url: str) -> None:
        """Until the proxy has refused something, and the server has heard of it."""

        async def there() -> bool:
            return (await self.stats()).get(stat, 0) > 0 and self.server.metrics.rejects[type_url] > 0

        await self.until(there)


@contextlib.asynccontextmanager
async def running(variant: str, folder: Path, *resources: Resource, port: int) -> AsyncIterator[Running]:
    store = SnapshotStore()
    store.publish("web", Snapshot.of(resources))
    server = XdsServer(store, lambda caller: caller.node.cluster)
    where = await server.start("127.0.0.1:0")
    assert ENVOY is not None
    envoys = Envoys(folder, ENVOY)
    try:
        await asyncio.to_thread(envoys.start, {"web": bootstrap(where, variant, folder)})
        bed = Running(server, envoys.running["web"], port)
        await bed.until(bed.complete)  # it serves before the server has heard that it took the last of it
        yield bed
    finally:
        await asyncio.to_thread(envoys.stop)
        await server.stop(0.1)


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


async def clusters(bed: Running) -> set[str]:
    """The names of the clusters that Envoy has."""
    _, body = await asyncio.to_thread(bed.envoy.admin_get, "/clusters?format=json")
    return {state["name"] for state in json.loads(body)["cluster_statuses"]}


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
            store = SnapshotStore()
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
            assert [each.fresh for each in bed.server.audience.seen(["web"])] == [True]

            # What the server gives meanwhile is no reason to say otherwise.
            bed.server.store.publish("web", Snapshot.of([*content[:3], extension("plain"), listener(port)]))
            await bed.until(bed.complete)
            assert [each.fresh for each in bed.server.audience.seen(["web"])] == [True]

            (before,) = bed.server.audience
            before.end("age", 1.0)

            async def back() -> bool:
                there = [each for each in bed.server.audience if each is not before]
                # At no moment, whatever it has asked for so far.
                assert not any(each.fresh for each in there)
                return len(there) == len(bed.server.audience) == 1 and await bed.complete()

            await bed.until(back)
