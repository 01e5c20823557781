"""Authentication over real TLS: the certificate or token decides the service of a client, and ends its stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc

import dsl
from admc.serve.auth.identity import Identities, Proof, Settings, load
from admc.serve.auth.tls import CertificateFiles, Certificates
from tests.serve.pki import Pair
from tests.serve.test_identity import PROGRAM, RSA, jwk, signed, written
from tests.serve.test_tls import CLIENTS, SERVER, files
from tests.xds_server.client import Client, names
from tests.xds_server.transcript import world
from xds_server import csds
from xds_server.limits.limits import Limits
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from xds_server.transport.client import Admission, Caller

SEARCH = "spiffe://cluster.local/ns/shop/sa/search"
GEO = "spiffe://cluster.local/ns/shop/sa/geo"


LASTS = (2.0, 10.0, 40.0)
"""Seconds for which a proof holds. On a busy machine the first one may be over before the server sees it."""


async def first_names(client: Client) -> list[str]:
    """The names in its first response; none where the stream has ended before."""
    try:
        await client.send(CLUSTER)
        return names(await client.read())
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return []


class Door:
    """Identities that can be replaced while the server runs."""

    def __init__(self, identities: Identities) -> None:
        self.identities = identities

    def identify(self, caller: Caller) -> Admission:
        return self.identities.identify(caller)

    def may_administer(self, caller: Caller) -> bool:
        return self.identities.may_administer(caller)


@contextlib.asynccontextmanager
async def serving(
    folder: Path, settings: Settings, limits: Limits | None = None
) -> AsyncIterator[tuple[XdsServer, int, Door]]:
    store = SnapshotCache()
    for service in ("search", "geo", "web"):
        store.publish(service, world(f"clusters of-{service}=1-"))
    door = Door(load(settings, dsl.load_text(PROGRAM)))
    server = XdsServer(store, door.identify, limits)
    certificates = Certificates(CertificateFiles(files(folder, mutual=settings.proof is Proof.CERTIFICATE)))
    services = [lambda it: csds.add(it, server, door.may_administer)]
    port = await server.start("127.0.0.1:0", certificates.credentials, services)
    try:
        yield server, port, door
    finally:
        await server.stop(0.1)


def credentials(pair: Pair | None = None) -> Any:
    return grpc.ssl_channel_credentials(SERVER.certificate, *((pair.key, pair.certificate) if pair else ()))


def certified(*uris: str, **options: Any) -> Any:
    return credentials(CLIENTS.issue(*uris, **options))


MUTUAL = Settings(Proof.CERTIFICATE, admins=("spiffe://cluster.local/ns/ops/sa/admin",))


@pytest.mark.parametrize("variant", ["sotw", "delta"])
async def test_a_node_gets_what_its_certificate_says_whatever_it_claims(variant: str, tmp_path: Path) -> None:
    async with (
        serving(tmp_path, MUTUAL) as (server, port, _),
        Client(port, variant, "geo", id="geo-1", credentials=certified(SEARCH)) as client,
    ):
        await client.send(CLUSTER)
        answer = await client.read()
        clusters = [item.name if variant == "delta" else item.value.decode() for item in answer.resources]
        assert len(clusters) == 1
        assert "of-search" in clusters[0]
        (status,) = server.clients()
        assert (status.group, status.identity) == ("search", SEARCH)


@pytest.mark.parametrize("uris", [(), (SEARCH, GEO), ("spiffe://cluster.local/ns/shop/sa/stranger",)])
async def test_a_certificate_that_is_no_service_gets_nothing(uris: tuple[str, ...], tmp_path: Path) -> None:
    async with (
        serving(tmp_path, MUTUAL) as (server, port, _),
        Client(port, "delta", "search", credentials=certified(*uris)) as client,
    ):
        await client.send(CLUSTER)
        code, said = await client.status()
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert said == "this client has no configuration here"
        assert sum(server.metrics.denials.values()) == 1


async def test_a_stream_ends_with_its_certificate(tmp_path: Path) -> None:
    async with serving(tmp_path, MUTUAL) as (server, port, _):
        for seconds in LASTS:
            async with Client(port, "delta", credentials=certified(SEARCH, seconds=seconds)) as client:
                found = await first_names(client)  # and no answer: expiry waits for nothing
                status = await client.status()
            if found:
                break
        assert found == ["of-search"]
        assert status == (grpc.StatusCode.UNAUTHENTICATED, "the proof has expired")
        assert not server.clients()


async def test_a_change_of_identity_ends_only_the_streams_of_that_client(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, MUTUAL) as (server, port, door),
        Client(port, "delta", credentials=certified(SEARCH)) as search,
        Client(port, "delta", credentials=certified(GEO)) as geo,
    ):
        for client in (search, geo):
            await client.send(CLUSTER)
            await client.read()
        path = tmp_path / "identities.json"
        path.write_text(json.dumps({"services": {"web": [SEARCH], "geo": [GEO]}}))
        door.identities = load(Settings(Proof.CERTIFICATE, identities=path), dsl.load_text(PROGRAM))
        assert server.recheck_identities() == 1
        assert (await search.status())[0] is grpc.StatusCode.PERMISSION_DENIED
        assert [client.group for client in server.clients()] == ["geo"]
        assert not geo.call.done()


async def test_one_identity_cannot_take_all_streams(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, MUTUAL, Limits(streams_per_identity=2)) as (_, port, _),
        contextlib.AsyncExitStack() as stack,
    ):
        search, geo = certified(SEARCH), certified(GEO)
        for _ in range(2):
            client = await stack.enter_async_context(Client(port, "delta", credentials=search))
            await client.send(CLUSTER)
            await client.read()
        third = await stack.enter_async_context(Client(port, "delta", credentials=search))
        await third.send(CLUSTER)
        assert (await third.status())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        other = await stack.enter_async_context(Client(port, "delta", credentials=geo))
        await other.send(CLUSTER)
        assert names(await other.read()) == ["of-geo"]


async def test_only_administrators_see_what_others_have(tmp_path: Path) -> None:
    async with serving(tmp_path, MUTUAL) as (_, port, _):
        for uri, code in ((SEARCH, grpc.StatusCode.PERMISSION_DENIED), (MUTUAL.admins[0], None)):
            options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
            async with grpc.aio.secure_channel(f"127.0.0.1:{port}", certified(uri), options) as channel:
                call = csds_pb2_grpc.ClientStatusDiscoveryServiceStub(channel).FetchClientStatus(
                    csds_pb2.ClientStatusRequest()
                )
                if code is None:
                    assert not (await call).config
                else:
                    assert await call.code() is code


# ---- tokens ----


def by_token(folder: Path) -> Settings:
    keys = written(folder, jwk(RSA.public_key(), kid="one"))
    return Settings(Proof.TOKEN, token_keys=keys, token_audience="admc")  # noqa: S106


def bearing(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


@pytest.mark.long
async def test_a_node_gets_what_its_token_says_and_as_long_as_it_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, by_token(tmp_path)) as (server, port, _):
        for seconds in LASTS:
            token = signed(exp=time.time() + seconds)
            async with Client(port, "delta", "geo", credentials=credentials(), metadata=bearing(token)) as client:
                found = await first_names(client)
                identities = [each.identity for each in server.clients()]
                assert (await client.status())[0] is grpc.StatusCode.UNAUTHENTICATED
            if found and identities:
                break
        assert found == ["of-search"]
        assert identities == ["system:serviceaccount:shop:search"]
        bad = signed(sub="system:serviceaccount:shop:stranger")
        async with Client(port, "delta", "geo", credentials=credentials(), metadata=bearing(bad)) as client:
            await client.send(CLUSTER)
            assert (await client.status())[0] is grpc.StatusCode.PERMISSION_DENIED
        assert token not in caplog.text
        assert bad not in caplog.text


async def test_a_token_that_is_too_long_is_refused_by_the_transport_or_the_server(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, by_token(tmp_path)) as (server, port, _),
        Client(port, "delta", credentials=credentials(), metadata=bearing("x" * 100_000)) as client,
    ):
        code, _ = await client.status()
        assert code in {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.PERMISSION_DENIED}
        assert not server.clients()
