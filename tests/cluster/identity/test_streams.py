"""Streams of proxies with tokens of pods, over TLS: who they are, and when they end."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest

from admc.serve.auth.tls import CertificateFiles, Certificates
from tests.cluster.identity.cluster import RATE, Cluster, cluster, token
from tests.cluster.objects import pod
from tests.serve.test_identity_streams import bearing, credentials, first_names
from tests.serve.test_tls import files
from tests.xds_server.client import Client
from tests.xds_server.transcript import world
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@contextlib.asynccontextmanager
async def serving(folder: Path, made: Cluster) -> AsyncIterator[tuple[XdsServer, int]]:
    store = SnapshotCache()
    for name in ("search", "rate"):
        store.publish(name, world(f"clusters of-{name}=1-"))
    server = XdsServer(store, made.identifier.identify)
    port = await server.start("127.0.0.1:0", Certificates(CertificateFiles(files(folder, mutual=False))).credentials)
    following = asyncio.create_task(recheck(server, made))
    try:
        yield server, port
    finally:
        following.cancel()
        await server.stop(0.1)


async def recheck(server: XdsServer, made: Cluster) -> None:
    """As `admc serve` does it."""
    while True:
        server.recheck_identities(await made.source.changed())


def proxy(port: int, bearer: str) -> Client:
    """It claims to be another pod, of another service."""
    return Client(port, "delta", "search", id="search-7", credentials=credentials(), metadata=bearing(bearer))


async def ended(client: Client) -> grpc.StatusCode:
    code: grpc.StatusCode = (await asyncio.wait_for(client.status(), 20))[0]
    return code


async def test_node_and_service_are_those_of_the_token(tmp_path: Path) -> None:
    made = await cluster()
    async with serving(tmp_path, made) as (server, port), proxy(port, token()) as client:
        assert await first_names(client) == ["of-rate"]
        (status,) = server.clients()
        assert (status.node.id, status.node.cluster, status.identity) == ("rate-1", "rate", "pod shop/rate-1")
        assert status.node.user_agent
        (view,) = server.registry.of("rate")
        assert view.node.id == "rate-1"


async def test_the_stream_ends_with_the_pod_and_others_stay(tmp_path: Path) -> None:
    made = await cluster()
    other = pod("rate-2", account="shared")
    made.pod(None, other)
    async with (
        serving(tmp_path, made) as (server, port),
        proxy(port, token()) as client,
        proxy(port, token("rate-2")) as stays,
    ):
        assert await first_names(client) == await first_names(stays) == ["of-rate"]
        # Until it is gone, a pod that terminates has its stream.
        ending = replace(RATE, is_terminating=True)
        made.pod(RATE, ending)
        await asyncio.sleep(0.5)
        assert len(server.clients()) == 2
        made.pod(ending, None)
        assert await ended(client) is grpc.StatusCode.PERMISSION_DENIED
        assert [each.node.id for each in server.clients()] == ["rate-2"]
        # Its token is valid for an hour, and worth nothing.
        async with proxy(port, token()) as again:
            await again.send(CLUSTER)
            assert await ended(again) is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("labels", [{"app": "other"}, {"app": "search"}])
async def test_the_stream_ends_where_another_service_selects_the_pod(labels: dict[str, str], tmp_path: Path) -> None:
    made = await cluster()
    async with serving(tmp_path, made) as (_, port), proxy(port, token()) as client:
        assert await first_names(client) == ["of-rate"]
        made.pod(RATE, replace(RATE, labels=labels))
        assert await ended(client) is grpc.StatusCode.PERMISSION_DENIED


async def test_the_stream_ends_where_a_service_of_its_own_is_gone(tmp_path: Path) -> None:
    made = await cluster()
    async with serving(tmp_path, made) as (_, port), proxy(port, token()) as client:
        assert await first_names(client) == ["of-rate"]
        made.shown.service_is_gone("rate")
        made.programs.advance()
        assert await ended(client) is grpc.StatusCode.PERMISSION_DENIED


async def test_a_pod_that_is_not_known_yet_is_not_refused_for_good(tmp_path: Path) -> None:
    made = await cluster()
    async with serving(tmp_path, made) as (server, port):
        async with proxy(port, token("rate-9")) as early:
            await early.send(CLUSTER)
            assert await ended(early) is grpc.StatusCode.UNAVAILABLE
        assert server.metrics.denials["not_yet"] == 1
        made.pod(None, pod("rate-9", account="shared"))
        async with proxy(port, token("rate-9")) as again:
            assert await first_names(again) == ["of-rate"]
