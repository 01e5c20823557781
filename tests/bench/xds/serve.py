"""Serves the states in the given files from this repository's server. A number on stdin publishes that state.

The counterpart of `gcp/server/main.go`: both read states as messages, and make a snapshot of those when told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from envoy.service.discovery.v3 import discovery_pb2

from xds_server.limits.limits import Limits
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.references import message_class
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import PREFIX
from xds_server.transport.event_loop import GrpcEventLoop
from xds_server.transport.process import tune_garbage_collection
from xds_server.transport.server import XdsServer

GROUP = "bench"


def read(path: str) -> list[object]:
    response = discovery_pb2.DiscoveryResponse.FromString(Path(path).read_bytes())
    messages = []
    for packed in response.resources:
        kind = message_class(packed.type_url.removeprefix(PREFIX))
        assert kind is not None, packed.type_url
        messages.append(kind.FromString(packed.value))
    return messages


async def main() -> None:
    tune_garbage_collection()
    states = [read(path) for path in sys.argv[1:]]
    store = SnapshotCache()
    limits = Limits(streams_per_peer=20_000, streams_per_connection=1_000)
    server = XdsServer(store, lambda _: GROUP, limits)
    print(await server.start("127.0.0.1:0"), flush=True)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        store.publish(GROUP, Snapshot.of(map(Resource.of, states[int(line)])))
        print("published", flush=True)
    await server.stop(0)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=GrpcEventLoop) as runner:
        runner.run(main())
