"""Connections that never become streams: they are few, they end, and they do not keep out other clients for long."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.serve.pki import Authority
from tests.xds_server.client import SECONDS, Client, names
from tests.xds_server.transcript import world
from xds_server.limits.limits import Limits
from xds_server.limits.unauthenticated import address_of
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What opens HTTP/2, with empty settings."""
AUTHORITY = Authority()
PAIR = AUTHORITY.issue(dns=("localhost",))


@asynccontextmanager
async def serving(limits: Limits, *, tls: bool) -> AsyncIterator[int]:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, lambda caller: caller.node.cluster or None, limits)
    credentials = grpc.ssl_server_credentials([(PAIR.key, PAIR.certificate)]) if tls else None
    port = await server.start("127.0.0.1:0", credentials)
    try:
        yield port
    finally:
        await server.stop(0.1)


def client(port: int, *, tls: bool) -> Client:
    credentials = grpc.ssl_channel_credentials(AUTHORITY.certificate) if tls else None
    return Client(port, "delta", credentials=credentials)


async def works(port: int, *, tls: bool) -> bool:
    """Whether a good client is served."""
    async with client(port, tls=tls) as good:
        try:
            await good.send(CLUSTER)
            return names(await good.read()) == ["a"]
        except (grpc.aio.AioRpcError, AttributeError):
            return False


async def until_works(port: int, *, tls: bool) -> None:
    async with asyncio.timeout(SECONDS):
        while not await works(port, tls=tls):
            await asyncio.sleep(0.1)


async def silent(
    stack: contextlib.AsyncExitStack, port: int, number: int, say: bytes = b"", come_from: str = "127.0.0.1"
) -> list[asyncio.StreamReader]:
    found = []
    for _ in range(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(come_from, 0))
        stack.callback(writer.close)
        if say:
            with contextlib.suppress(ConnectionError):
                writer.write(say)
        found.append(reader)
    return found


async def ended(reader: asyncio.StreamReader, seconds: float = 2 * SECONDS) -> bool:
    """Whether the server ends the connection in time, after whatever it says before."""
    try:
        async with asyncio.timeout(seconds):
            while await reader.read(4096):
                pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("say", [b"", b"\x16\x03\x01", b"PRI * HTT"])
async def test_a_handshake_that_does_not_end_is_ended_and_others_are_served_meanwhile(tls: bool, say: bytes) -> None:
    limits = Limits(handshake_seconds=1.0)
    async with serving(limits, tls=tls) as port, contextlib.AsyncExitStack() as stack:
        readers = await silent(stack, port, 50, say)
        began = time.monotonic()
        if not await works(port, tls=tls):
            # On a slow machine its own handshake may take too long.
            assert time.monotonic() - began >= limits.handshake_seconds
            await until_works(port, tls=tls)
        assert all(await asyncio.gather(*(ended(reader) for reader in readers)))


@pytest.mark.parametrize("tls", [False, True])
async def test_silent_connections_take_no_more_file_handles_than_allowed(tls: bool) -> None:
    limit, many = 20, 120
    async with serving(Limits(handshake_seconds=10 * SECONDS, connections=limit), tls=tls) as port:
        before = open_files()
        async with contextlib.AsyncExitStack() as stack:
            readers = await silent(stack, port, many)
            ends = [asyncio.create_task(ended(reader)) for reader in readers]
            # Long before a handshake has to be over, all but the allowed ones are ended.
            async with asyncio.timeout(SECONDS):
                while sum(end.done() for end in ends) < many - limit:
                    await asyncio.sleep(0.01)
            # Each of ours is one handle; what the server takes besides is bounded.
            assert open_files() - before - many <= limit
            assert not all(end.done() for end in ends)
            for end in ends:
                end.cancel()
        await until_works(port, tls=tls)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("say", [b"", PREFACE])
async def test_one_address_does_not_keep_out_others(tls: bool, say: bytes) -> None:
    """An address that takes all connections loses most of them at once, and admitted clients lose none."""
    limits = Limits(handshake_seconds=10 * SECONDS, connections=60, streams_per_peer=20)
    async with (
        serving(limits, tls=tls) as port,
        client(port, tls=tls) as here,
        contextlib.AsyncExitStack() as stack,
    ):
        await here.send(CLUSTER)
        first = await here.read()
        readers = await silent(stack, port, 200, say, "127.0.0.2")
        ends = [asyncio.create_task(ended(reader)) for reader in readers]
        await until_works(port, tls=tls)
        # So few that there is room for others, and not none: some of them may be honest.
        async with asyncio.timeout(SECONDS):
            while sum(not end.done() for end in ends) > 20:
                await asyncio.sleep(0.05)
        await here.send(CLUSTER, nonce=first.nonce)
        await here.send(CLUSTER, "a")
        assert names(await here.read()) == ["a"]
        for end in ends:
            end.cancel()


async def test_clients_that_were_let_in_are_no_crowd() -> None:
    limits = Limits(connections=60, streams_per_peer=20)
    async with serving(limits, tls=False) as port, contextlib.AsyncExitStack() as stack:
        good = [await stack.enter_async_context(client(port, tls=False)) for _ in range(15)]
        for each in good:
            await each.send(CLUSTER)
            await each.read()
        ends = [asyncio.create_task(ended(reader)) for reader in await silent(stack, port, 40)]
        async with asyncio.timeout(SECONDS):
            while sum(not end.done() for end in ends) > 20:
                await asyncio.sleep(0.05)
        for each in good:
            await each.send(CLUSTER, "a")
            assert names(await each.read()) == ["a"]
        for end in ends:
            end.cancel()


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:4711", ("10.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:[fd00::2]:1", ("fd00::2", 1)),
        ("unix:", ("", 0)),
    ],
)
def test_addresses_are_read_as_grpc_writes_them(peer: str, address: tuple[str, int]) -> None:
    assert address_of(peer) == address


async def test_a_connection_without_a_stream_ends() -> None:
    async with (
        serving(Limits(idle_seconds=1.0), tls=False) as port,
        contextlib.AsyncExitStack() as stack,
    ):
        (reader,) = await silent(stack, port, 1, PREFACE)
        assert await ended(reader)


@pytest.mark.long
async def test_a_connection_with_a_stream_is_not_idle() -> None:
    async with serving(Limits(idle_seconds=0.5), tls=False) as port, client(port, tls=False) as good:
        await good.send(CLUSTER)
        first = await good.read()
        await good.send(CLUSTER, nonce=first.nonce)
        assert await good.nothing_comes(2.0)
        await good.send(CLUSTER, "a")
        assert names(await good.late()) == ["a"]
