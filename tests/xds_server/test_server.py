"""The service over real gRPC: admission, limits, ends of streams, and who is pushed what, and when."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from tests.xds_server.build import MESSAGES, content_of, resource
from tests.xds_server.client import SECONDS, Client, names
from tests.xds_server.transcript import world
from xds_server.limits.limits import Limits
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import InconsistentSnapshotError, Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES
from xds_server.transport.server import PAUSE, ServerError, XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

BOTH = pytest.mark.parametrize("variant", ["sotw", "delta"])


@asynccontextmanager
async def serving(
    snapshot: Snapshot | None = None, limits: Limits | None = None
) -> AsyncIterator[tuple[XdsServer, int]]:
    store = SnapshotCache()
    if snapshot is not None:
        store.publish("web", snapshot)
    server = XdsServer(store, lambda caller: caller.node.cluster or None, limits)
    port = await server.start("127.0.0.1:0")
    try:
        yield server, port
    finally:
        await server.stop(0.2)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def said(response: Any) -> str:
    """Names and contents of a response of either variant."""
    packed = (getattr(item, "resource", item) for item in response.resources)
    found = [MESSAGES[each.type_url].FromString(each.value) for each in packed]
    return " ".join(f"{getattr(each, 'name', '') or each.cluster_name}={content_of(each)}" for each in found)


@BOTH
async def test_a_change_reaches_a_client(variant: str) -> None:
    async with serving(world("clusters a=1- b=1-")) as (server, port), Client(port, variant) as client:
        await client.send(CLUSTER)
        first = await client.read()
        assert len(first.resources) == 2
        await client.send(CLUSTER, nonce=first.nonce)
        server.store.publish("web", world("clusters a=1- b=2-"))
        second = await client.read()
        assert len(second.resources) == (2 if variant == "sotw" else 1)
        assert server.metrics.pushes[CLUSTER] == 2
        assert server.metrics.connected == 1
        (status,) = server.clients()
        assert (status.group, status.node.id, status.variant) == ("web", "web-1", variant)
        assert status.types[0].acknowledged != status.types[0].sent == status.types[0].wanted


@BOTH
async def test_before_the_first_snapshot_a_stream_ends_with_unavailable(variant: str) -> None:
    async with serving() as (server, port):
        async with Client(port, variant) as client:
            await client.send(CLUSTER)
            assert await client.status() == (grpc.StatusCode.UNAVAILABLE, "there is no configuration yet")
        server.store.publish("web", world("clusters a=1-"))
        async with Client(port, variant) as client:
            await client.send(CLUSTER)
            assert (await client.read()).resources
        assert server.metrics.streams["unavailable"] == 1


async def test_an_unknown_client_gets_nothing() -> None:
    async with serving(world("clusters a=1-")) as (_, port), Client(port, "delta", node="") as client:
        await client.send(CLUSTER)
        assert (await client.status())[0] is grpc.StatusCode.PERMISSION_DENIED


@BOTH
async def test_groups_do_not_see_each_other(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (server, port):
        server.store.publish("other", world("clusters z=1-"))
        async with Client(port, variant) as web, Client(port, variant, node="other") as other:
            await web.send(CLUSTER)
            await other.send(CLUSTER)
            one, two = await web.read(), await other.read()
            assert one.resources[0] != two.resources[0]
            await other.send(CLUSTER, nonce=two.nonce)
            await web.send(CLUSTER, nonce=one.nonce)
            server.store.publish("other", world("clusters z=2-"))
            assert await web.nothing_comes()
            assert (await other.read()).resources


@BOTH
async def test_a_request_without_a_type_is_refused(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (_, port), Client(port, variant) as client:
        await client.send("")
        assert await client.status() == (grpc.StatusCode.INVALID_ARGUMENT, "the request has no type URL")


@BOTH
async def test_an_unknown_type_does_not_end_the_stream(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, variant) as client:
        await client.send("type.googleapis.com/no.such.Type", "x")
        if variant == "delta":
            answer = await client.read()
            assert list(answer.removed_resources) == ["x"]
            await client.send("type.googleapis.com/no.such.Type", nonce=answer.nonce, error="no")
        await client.send(CLUSTER)
        assert (await client.read()).type_url == CLUSTER
        # Whatever clients make up is one type in the metrics.
        assert {*server.metrics.requests, *server.metrics.pushes, *server.metrics.rejects} == {CLUSTER, "other"}


async def test_bytes_that_are_no_request_end_their_stream_alone() -> None:
    async with serving(world("clusters a=1-")) as (_, port), Client(port, "delta") as good:
        await good.send(CLUSTER)
        first = await good.read()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            raw = channel.stream_stream(
                "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
            )()
            await raw.write(b"\xff\xff\xff")
            assert await raw.code() is grpc.StatusCode.INVALID_ARGUMENT
        await good.send(CLUSTER, nonce=first.nonce)
        await good.send(CLUSTER, "a")
        assert names(await good.read()) == ["a"]


async def test_a_refusal_is_counted_and_shown_in_the_clients_words() -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, "delta") as client:
        await client.send(CLUSTER)
        first = await client.read()
        await client.send(CLUSTER, nonce=first.nonce, error="a is bad\nreally")
        await client.send(LISTENER)
        await client.read()
        assert server.metrics.rejects[CLUSTER] == 1
        assert server.clients()[0].types[0].error == "a is bad\nreally"


async def test_refusals_without_end_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, "delta") as client:
        await client.send(CLUSTER, "a")
        for number in range(20):
            nonce = (await client.read()).nonce
            await client.send(CLUSTER, "a", nonce=nonce, error=f"{number} " + "x" * 4000)  # and it is asked for again
        last = await client.read()
        assert server.metrics.rejects[CLUSTER] == 20
        assert server.clients()[0].types[0].error.startswith("19 ")
        server.store.publish("web", world("clusters a=2-"))
        await client.send(CLUSTER, nonce=last.nonce)
        await client.send(CLUSTER, nonce=(await client.read()).nonce, error="another one")
        await client.send(LISTENER)
        await client.read()
    records = [vars(record) for record in caplog.records if record.getMessage() == "refused"]
    assert [record["said"].split()[0] for record in records] == [*"01234", "another"]
    assert {(record["node"], record["service"], record["type"]) for record in records} == {("web-1", "web", "Cluster")}
    assert max(len(record["said"]) for record in records) < 550


@BOTH
async def test_a_new_client_gets_the_last_snapshot_that_was_taken_until_there_is_a_better_one(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, variant) as client:
        await client.send(CLUSTER)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        await _until(lambda: server.store.last_acked("web") is not None)
        server.store.publish("web", world("clusters a=1- bad=1-"))
        await client.send(CLUSTER, nonce=(await client.read()).nonce, error="bad is bad")
        await _until(lambda: server.metrics.rejects[CLUSTER] == 1)
        async with Client(port, variant, id="web-2") as late:
            await late.send(CLUSTER)
            first = await late.read()
            assert len(first.resources) == 1
            await late.send(CLUSTER, nonce=first.nonce)
            await _until(lambda: server.metrics.acknowledgements[CLUSTER] == 2)
            server.store.publish("web", world("clusters a=1- good=1-"))
            assert (await late.read()).resources
            assert (await client.read()).resources


@BOTH
@pytest.mark.parametrize("when", ["before the refusal", "after it"])
async def test_what_was_refused_is_no_better_with_other_endpoints(variant: str, when: str) -> None:
    """Endpoints change all the time: that must not make a new client start from what another one refused."""
    good, bad = "clusters a=1; listeners l=1", "clusters a=1; listeners l=2"
    async with serving(world(f"{good}; endpoints a=1")) as (server, port), Client(port, variant) as client:
        for kind, *asked in ((CLUSTER,), (ENDPOINTS, "a"), (LISTENER,)):
            await client.send(kind, *asked)
            repeated = asked if variant == "sotw" else []
            await client.send(kind, *repeated, nonce=(await client.read()).nonce)
        await _until(lambda: server.store.last_acked("web") is not None)
        server.store.publish("web", world(f"{bad}; endpoints a=1"))
        pushed = await client.read()
        if when == "before the refusal":
            server.store.publish("web", world(f"{bad}; endpoints a=2"))
        await client.send(LISTENER, nonce=pushed.nonce, error="bad")
        await _until(lambda: server.metrics.rejects[LISTENER] == 1)
        if when == "after it":
            server.store.publish("web", world(f"{bad}; endpoints a=2"))
        async with Client(port, variant, id="web-2") as late:
            for kind, *asked in ((CLUSTER,), (ENDPOINTS, "a"), (LISTENER,)):
                await late.send(kind, *asked)
                got = await late.read()
                repeated = asked if variant == "sotw" else []
                await late.send(kind, *repeated, nonce=got.nonce)
                if kind == ENDPOINTS:
                    assert "a=2" in said(got)
            assert said(got) == "l=1"
            assert await late.nothing_comes()
            # Nor does it get it with the next endpoints.
            server.store.publish("web", world(f"{bad}; endpoints a=3"))
            assert said(await late.late()) == "a=3"
            assert await late.nothing_comes()
            # A better one heals both.
            server.store.publish("web", world("clusters a=1; endpoints a=2; listeners l=3"))
            assert said(await late.late()) == "l=3"


@pytest.mark.parametrize("accepted", [False, True])
async def test_a_state_of_the_world_client_that_comes_back_keeps_what_its_group_was_sent(accepted: bool) -> None:
    """`accepted`: not by this server, which knows what clients acknowledged, as `admc serve` does after a restart."""
    old = world("clusters a=1-")
    async with serving(old) as (server, port):
        version = old.of_type(CLUSTER).version
        if accepted:
            server.store.acked("web", old)
            version = "of another replica"
        else:
            async with Client(port, "sotw") as client:
                await client.send(CLUSTER)
                assert (await client.read()).version_info == version
        server.store.publish("web", world("clusters b=1-"))
        async with Client(port, "sotw") as client:
            await client.send(CLUSTER, has={"": version})
            assert said(await client.read()) == "a=1 b=1"
        server.store.publish("web2", world("clusters b=1-"))
        async with Client(port, "sotw", "web2") as client:
            await client.send(CLUSTER, has={"": version})
            assert said(await client.read()) == "b=1"


async def test_an_inconsistent_snapshot_is_refused_and_the_last_one_stays() -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, "sotw") as client:
        await client.send(CLUSTER)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        bad = Snapshot.of([resource(ROUTES, "r", 1, ("nowhere",))])
        with pytest.raises(InconsistentSnapshotError):
            server.store.publish_all({"other": world("clusters z=1-"), "web": bad})
        assert server.store.current("other") is None
        assert await client.nothing_comes()
        assert server.metrics.refused_snapshots == 1


async def test_endpoints_do_not_wait_for_quiet() -> None:
    never = Limits(quiet_seconds=10 * SECONDS, quiet_limit_seconds=10 * SECONDS)
    async with serving(world("clusters a=1-; endpoints a=1"), never) as (server, port), Client(port, "delta") as client:
        await client.send(CLUSTER)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        await client.send(ENDPOINTS, "a")
        await client.send(ENDPOINTS, nonce=(await client.read()).nonce)
        server.store.publish("web", world("clusters a=1-; endpoints a=2"))
        assert (await client.read()).type_url == ENDPOINTS


async def test_changes_in_quick_succession_are_one_push_and_wait_for_quiet() -> None:
    slow = Limits(quiet_seconds=0.2, quiet_limit_seconds=5.0)
    async with serving(world("clusters a=1-"), slow) as (server, port), Client(port, "delta") as client:
        await client.send(CLUSTER)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        for content in range(2, 6):
            last = time.monotonic()
            server.store.publish("web", world(f"clusters a={content}-"))
        pushed = await client.read()
        assert time.monotonic() - last >= slow.quiet_seconds
        assert pushed.resources[0].version == world("clusters a=5-").of_type(CLUSTER).resources["a"].version
        await client.send(CLUSTER, nonce=pushed.nonce)
        assert await client.nothing_comes(0.3)


async def test_a_client_that_does_not_read_holds_up_no_other_client() -> None:
    big = [resource(CLUSTER, f"cluster-{number}-{'x' * 500}", 1, ("-",)) for number in range(4000)]
    async with (
        serving(Snapshot.of(big)) as (server, port),
        Client(port, "delta") as slow,
        Client(port, "delta") as quick,
    ):
        await slow.send(CLUSTER)
        await quick.send(CLUSTER)
        had = 0
        while had < len(big):
            part = await quick.read()
            had += len(part.resources)
            await quick.send(CLUSTER, nonce=part.nonce)
        for content in (2, 3, 4):
            server.store.publish("web", Snapshot.of([resource(CLUSTER, "one", content, ("-",)), *big]))
            pushed = await quick.read()
            assert names(pushed) == ["one"]
            await quick.send(CLUSTER, nonce=pushed.nonce)
        had = 0
        while had < len(big):
            had += len((await slow.read()).resources)


async def test_streams_of_one_peer_are_limited() -> None:
    few = Limits(streams_per_peer=2)
    async with serving(world("clusters a=1-"), few) as (server, port):
        async with Client(port, "sotw") as one, Client(port, "delta") as two:
            for client in (one, two):
                await client.send(CLUSTER)
                await client.read()
            async with Client(port, "sotw") as three:
                assert await three.status() == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams")
        await _until(lambda: server.metrics.connected == 0)
        async with Client(port, "sotw") as four:
            await four.send(CLUSTER)
            assert (await four.read()).resources


async def test_requests_are_limited_in_size_and_number_of_names() -> None:
    small = Limits(request_bytes=10_000)
    async with serving(world("clusters a=1-"), small) as (_, port), Client(port, "delta") as client:
        await client.send(ENDPOINTS, *(f"name-{number}" for number in range(2000)))
        assert (await client.status())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    async with serving(world("clusters a=1-")) as (_, port), Client(port, "delta") as client:
        await client.send(ENDPOINTS, *(f"{number}" for number in range(20_001)))
        code, details = await client.status()
        assert (code, details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "more than 20,000 names in one request")


async def test_clients_with_heavy_requests_wait_for_each_other() -> None:
    async with serving(world("clusters a=1-")) as (server, _):
        began = time.monotonic()
        await asyncio.gather(*(server.pause_after_heavy_request(0.02) for _ in range(3)))
        assert time.monotonic() - began >= 0.02 * 3 * PAUSE - 0.02


async def test_a_client_that_says_nothing_is_let_go() -> None:
    short = Limits(first_request_seconds=0.1)
    async with serving(world("clusters a=1-"), short) as (_, port), Client(port, "delta") as client:
        await client.call.wait_for_connection()
        assert (await client.status())[0] is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.long
@pytest.mark.parametrize(("limits", "lost"), [(Limits(turn_seconds=1), True), (Limits(), False)])
async def test_streams_of_a_storm_wait_for_their_turn(limits: Limits, lost: bool) -> None:
    """gRPC takes one new stream after another, and cancels those that have waited for too long: 30 s unless told."""
    assert Limits().turn_seconds > 60
    async with serving(world("clusters a=1-"), limits) as (_, port):
        # No event says that they have arrived: where the first wait was too short for that, a longer one follows.
        for seconds in (2.5, 10.0, 40.0) if lost else (2.5,):
            answers = await _storm(port, seconds)
            if "CANCELLED" in answers:
                break
    assert ("CANCELLED" in answers) is lost
    assert "answered" in answers or lost


async def _storm(port: int, seconds: float) -> list[str]:
    """How calls fare that come while the server's loop stands still for a time."""
    asked = discovery_pb2.DeltaDiscoveryRequest(type_url=CLUSTER, node={"id": "web-1", "cluster": "web"})
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel)
        calls = [stub.DeltaAggregatedResources(iter([asked])) for _ in range(5)]
        # The loop stands still from before they connect, so that none can be taken in time.
        grpc.channel_ready_future(channel).result(SECONDS)
        time.sleep(seconds)
        return await asyncio.gather(*(asyncio.to_thread(_answer, call) for call in calls))


