"""Requests that take long are followed by a pause, so that their sender does not hold up other clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.xds_server.client import Client
from tests.xds_server.test_server import BOTH, serving
from tests.xds_server.transcript import world
from xds_server.resources.types import CLUSTER, ENDPOINTS
from xds_server.transport.connection import LARGE, MANY

if TYPE_CHECKING:
    import pytest

    from xds_server.transport.server import XdsServer


def _pauses(server: XdsServer, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """After how long a request each began."""
    found: list[float] = []
    pause = server.pause_after_heavy_request

    async def watched(took: float) -> None:
        found.append(took)
        await pause(took)

    monkeypatch.setattr(server, "pause_after_heavy_request", watched)
    return found


@BOTH
async def test_a_large_request_is_followed_by_a_pause(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = [f"{number}".rjust(1000, "x") for number in range(LARGE // 1000 + 1)]
    async with serving(world("endpoints e=1")) as (server, port), Client(port, variant) as client:
        pauses = _pauses(server, monkeypatch)
        await client.send(ENDPOINTS, "e")
        nonce = (await client.read()).nonce
        assert not pauses
        await client.send(ENDPOINTS, *long, nonce=nonce)
        await client.read()
        assert len(pauses) == 1
        assert pauses[0] > 0.0


@BOTH
async def test_so_is_a_small_one_of_a_client_with_many_names(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To add one name to 20,000 takes 10 ms, and a request of 60 bytes."""
    many = [f"{number}" for number in range(MANY)]
    async with serving(world("endpoints e=1")) as (server, port), Client(port, variant) as client:
        pauses = _pauses(server, monkeypatch)
        await client.send(ENDPOINTS, *many)
        nonce = (await client.read()).nonce
        assert not pauses
        await client.send(ENDPOINTS, *(many if variant == "sotw" else []), "e", nonce=nonce)
        await client.read()
        assert len(pauses) == 1


async def test_so_is_a_small_one_of_a_client_that_says_it_has_many_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it says that it has 100,000 resources, an acknowledgement alone takes half a second."""
    async with serving(world("clusters a=1-")) as (server, port), Client(port, "delta") as client:
        pauses = _pauses(server, monkeypatch)
        await client.send(CLUSTER, has={f"{number}": "1" for number in range(MANY)})
        nonce = (await client.read()).nonce
        assert not pauses
        await client.send(CLUSTER, "x", nonce=nonce)
        await client.read()
        assert len(pauses) == 1
