"""Client status over real gRPC: what clients were sent, took and refused; and who may ask for it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc
from google.protobuf import json_format

from tests.xds_server.client import SECONDS, Client
from tests.xds_server.transcript import world
from xds_server import csds
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER, LISTENER, SECRET
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from xds_server.transport.client import Caller

STATUS: Any = csds_pb2.ConfigStatus
BOTH = pytest.mark.parametrize("variant", ["sotw", "delta"])


@contextlib.asynccontextmanager
async def serving(
    may_ask: Callable[[Caller], bool] = lambda _: True, **how: Callable[[Any], Any]
) -> AsyncIterator[tuple[XdsServer, int, Any]]:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1- b=1-"))
    server = XdsServer(store, lambda caller: caller.node.cluster or None)
    port = await server.start("127.0.0.1:0", services=[lambda it: csds.add(it, server, may_ask, **how)])
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield server, port, csds_pb2_grpc.ClientStatusDiscoveryServiceStub(channel)
    finally:
        await server.stop(0.1)


def request(**fields: Any) -> Any:
    return json_format.ParseDict(fields, csds_pb2.ClientStatusRequest())


def shown(config: Any) -> dict[str, str]:
    return {item.name: STATUS.Name(item.config_status) for item in config.generic_xds_configs}


async def until(stub: Any, wanted: dict[str, str]) -> Any:
    """Ask until the only client is shown like this."""
    async with asyncio.timeout(SECONDS):
        while True:
            (config,) = (await stub.FetchClientStatus(request())).config
            if shown(config) == wanted:
                return config
            await asyncio.sleep(0.01)


@BOTH
async def test_each_resource_says_how_far_it_got(variant: str) -> None:
    async with serving() as (server, port, stub), Client(port, variant) as client:
        await client.send(CLUSTER)
        first = await client.read()
        config = await until(stub, {"a": "STALE", "b": "STALE"})
        assert (config.node.id, config.node.cluster) == ("web-1", "web")
        assert config.generic_xds_configs[0].xds_config.type_url == CLUSTER
        await client.send(CLUSTER, nonce=first.nonce)
        await until(stub, {"a": "SYNCED", "b": "SYNCED"})
        server.store.publish("web", world("clusters a=2- b=1- c=1-"))
        second = await client.read()
        await client.send(CLUSTER, nonce=second.nonce, error="c is bad")
        refused = {"a": "ERROR", "b": "ERROR" if variant == "sotw" else "SYNCED", "c": "ERROR"}
        config = await until(stub, refused)
        found = {item.name: item for item in config.generic_xds_configs}
        assert found["c"].error_state.details == "c is bad"
        clusters = world("clusters a=1- c=1-").of_type(CLUSTER).resources
        assert found["c"].error_state.version_info == clusters["c"].version
        assert found["a"].version_info == clusters["a"].version  # what it has still


async def test_nodes_are_chosen_by_id_and_contents_can_be_left_out() -> None:
    async with (
        serving() as (_, port, stub),
        Client(port, "delta", id="web-1") as one,
        Client(port, "delta", id="web-2") as two,
    ):
        for client in (one, two):
            await client.send(CLUSTER)
            await client.read()
        for matcher, ids in [
            ({"exact": "web-2"}, ["web-2"]),
            ({"prefix": "WEB-", "ignore_case": True}, ["web-1", "web-2"]),
            ({"suffix": "1"}, ["web-1"]),
            ({"contains": "x"}, []),
        ]:
            answer = await stub.FetchClientStatus(
                request(node_matchers=[{"node_id": matcher}], exclude_resource_contents=True)
            )
            assert [config.node.id for config in answer.config] == ids
            assert not any(item.HasField("xds_config") for c in answer.config for item in c.generic_xds_configs)


@pytest.mark.parametrize(
    "matcher",
    [{"node_id": {"safe_regex": {"regex": "w.*"}}}, {"node_id": {}}, {"node_metadatas": [{"path": [{"key": "a"}]}]}],
)
async def test_what_cannot_be_matched_is_refused(matcher: dict[str, Any]) -> None:
    async with serving() as (_, _, stub):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.FetchClientStatus(request(node_matchers=[matcher]))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_stream_is_answered_request_by_request() -> None:
    async with serving() as (_, port, stub), Client(port, "delta") as client:
        call = stub.StreamClientStatus()
        await call.write(request())
        assert not (await call.read()).config
        await client.send(CLUSTER)
        await client.read()
        await call.write(request())
        assert len((await call.read()).config) == 1
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK


async def test_it_is_closed_to_all_but_administrators() -> None:
    asked: list[Caller] = []

    def no_client(caller: Caller) -> bool:
        asked.append(caller)
        return False

    async with serving(no_client) as (_, _, stub):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.FetchClientStatus(request())
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        # A stream is refused before its first request, so the client may find it closed while it sends one.
        assert await asyncio.wait_for(stub.StreamClientStatus().code(), SECONDS) is grpc.StatusCode.PERMISSION_DENIED
    assert [caller.peer.startswith("ipv4:127.0.0.1:") for caller in asked] == [True, True]
    assert dict(asked[0].metadata)["user-agent"].startswith("grpc-python")


async def test_secrets_are_named_and_not_shown() -> None:
    async with serving() as (server, port, stub), Client(port, "delta") as client:
        server.store.publish("web", world("clusters a=1-; secrets key=1"))
        await client.send(SECRET, "key")
        await client.read()
        config = await until(stub, {"key": "STALE"})
        (item,) = config.generic_xds_configs
        assert item.version_info
        assert not item.HasField("xds_config")


@BOTH
async def test_what_waits_for_something_else_is_not_sent_and_what_is_to_go_is_stale(variant: str) -> None:
    async with serving() as (server, port, stub), Client(port, variant) as client:
        await client.send(CLUSTER)
        clusters = await client.read()
        await client.send(LISTENER)
        server.store.publish("web", world("clusters a=1- b=1-; listeners l=1"))
        await client.send(CLUSTER, nonce=clusters.nonce, error="a is bad")
        # Nacked, and never there before; the listener waits for that to be mended.
        config = await until(stub, {"a": "ERROR", "b": "ERROR", "l": "NOT_SENT"})
        assert not any(item.version_info or item.HasField("xds_config") for item in config.generic_xds_configs)
        if variant == "delta":
            listeners = await client.read()  # an empty response: it has none yet
            await client.send(LISTENER, nonce=listeners.nonce)
        server.store.publish("web", world("clusters a=2-; listeners l=1"))
        await until(stub, {"a": "STALE", "l": "NOT_SENT"})


async def test_what_may_not_be_shown_is_not() -> None:
    async with (
        serving(shown=lambda body: body[:0] + b"-", shown_error=lambda error: error.replace("key", "...")) as (
            _,
            port,
            stub,
        ),
        Client(port, "delta") as client,
    ):
        await client.send(CLUSTER)
        first = await client.read()
        config = await until(stub, {"a": "STALE", "b": "STALE"})
        assert [item.xds_config.value for item in config.generic_xds_configs] == [b"-", b"-"]
        await client.send(CLUSTER, nonce=first.nonce, error="bad key")
        config = await until(stub, {"a": "ERROR", "b": "ERROR"})
        assert [item.error_state.details for item in config.generic_xds_configs] == ["bad ...", "bad ..."]


async def test_the_size_of_a_response_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csds, "MAX_BYTES", 10)
    async with serving() as (_, port, stub), Client(port, "delta") as client:
        await client.send(CLUSTER)
        await client.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.FetchClientStatus(request())
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