def _answer(call: grpc.Call) -> str:
    try:
        return "answered" if next(call) else ""
    except grpc.RpcError as error:
        return str(error.code().name)


@BOTH
async def test_streams_end_after_an_age_once_the_client_has_answered(variant: str) -> None:
    short = Limits(age_seconds=0.4, age_grace_seconds=SECONDS)
    async with serving(world("clusters a=1-"), short) as (server, port), Client(port, variant) as client:
        await client.send(CLUSTER)
        first = await client.read()
        await asyncio.sleep(0.6)
        assert not client.call.done()
        await client.send(CLUSTER, nonce=first.nonce)
        assert (await client.status())[0] is grpc.StatusCode.OK
        assert server.metrics.streams["age"] == 1


async def test_a_client_that_never_answers_is_cut_after_the_grace() -> None:
    short = Limits(age_seconds=0.1, age_grace_seconds=0.2)
    async with serving(world("clusters a=1-"), short) as (_, port), Client(port, "delta") as client:
        await client.send(CLUSTER)
        await client.read()
        assert (await client.status())[0] is not grpc.StatusCode.OK


@BOTH
async def test_streams_drain_when_the_server_stops(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, variant) as client:
        await client.send(CLUSTER)
        first = await client.read()
        stopping = asyncio.create_task(server.stop(10 * SECONDS))
        await asyncio.sleep(0.1)
        assert not client.call.done()
        await client.send(CLUSTER, nonce=first.nonce)
        assert (await client.status())[0] is grpc.StatusCode.OK
        await asyncio.wait_for(stopping, SECONDS)  # and not the whole grace


