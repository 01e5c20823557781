"""Streams over real gRPC in unusual situations: several on one connection, invalid text, an end in a transition."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from tests.xds_server.build import resource
from tests.xds_server.client import Client
from tests.xds_server.test_server import BOTH, said, serving
from tests.xds_server.test_server import _until as until
from tests.xds_server.transcript import world
from xds_server.limits.limits import Limits
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER
from xds_server.transport.client import Admission
from xds_server.transport.connection import OUTBOX

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUESTS: Any = {"sotw": discovery_pb2.DiscoveryRequest, "delta": discovery_pb2.DeltaDiscoveryRequest}


def _begin(channel: grpc.aio.Channel, variant: str) -> Any:
    stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel)
    return (stub.StreamAggregatedResources if variant == "sotw" else stub.DeltaAggregatedResources)()


@BOTH
async def test_a_node_counts_in_the_first_request_alone(variant: str) -> None:
    async with serving(world("clusters a=1-; endpoints a=1")) as (server, port):
        server.store.publish("other", world("clusters z=1-; endpoints a=2"))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call, request = _begin(channel, variant), REQUESTS[variant]
            await call.write(request(type_url=CLUSTER, node={"id": "web-1", "cluster": "web"}))
            first = await call.read()
            assert said(first) == "a=1"
            other = {"id": "other-1", "cluster": "other", "user_agent_name": "gRPC"}
            await call.write(request(type_url=CLUSTER, node=other, response_nonce=first.nonce))
            await call.write(request(type_url=ENDPOINTS, node=other, **_names(variant, ["a"])))
            assert said(await call.read()) == "a=1"
            # Nor does it become a client of gRPC by that, which would mean nothing by silence.
            await call.write(request(type_url=LISTENER, node=other))
            assert (await call.read()).type_url == LISTENER
            (status,) = server.clients()
            assert (status.group, status.node.id, status.node.cluster) == ("web", "web-1", "web")


def _names(variant: str, names: Sequence[str]) -> dict[str, Any]:
    return {"resource_names" if variant == "sotw" else "resource_names_subscribe": names}


@BOTH
async def test_clients_on_one_connection_are_each_what_they_say(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (server, port):
        server.store.publish("other", world("clusters z=1-"))
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            for cluster, expected in (("web", "a=1"), ("other", "z=1"), ("web", "a=1")):
                call = _begin(channel, variant)
                await call.write(REQUESTS[variant](type_url=CLUSTER, node={"id": cluster, "cluster": cluster}))
                assert said(await call.read()) == expected
            unknown = _begin(channel, variant)
            await unknown.write(REQUESTS[variant](type_url=CLUSTER))
            assert await unknown.code() is grpc.StatusCode.PERMISSION_DENIED
            # One that is refused takes none of the others along.
            assert sorted(status.group for status in server.clients()) == ["other", "web", "web"]


@BOTH
@pytest.mark.parametrize("agent", ["gRPC Go", "gRPC C-core linux"])
async def test_clients_of_grpc_are_recognised_by_the_beginning_of_their_user_agent(variant: str, agent: str) -> None:
    async with (
        serving(world("clusters a=1-; listeners l=1")) as (_, port),
        Client(port, variant, agent=agent) as client,
    ):
        await client.send(LISTENER)
        await client.send(ENDPOINTS, "a")
        assert (await client.read()).type_url == ENDPOINTS


@BOTH
@pytest.mark.parametrize("field", [b"\x1a\x01\xff", b"\x22\x01\xff"])
async def test_text_that_is_no_utf8_ends_its_stream_alone(variant: str, field: bytes) -> None:
    """In a name, and in what is the type in state of the world and a name in delta."""
    method = "StreamAggregatedResources" if variant == "sotw" else "DeltaAggregatedResources"
    async with (
        serving(world("clusters a=1-")) as (_, port),
        Client(port, variant) as good,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        await good.send(CLUSTER)
        nonce = (await good.read()).nonce
        raw = channel.stream_stream(f"/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}")()
        await raw.write(field)
        assert await raw.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await raw.details() == "the request is no valid message"
        await good.send(ENDPOINTS, "a", nonce=nonce)
        assert said(await good.read()) == "a=empty"


@BOTH
@pytest.mark.parametrize("why", ["age", "stop"])
async def test_a_stream_that_ends_is_led_through_what_it_has_begun(variant: str, why: str) -> None:
    """It ends in the middle of a push, with another one waiting: the client is not left with half of either."""
    async with serving(world("clusters a=1-; listeners l=1")) as (server, port), Client(port, variant) as client:
        for kind in (CLUSTER, LISTENER):
            await client.send(kind)
            await client.send(kind, nonce=(await client.read()).nonce)
        server.store.publish("web", world("clusters a=2-; listeners l=2"))
        pushed = await client.read()
        assert said(pushed) == "a=2"
        latest = world("clusters a=3-; listeners l=2")
        server.store.publish("web", latest)
        await until(lambda: server.clients()[0].types[0].wanted == latest.of_type(CLUSTER).version)
        (connection,) = server.connections
        stopping = asyncio.create_task(server.stop(30.0)) if why == "stop" else None
        if stopping is None:
            connection.end(why, 30.0)
        assert await client.nothing_comes()
        await client.send(CLUSTER, nonce=pushed.nonce)
        told, response = [], await client.late()
        while response is not grpc.aio.EOF:
            told.append(said(response))
            await client.send(response.type_url, nonce=response.nonce)
            response = await client.read()
        assert told == ["l=2", "a=3"]
        assert (await client.status())[0] is grpc.StatusCode.OK
        if stopping is not None:
            await stopping


async def test_a_stream_without_a_request_does_not_hold_up_the_end() -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, "delta") as silent:
        await silent.call.wait_for_connection()
        await until(lambda: bool(server._pending))
        async with asyncio.timeout(20.0):
            await server.stop(600.0)
        assert server.metrics.streams["drained"] == 1


async def test_all_streams_together_are_limited() -> None:
    """A client beyond the limit gets a stream once another stream has ended."""
    async with serving(world("clusters a=1-"), Limits(streams=2)) as (server, port), Client(port, "delta") as one:
        await one.send(CLUSTER)
        await one.read()
        async with Client(port, "sotw") as two:
            await two.send(CLUSTER)
            await two.read()
            async with Client(port, "sotw") as three:
                assert await three.status() == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
        await until(lambda: server.metrics.connected == 1)
        async with Client(port, "sotw") as four:
            await four.send(CLUSTER)
            assert said(await four.read()) == "a=1"


def test_streams_that_began_together_do_not_end_together() -> None:
    ages = [Limits(age_seconds=100.0).random_age() for _ in range(1000)]
    assert 75.0 <= min(ages) < 85.0
    assert 115.0 < max(ages) <= 125.0


async def test_streams_of_an_identity_are_those_that_are_open() -> None:
    async with serving(world("clusters a=1-"), Limits(streams_per_identity=1)) as (server, port):
        server.admission._identify = lambda _: Admission("web", identity="search")
        for _ in range(2):
            async with Client(port, "delta") as one, Client(port, "delta") as two:
                await one.send(CLUSTER)
                assert said(await one.read()) == "a=1"
                await two.send(CLUSTER)
                assert await two.status() == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
            await until(lambda: server.metrics.connected == 0)


async def test_a_client_whose_group_has_changed_or_ended_loses_its_stream() -> None:
    """And comes back as what it is by then."""
    now: dict[str, str | None] = {"a": "web", "b": "web", "c": "web"}
    async with serving(world("clusters a=1-")) as (server, port), contextlib.AsyncExitStack() as stack:
        server.store.publish("other", world("clusters z=1-"))
        server.admission._identify = lambda caller: now[caller.node.cluster]
        clients = {name: await stack.enter_async_context(Client(port, "delta", name)) for name in now}
        for client in clients.values():
            await client.send(CLUSTER)
            assert said(await client.read()) == "a=1"
        now |= {"a": "other", "b": None}
        assert server.recheck_identities() == 2
        for name in ("a", "b"):
            assert (await clients[name].status())[0] is grpc.StatusCode.PERMISSION_DENIED
        assert [status.node.cluster for status in server.clients()] == ["c"]
        back = await stack.enter_async_context(Client(port, "delta", "a"))
        await back.send(CLUSTER)
        assert said(await back.read()) == "z=1"


@BOTH
async def test_endpoints_do_not_wait_for_what_others_wait_for(variant: str) -> None:
    """One group's changes wait to become one push. Another's endpoints are due before those."""
    limits = Limits(quiet_seconds=600.0, quiet_limit_seconds=600.0)
    async with (
        serving(world("clusters a=1-; endpoints a=1"), limits) as (server, port),
        Client(port, variant) as client,
    ):
        server.store.publish("other", world("clusters z=1-"))
        await client.send(ENDPOINTS, "a")
        await client.send(ENDPOINTS, *(["a"] if variant == "sotw" else []), nonce=(await client.read()).nonce)
        server.store.publish("other", world("clusters z=2-"))
        server.store.publish("web", world("clusters a=1-; endpoints a=2"))
        assert said(await client.read()) == "a=2"


async def test_a_waiting_change_is_pushed_though_another_one_was_due_before() -> None:
    limits = Limits(quiet_seconds=0.3, quiet_limit_seconds=600.0)
    async with serving(world("clusters a=1-; endpoints a=1"), limits) as (server, port):
        server.store.publish("other", world("clusters z=1-"))
        async with Client(port, "delta") as web, Client(port, "delta", "other") as other:
            await other.send(CLUSTER)
            await other.send(CLUSTER, nonce=(await other.read()).nonce)
            await web.send(ENDPOINTS, "a")
            await web.send(ENDPOINTS, nonce=(await web.read()).nonce)
            server.store.publish("other", world("clusters z=2-"))
            server.store.publish("web", world("clusters a=1-; endpoints a=2"))
            assert said(await web.read()) == "a=2"
            assert said(await other.read()) == "z=2"


async def test_the_age_of_a_snapshot_is_no_convergence_time_of_a_client_that_comes_later() -> None:
    async with serving() as (server, port):
        server.store.publish("web", world("clusters a=1-"))
        await asyncio.sleep(0.01)
        async with Client(port, "delta") as late:
            await late.send(CLUSTER)
            await late.send(CLUSTER, nonce=(await late.read()).nonce)
            await until(lambda: bool(server.clients()[0].acknowledged))
            assert sum(server.metrics.convergence.counts) == 0
            server.store.publish("web", world("clusters a=2-"))
            await late.send(CLUSTER, nonce=(await late.read()).nonce)
            await until(lambda: sum(server.metrics.convergence.counts) == 1)


async def test_requests_of_a_client_that_does_not_read_wait_until_it_does() -> None:
    """Else what it asks for would wait here, without end."""
    asked, body = 400, "x" * 900
    there = Snapshot.of([resource(CLUSTER, f"{number}-{body}", 1, ("-",)) for number in range(40)])
    async with serving(there) as (server, port), Client(port, "delta") as client:
        for _ in range(asked):
            await client.send(CLUSTER, "*")
        await until(lambda: len(server.connections) == 1 and len(server.connections[0]._outbox) >= OUTBOX)
        (connection,) = server.connections
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert len(connection._outbox) <= OUTBOX
        for _ in range(asked):
            assert len((await client.read()).resources) == 40
        assert server.metrics.requests[CLUSTER] == asked


@BOTH
async def test_a_client_that_owes_an_ack_is_cut_after_the_grace(variant: str) -> None:
    """By the stream itself: gRPC would cut the whole connection, and much later."""
    async with serving(world("clusters a=1-")) as (server, port), Client(port, variant) as client:
        await client.send(CLUSTER)
        await client.read()
        (connection,) = server.connections
        connection.end("age", 0.1)
        assert await client.status() == (grpc.StatusCode.DEADLINE_EXCEEDED, "no answer came")
