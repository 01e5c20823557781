"""gRPC in Go as the client: it begins to use new routes before its balancer knows their clusters."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from envoy.config.route.v3 import route_pb2

from tests.golang import built
from tests.xds_server.envoy_bed import made
from tests.xds_server.test_grpc_client import backend, bootstrap, resources
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import ROUTES
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from xds_server.resources.snapshot import Resource

pytestmark = pytest.mark.long

SOURCES = Path(__file__).with_name("caller_go")
WORKERS = 16
SWITCHES = 24
SECONDS = 60.0
CALLS = 100
"""Between two switches, at least."""


def to_other_clusters(one: int, two: int) -> tuple[Snapshot, ...]:
    return resources("a", one), resources("b", two), resources("c", one)


def to_clusters_of_another_virtual_host(one: int, two: int) -> tuple[Snapshot, ...]:
    """All clusters are named at all times, but not where the client looks."""
    both = [item for world in (resources("a", one), resources("b", two)) for item in _all(world)]
    rest = {(item.type_url, item.name): item for item in both if item.type_url != ROUTES}

    def world(**hosts: str) -> Snapshot:
        table = [
            {"name": name, "domains": [name], "routes": [{"match": {"prefix": ""}, "route": {"cluster": cluster}}]}
            for name, cluster in hosts.items()
        ]
        routes = made(route_pb2.RouteConfiguration, {"name": "to-search", "virtual_hosts": table})
        return Snapshot.of([*rest.values(), routes])

    return world(search="a", other="b"), world(search="b", other="a")


def _all(snapshot: Snapshot) -> list[Resource]:
    return [item for collection in snapshot.collections.values() for item in collection.resources.values()]


@pytest.mark.parametrize("worlds_of", [to_other_clusters, to_clusters_of_another_virtual_host])
async def test_no_call_is_lost_while_routes_switch_clusters(
    worlds_of: Callable[[int, int], tuple[Snapshot, ...]],
) -> None:
    """A client that receives no clusters ahead of routes loses some calls of each thousand (`docs/xds.md`)."""
    program = await asyncio.to_thread(built, SOURCES, "xds-caller")
    async with backend("one") as one, backend("two") as two:
        store = SnapshotCache()
        worlds = worlds_of(one, two)
        store.publish("web", worlds[0])
        server = XdsServer(store, lambda called: called.node.cluster)
        port = await server.start("127.0.0.1:0")
        process = await asyncio.create_subprocess_exec(
            str(program),
            "xds:///search",
            str(WORKERS),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=bootstrap(port),
        )
        try:
            await _until(lambda: _answers(process))
            total: dict[str, int] = {}
            for number in range(1, SWITCHES + 1):
                store.publish("web", worlds[number % len(worlds)])
                wanted = store.current("web")
                assert wanted is not None
                while {client.acknowledged for client in server.clients()} != {wanted.version}:
                    await asyncio.sleep(0.01)
                said: dict[str, int] = {}
                while sum(said.values()) < CALLS:
                    for answer, count in (await _counted(process)).items():
                        said[answer] = said.get(answer, 0) + count
                        total[answer] = total.get(answer, 0) + count
            assert total.keys() == {"one hello", "two hello"}, total
        finally:
            process.terminate()
            await process.wait()
            await server.stop(0.1)


async def _counted(process: asyncio.subprocess.Process) -> dict[str, int]:
    """How often each answer came since it was asked last."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    found = json.loads(await asyncio.wait_for(process.stdout.readline(), SECONDS))
    assert isinstance(found, dict)
    return found


async def _answers(process: asyncio.subprocess.Process) -> bool:
    return "one hello" in await _counted(process)


async def _until(what: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await what():
            await asyncio.sleep(0.05)