async def test_listeners_do_not_wait_for_ever_for_endpoints_without_a_subscription() -> None:
    short = Limits(patience_seconds=0.5)
    async with serving(world("clusters a=1; listeners l=1"), short) as (_, port), Client(port, "sotw") as client:
        began = time.monotonic()
        await client.send(CLUSTER)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        await client.send(LISTENER)
        assert (await client.read()).type_url == LISTENER
        assert time.monotonic() - began >= short.patience_seconds


@pytest.mark.long
@BOTH
async def test_patience_begins_anew_with_each_wait(variant: str) -> None:
    """A timer that is left from an earlier wait would let a route go out before the endpoints that it leads to."""
    before = world("clusters a=1; endpoints a=1; listeners l=1>r; routes r=1>a")
    after = world("clusters a=1 b=1; endpoints a=1 b=1; listeners l=1>r; routes r=2>b")
    patience = 1.0
    async with serving(before, Limits(patience_seconds=patience)) as (server, port), Client(port, variant) as client:
        began = asyncio.get_running_loop().time()
        for kind, *asked in ((CLUSTER,), (ENDPOINTS, "a"), (LISTENER,), (ROUTES, "r")):
            await client.send(kind, *asked)
            repeated = asked if variant == "sotw" else []
            await client.send(kind, *repeated, nonce=(await client.read()).nonce)
        await asyncio.sleep(began + 0.7 - asyncio.get_running_loop().time())
        again = time.monotonic()
        server.store.publish("web", after)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        assert (await client.read()).type_url == ROUTES
        assert time.monotonic() - again >= patience


async def test_two_servers_do_not_share_a_port() -> None:
    async with serving() as (_, port):
        other = XdsServer(SnapshotCache(), lambda _: None)
        with pytest.raises(ServerError, match=f"cannot listen at `127.0.0.1:{port}`"):
            await other.start(f"127.0.0.1:{port}")


@BOTH
async def test_the_time_to_converge_is_that_of_clients_that_were_there(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, variant) as client:
        await asyncio.sleep(0.3)
        await client.send(CLUSTER)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        await _until(lambda: bool(server.clients()[0].acknowledged))
        # The snapshot was there before the client: its age says nothing.
        assert sum(server.metrics.convergence.counts) == 0
        published = time.monotonic()
        server.store.publish("web", world("clusters a=2-"))
        second = await client.read()
        assert server.clients()[0].wanted == server.clients()[0].sent != server.clients()[0].acknowledged
        await client.send(CLUSTER, nonce=second.nonce)
        await _until(lambda: bool(sum(server.metrics.convergence.counts)))
        (status,) = server.clients()
        assert status.wanted == status.sent == status.acknowledged
        assert 0.0 < server.metrics.convergence.sum <= time.monotonic() - published
