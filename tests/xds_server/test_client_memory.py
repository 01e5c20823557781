"""All streams of a client together have a bound, whatever each of them may do by itself."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.xds_server.client import SECONDS, Client, names
from tests.xds_server.transcript import world
from xds_server.limits.client_memory import MemoryBudget, StreamMemory
from xds_server.limits.limits import Limits
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.stream import MAX_ERROR, MAX_TYPES
from xds_server.protocol.wire import DeltaRequest, SotwRequest
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER, ENDPOINTS, ROUTES
from xds_server.transport.admission import TOO_MUCH
from xds_server.transport.client import Admission
from xds_server.transport.connection import Connection
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from xds_server.protocol.stream import Stream
    from xds_server.protocol.wire import Response

THERE = tuple(f"a{each}" for each in range(200))
WORLD = world("endpoints " + " ".join(f"{name}=1" for name in THERE) + "; clusters a=1-")
STRANGE = tuple(f"strange-{each}".rjust(100, "x") for each in range(1_000))


class Talk:
    """A stream, and what is counted of it."""

    def __init__(self, stream: Stream) -> None:
        self.stream: Any = stream
        self.memory = StreamMemory()
        self.changes = 0

    def say(self, request: SotwRequest | DeltaRequest) -> list[Response]:
        out: list[Response] = self.stream.receive(request)
        self.changes += self.memory.account(self.stream, request, [])
        assert self.changes == self.memory.weight >= 0
        return out

    def answer(self, out: list[Response]) -> None:
        for each in out:
            self.say(DeltaRequest(each.type_url, nonce=each.nonce))


def delta() -> Talk:
    return Talk(DeltaStream(WORLD, SharedResults()))


def test_what_a_client_says_of_its_refusals_is_counted_until_they_are_over() -> None:
    """Its words are kept to be shown: 16 KB of each type."""
    talk, words = delta(), "\N{GRINNING FACE}" * 5_000
    types = [f"type.googleapis.com/no.such.Type{number}" for number in range(MAX_TYPES)]
    for number, kind in enumerate(types, 1):
        (answer,) = talk.say(DeltaRequest(kind, subscribe=("x",)))
        talk.say(DeltaRequest(kind, nonce=answer.nonce, error=words))
        assert talk.memory.weight > number * MAX_ERROR * 4
    for kind in types:
        talk.say(DeltaRequest(kind, unsubscribe=("x",)))
    assert talk.memory.weight == 0


def test_what_the_snapshot_has_is_not_counted() -> None:
    talk = delta()
    out = talk.say(DeltaRequest(CLUSTER, initial={"a": "1"}))
    out += talk.say(DeltaRequest(ENDPOINTS, subscribe=THERE))
    assert talk.memory.weight <= 1_000  # the version that it says it has is another one
    talk.answer(out)
    assert talk.memory.weight == 0


def test_names_that_do_not_exist_are_counted_as_long_as_they_are_asked_for() -> None:
    talk = delta()
    out = talk.say(DeltaRequest(ENDPOINTS, subscribe=STRANGE))
    unanswered = talk.memory.weight
    talk.answer(out)
    assert unanswered > 2 * talk.memory.weight > 200 * len(STRANGE)
    half = talk.memory.weight
    talk.say(DeltaRequest(ENDPOINTS, unsubscribe=STRANGE[:500]))
    assert talk.memory.weight == half / 2
    talk.say(DeltaRequest(ENDPOINTS, unsubscribe=STRANGE[500:]))
    assert talk.memory.weight == 0


def test_answers_that_are_owed_are_counted_though_their_names_are_given_up() -> None:
    talk = delta()
    talk.say(DeltaRequest(ENDPOINTS, subscribe=STRANGE))
    once = talk.memory.weight
    talk.say(DeltaRequest(ENDPOINTS, unsubscribe=STRANGE))
    for _ in range(3):
        talk.say(DeltaRequest(ENDPOINTS, subscribe=STRANGE))
        talk.say(DeltaRequest(ENDPOINTS, unsubscribe=STRANGE))
    assert talk.memory.weight > 2 * once


def test_claims_are_counted_until_something_else_is_sent() -> None:
    talk = delta()
    out = talk.say(DeltaRequest(ROUTES, subscribe=("*",), initial=dict.fromkeys(STRANGE, "v" * 100)))
    assert talk.memory.weight > 200 * len(STRANGE)
    while out:
        nonces = [(each.type_url, each.nonce) for each in out]
        out = [response for kind, nonce in nonces for response in talk.say(DeltaRequest(kind, nonce=nonce))]
    talk.say(DeltaRequest(CLUSTER))
    assert talk.memory.weight > 0 or not talk.stream.type_state(ROUTES).known


def test_refusals_are_counted() -> None:
    talk = delta()
    talk.answer(talk.say(DeltaRequest(CLUSTER)))
    (response,) = talk.say(DeltaRequest(CLUSTER, subscribe=("*", *STRANGE)))
    talk.say(DeltaRequest(CLUSTER, nonce=response.nonce, error="no"))
    before = talk.memory.weight
    (response,) = talk.say(DeltaRequest(CLUSTER, unsubscribe=STRANGE))
    talk.say(DeltaRequest(CLUSTER, nonce=response.nonce, error="no"))
    assert before > talk.memory.weight > 100 * len(STRANGE)


def test_in_state_of_the_world_the_whole_list_counts_each_time() -> None:
    talk = Talk(SotwStream(WORLD, SharedResults()))
    talk.say(SotwRequest(ENDPOINTS, names=(*THERE, *STRANGE)))
    assert talk.memory.weight > 100 * len(STRANGE)
    talk.say(SotwRequest(ENDPOINTS, names=THERE, nonce="1"))
    assert talk.memory.weight == 0


def test_responses_that_are_not_read_are_counted_beyond_a_few() -> None:
    talk = delta()
    out: list[Response] = []
    for _ in range(40):
        request = DeltaRequest(ENDPOINTS, subscribe=THERE)
        out += talk.stream.receive(request)
        talk.memory.account(talk.stream, request, out)
    assert talk.memory.weight == sum(len(each.payload.body) for each in out[8:]) > 30 * 200
    talk.memory.account(talk.stream, DeltaRequest(ENDPOINTS), out[:8])
    assert talk.memory.weight == 0


def test_beyond_the_total_a_client_with_more_than_its_share_gets_no_more() -> None:
    budget = MemoryBudget(per_client=100, total=200)
    assert all(budget.charge(client, 40) for client in ("a", "b", "c", "d"))
    assert budget.charge("a", 40)
    assert not budget.charge("a", 10)  # 210 together, of which 90 are its own
    assert budget.charge("a", -10)
    assert not budget.charge("a", 21)  # more than one may have
    budget.charge("a", -101)
    assert budget.charge("e", 35)
    assert budget.charge("f", 30)  # 225 together, but less than a share
    for client, held in (("b", 40), ("c", 40), ("d", 40), ("e", 35), ("f", 30)):
        budget.charge(client, -held)
    assert (budget.sum, budget.held("b")) == (0, 0)


async def test_one_client_with_many_streams_is_stopped_and_another_is_not(caplog: pytest.LogCaptureFixture) -> None:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    # 500 names take 480,000 until they are answered, and 140,000 from then on: there is room for two streams.
    server = XdsServer(store, lambda caller: Admission("web", caller.node.id), Limits(held_per_client=700_000))
    port = await server.start("127.0.0.1:0")
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(server.stop, 0.2)
        good = await stack.enter_async_context(Client(port, "delta", id="good"))
        await good.send(CLUSTER)
        response = await good.read()
        assert names(response) == ["a"]
        await good.send(CLUSTER, nonce=response.nonce)
        refused = []
        for _ in range(8):
            bad = await stack.enter_async_context(Client(port, "delta", id="bad"))
            await bad.send(ROUTES, *STRANGE[:500])
            try:
                response = await bad.read()
            except grpc.RpcError:
                refused.append(await bad.status())
            else:
                await bad.send(ROUTES, nonce=response.nonce)
                await bad.send(CLUSTER)  # once this is answered, that has been heard
                await bad.read()
        assert refused == [(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MUCH)] * 6
        assert server.metrics.denials["too_much"] == server.metrics.streams["resource_exhausted"] == 6
        found = [vars(item) for item in caplog.records if item.getMessage() == "holds_too_much"]
        assert [(item["identity"], item["levelno"], item["held"] > 700_000) for item in found] == [
            ("bad", logging.WARNING, True)
        ] * 3
        await good.send(ROUTES, "b")
        assert list((await good.read()).removed_resources) == ["b"]
        for client in list(server.connections):
            client.reject(grpc.StatusCode.UNAVAILABLE, "enough")
        async with asyncio.timeout(SECONDS):
            while server.connections:
                await asyncio.sleep(0.01)
        assert server.admission._budget.sum == 0


@contextlib.asynccontextmanager
async def without_garbage_collection() -> AsyncIterator[None]:
    """Nothing may stay of a stream, not even until the garbage collector runs: in `admc serve` it runs seldom.

    Streams of earlier tests that gRPC has not given up yet do not count.
    """
    gc.collect()
    earlier = streams()
    gc.disable()
    try:
        yield
        async with asyncio.timeout(SECONDS):
            while any(all(each is not other for other in earlier) for each in streams()):
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


def streams() -> list[Connection | DeltaStream]:
    return [each for each in gc.get_objects() if isinstance(each, (Connection, DeltaStream))]


async def test_nothing_stays_of_a_stream_that_was_refused() -> None:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, lambda caller: Admission("web", caller.node.id), Limits(held_per_client=100_000))
    port = await server.start("127.0.0.1:0")
    try:
        async with without_garbage_collection():
            for wrong in (STRANGE[:500], ("x" * 2_000,)):
                async with Client(port, "delta") as client:
                    with contextlib.suppress(grpc.aio.AioRpcError):  # the stream may end while the client still sends
                        await client.send(ROUTES, *wrong)
                    await client.status()
        assert server.metrics.streams["resource_exhausted"] == 2
    finally:
        await server.stop(0.2)


@pytest.mark.long
async def test_nothing_stays_of_a_stream_that_the_server_ends() -> None:
    """Then its reader still waits for a request, and gRPC makes that fail once the call has ended."""
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, lambda _: Admission("web"))
    port = await server.start("127.0.0.1:0")
    try:
        async with without_garbage_collection(), Client(port, "delta") as client:
            await client.send(CLUSTER)
            await client.read()
            for connection in server.connections:
                connection.reject(grpc.StatusCode.PERMISSION_DENIED, "the admission of this client has changed")
            del connection
            assert (await client.status())[0] is grpc.StatusCode.PERMISSION_DENIED
    finally:
        await server.stop(0.2)
