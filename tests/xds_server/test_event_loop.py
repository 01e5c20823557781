"""The loop turns once for all that gRPC has to tell it, whatever gRPC does."""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from typing import Any

import grpc
import pytest

from xds_server.transport.event_loop import GrpcEventLoop

WRITES = 50
SECONDS = 60.0


class Watched(selectors.DefaultSelector):
    """Counts the turns of its loop, and knows the sockets that are looked at."""

    turns = 0

    def select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        return super().select(timeout)

    def told(self) -> int:
        """How many bytes of gRPC wait: of what else there is, nothing is said in this test."""
        sockets = [key.fileobj for key in self.get_map().values() if isinstance(key.fileobj, socket.socket)]
        return max((_waiting(each) for each in sockets), default=0)


def _waiting(found: socket.socket) -> int:
    try:
        return len(found.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return 0


async def _turns(selector: Watched) -> int:
    """How many it takes to hear that so many messages have been written, of which gRPC has told already."""
    contexts: list[Any] = []
    over = asyncio.Event()

    async def handle(_: Any, context: Any) -> None:
        contexts.append(context)
        await over.wait()

    server = grpc.aio.server()
    handlers = {"Talk": grpc.stream_stream_rpc_method_handler(handle)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with asyncio.timeout(SECONDS), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls = [channel.stream_stream("/test.Test/Talk")() for _ in range(WRITES)]
        while len(contexts) < WRITES or selector.told():
            await asyncio.sleep(0.01)
        writes = [asyncio.ensure_future(context.write(b"some")) for context in contexts]
        await asyncio.sleep(0)  # each has begun, and the loop has not looked at anything since
        late = time.monotonic() + SECONDS
        while selector.told() < WRITES and time.monotonic() < late:
            time.sleep(0.001)  # the loop is to turn when all is there, and not before
        before = selector.turns
        await asyncio.gather(*writes)
        while selector.told():
            await asyncio.sleep(0)
        after = selector.turns
        over.set()
        for call in calls:
            assert await call.read() == b"some"
            assert await call.code() is grpc.StatusCode.OK
    await server.stop(None)
    return after - before


@pytest.mark.parametrize(("kind", "few"), [(GrpcEventLoop, True), (asyncio.SelectorEventLoop, False)])
def test_many_events_take_few_turns(kind: type[asyncio.SelectorEventLoop], few: bool) -> None:
    """Once Python's own loop needs no more turns, there is no need for this one."""
    selector = Watched()
    with asyncio.Runner(loop_factory=lambda: kind(selector)) as runner:
        found = runner.run(_turns(selector))
    assert found < WRITES / 5 if few else found >= WRITES


def test_other_readers_are_called_as_ever() -> None:
    async def hear() -> list[bytes]:
        heard: list[bytes] = []
        done = asyncio.Event()
        ours, theirs = socket.socketpair()
        with ours, theirs:

            def read(what: str) -> None:
                heard.append(what.encode() + ours.recv(1))
                if len(heard) == 3:
                    done.set()

            loop = asyncio.get_running_loop()
            loop.add_reader(ours, read, "got ")
            theirs.send(b"abc")
            async with asyncio.timeout(SECONDS):
                await done.wait()
            loop.remove_reader(ours)
        return heard

    with asyncio.Runner(loop_factory=GrpcEventLoop) as runner:
        assert runner.run(hear()) == [b"got a", b"got b", b"got c"]
