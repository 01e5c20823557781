"""Health checking over real gRPC: who asks and who watches hears whether clients are served."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.xds_server.client import SECONDS
from xds_server.health import Health
from xds_server.resources.cache import SnapshotCache
from xds_server.transport.server import SERVICE, XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STATUS: Any = health_pb2.HealthCheckResponse


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[Health, Any]]:
    health = Health()
    server = XdsServer(SnapshotCache(), lambda _: None)
    port = await server.start("127.0.0.1:0", services=[health.add])
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield health, health_pb2_grpc.HealthStub(channel)
    finally:
        await server.stop(0.1)


def asked(service: str) -> Any:
    return health_pb2.HealthCheckRequest(service=service)


@pytest.mark.parametrize("service", ["", SERVICE])
async def test_a_check_says_whether_clients_are_served(service: str) -> None:
    async with serving() as (health, stub):
        assert (await stub.Check(asked(service))).status == STATUS.NOT_SERVING
        health.set(serving=True)
        assert (await stub.Check(asked(service))).status == STATUS.SERVING
        health.set(serving=False)
        assert (await stub.Check(asked(service))).status == STATUS.NOT_SERVING


async def test_other_services_are_not_known() -> None:
    async with serving() as (_, stub):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(asked("no.such.Service"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert (await stub.Watch(asked("no.such.Service")).read()).status == STATUS.SERVICE_UNKNOWN


async def test_watchers_hear_each_change_also_when_another_one_leaves() -> None:
    async with serving() as (health, stub):
        one, other = stub.Watch(asked("")), stub.Watch(asked(""))
        for watcher in (one, other):
            assert (await asyncio.wait_for(watcher.read(), SECONDS)).status == STATUS.NOT_SERVING
        one.cancel()
        health.set(serving=True)
        assert (await asyncio.wait_for(other.read(), SECONDS)).status == STATUS.SERVING
        health.set(serving=False)
        assert (await asyncio.wait_for(other.read(), SECONDS)).status == STATUS.NOT_SERVING
        other.cancel()
