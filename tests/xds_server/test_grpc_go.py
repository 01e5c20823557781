"""gRPC in Go as the client: it begins to use new routes before its balancer knows their clusters."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from tests.xds_server.golang import caller
from tests.xds_server.test_grpc_client import backend, bootstrap, resources
from xds_server.server import XdsServer
from xds_server.store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WORKERS = 16
SWITCHES = 24
SECONDS = 60.0
CALLS = 100
"""Between two switches, at least."""


async def test_no_call_is_lost_while_routes_switch_clusters() -> None:
    """Without being told of clusters ahead, a client loses some calls of each thousand (`docs/xds.md`)."""
    program = await asyncio.to_thread(caller)
    async with backend("one") as one, backend("two") as two:
        store = SnapshotStore()
        worlds = (resources("a", one), resources("b", two), resources("c", one))
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
