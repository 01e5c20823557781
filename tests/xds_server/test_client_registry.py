"""The registry's counts are those of a search through all streams, at every moment of a stream's life."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from tests.xds_server.client import SECONDS, Client
from tests.xds_server.test_server import serving
from tests.xds_server.transcript import world
from xds_server.protocol.type_state import MAX_UNREFERENCED
from xds_server.resources.types import CLUSTER, LISTENER, ROUTES

if TYPE_CHECKING:
    from xds_server.transport.server import XdsServer


def counted(server: XdsServer) -> tuple[int, int]:
    """The numbers of clients and of clients behind, compared with the whole status."""
    clients = server.clients()
    behind = [
        each
        for each in clients
        if not each.wanted or each.wanted != each.acknowledged or any(item.error for item in each.types)
    ]
    assert (len(server.registry), server.registry.behind) == (len(clients), len(behind))
    assert set(server.registry.groups) == {each.group for each in clients}
    seen = [(each.group, each.node.id, each.acknowledged) for each in server.registry.views(server.store.groups)]
    assert sorted(seen) == [(each.group, each.node.id, each.acknowledged) for each in clients]
    return len(clients), len(behind)


async def until(server: XdsServer, connected: int, behind: int) -> None:
    async with asyncio.timeout(SECONDS):
        while counted(server) != (connected, behind):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("variant", ["sotw", "delta"])
async def test_counts_follow_what_clients_do_and_what_is_published(variant: str) -> None:
    async with serving(world("clusters a=1-")) as (server, port), AsyncExitStack() as stack:
        server.store.publish("shop", world("clusters a=1-"))
        one = await stack.enter_async_context(Client(port, variant, id="one"))
        shop = await stack.enter_async_context(Client(port, variant, "shop", id="shop-1"))
        for client in (one, shop):
            await client.send(CLUSTER)
        first = await one.read()
        await shop.send(CLUSTER, nonce=(await shop.read()).nonce)
        await until(server, 2, 1)
        await one.send(CLUSTER, nonce=first.nonce)
        await until(server, 2, 0)

        server.store.publish("web", world("clusters a=2-"))
        assert counted(server) == (2, 1)
        await one.send(CLUSTER, nonce=(await one.read()).nonce, error="not this")
        await asyncio.sleep(0)
        await until(server, 2, 1)
        assert [(each.group, each.node.id) for each in server.registry.views(["web"])] == [("web", "one")]
        assert server.registry.views(["empty"]) == ()

        # The first snapshot comes back: the client has acknowledged its version.
        server.store.publish("web", world("clusters a=1-"))
        counted(server)
        server.store.publish("web", world("clusters a=3-"))
        third = await one.read()
        while third.resources and not _is(third, 3):
            await one.send(CLUSTER, nonce=third.nonce)
            third = await one.read()
        await one.send(CLUSTER, nonce=third.nonce)
        await until(server, 2, 0)

        two = await stack.enter_async_context(Client(port, variant, id="two"))
        await two.send(CLUSTER)
        await two.read()
        await until(server, 3, 1)
        two.call.cancel()
        await until(server, 2, 0)
        one.call.cancel()
        shop.call.cancel()
        await until(server, 0, 0)
        assert not server.registry.groups


def _is(response: object, content: int) -> bool:
    from envoy.config.cluster.v3 import cluster_pb2

    (item,) = response.resources  # type: ignore[attr-defined]
    found = cluster_pb2.Cluster()
    (item.resource if hasattr(item, "resource") else item).Unpack(found)
    return bool(found.connect_timeout.seconds == content)


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("between", ["clusters a=2-", "clusters a=1- b=1-"])
@pytest.mark.parametrize("variant", ["sotw", "delta"])
async def test_a_client_that_may_have_another_snapshot_has_not_acknowledged_the_one_it_returns_to(
    variant: str, between: str, refuses: bool
) -> None:
    async with serving(world("clusters a=1-")) as (server, port), Client(port, variant) as client:
        await client.send(CLUSTER)
        await client.send(CLUSTER, nonce=(await client.read()).nonce)
        await until(server, 1, 0)
        server.store.publish("web", world(between))
        other = await client.read()
        server.store.publish("web", world("clusters a=1-"))
        assert counted(server) == (1, 1)
        await client.send(CLUSTER, nonce=other.nonce, error="not this" if refuses else None)
        back = await client.read()
        assert counted(server) == (1, 1)
        await client.send(CLUSTER, nonce=back.nonce)
        await until(server, 1, 0)


@pytest.mark.parametrize("brought", [None, CLUSTER, LISTENER])
@pytest.mark.parametrize("variant", ["sotw", "delta"])
async def test_a_client_is_fresh_if_its_first_request_for_listeners_and_no_other_request_names_a_version(
    variant: str, brought: str | None
) -> None:
    async with serving(world("clusters a=1-; listeners l=1")) as (server, port), Client(port, variant) as client:

        async def fresh(type_url: str) -> bool:
            await client.send(type_url, has={"a": "some"} if type_url == brought else {})
            response = await client.read()
            await client.send(type_url, nonce=response.nonce)
            (seen,) = server.registry.views(["web"])
            return seen.fresh

        assert not await fresh(CLUSTER)
        assert await fresh(LISTENER) is (brought is None)


@pytest.mark.parametrize("variant", ["sotw", "delta"])
async def test_a_new_client_is_not_fresh_if_it_starts_from_an_earlier_snapshot(variant: str) -> None:
    """Its connections are made with that, and not with what is published. A correct snapshot does not change that."""
    async with serving(world("listeners l=1")) as (server, port):
        async with Client(port, variant) as client:
            await client.send(LISTENER)
            await client.send(LISTENER, nonce=(await client.read()).nonce)
            await until(server, 1, 0)
            server.store.publish("web", world("listeners l=2"))
            await client.send(LISTENER, nonce=(await client.read()).nonce, error="bad")
            async with asyncio.timeout(SECONDS):
                while not server.metrics.rejects[LISTENER]:
                    await asyncio.sleep(0.01)
        async with Client(port, variant, id="web-2") as late:
            await late.send(LISTENER)
            earlier = await late.read()
            assert [each.fresh for each in server.registry.views(["web"]) if each.node.id == "web-2"] == [False]
            server.store.publish("web", world("listeners l=3"))
            await late.send(LISTENER, nonce=earlier.nonce)
            await late.read()
            assert [each.fresh for each in server.registry.views(["web"]) if each.node.id == "web-2"] == [False]


def unreferenced(server: XdsServer) -> list[dict[str, frozenset[str]]]:
    return [dict(each.unreferenced) for each in server.registry.views(["web"])]


@pytest.mark.parametrize("variant", ["sotw", "delta"])
async def test_subscriptions_to_what_no_listener_uses_any_more_are_seen_until_they_end(variant: str) -> None:
    old = world("listeners l=1>r; routes r=1")
    new = world("listeners l=2>s; routes r=1 s=1")
    async with serving(old) as (server, port):
        async with Client(port, variant) as client:
            await client.send(LISTENER)
            await client.send(LISTENER, nonce=(await client.read()).nonce)
            await client.send(ROUTES, "r")
            routes = await client.read()
            await client.send(ROUTES, *(["r"] if variant == "sotw" else []), nonce=routes.nonce)
            await until(server, 1, 0)
            assert unreferenced(server) == [{}]

            # It does not matter whether the snapshot still has the table.
            server.store.publish("web", new)
            assert unreferenced(server) == [{ROUTES: frozenset({"r"})}]
            server.store.publish("web", world("listeners l=2>s; routes s=1"))
            assert unreferenced(server) == [{ROUTES: frozenset({"r"})}]
            server.store.publish("web", new)
            assert unreferenced(server) == [{ROUTES: frozenset({"r"})}]
        await until(server, 0, 0)
        assert unreferenced(server) == []

        # A client that comes back says so in its first request of the type.
        async with Client(port, variant) as client:
            await client.send(LISTENER, has={"l": "1"})
            await client.send(ROUTES, "r", "s", has={"r": "1"})
            await client.send(LISTENER, nonce=(await client.read()).nonce)
            assert [each.acknowledged for each in server.registry.views(["web"])] == [""]
            routes = await client.read()
            assert unreferenced(server) == [{ROUTES: frozenset({"r"})}]
            if variant == "sotw":
                await client.send(ROUTES, "s", nonce=routes.nonce)
            else:
                await client.send(ROUTES, nonce=routes.nonce, ends=["r"])
            async with asyncio.timeout(SECONDS):
                while unreferenced(server) != [{}]:
                    await asyncio.sleep(0.005)


@pytest.mark.parametrize("variant", ["sotw", "delta"])
async def test_of_names_that_a_client_made_up_a_view_holds_so_many_and_all_that_the_snapshot_has(variant: str) -> None:
    made_up = [f"a{number:05}" for number in range(MAX_UNREFERENCED + 500)]
    served = [f"z{number}" for number in range(3)]
    async with (
        serving(world("routes " + " ".join(f"{name}=1" for name in served))) as (server, port),
        Client(port, variant) as client,
    ):
        await client.send(ROUTES, *made_up, *served)
        await client.read()
        assert unreferenced(server) == [{ROUTES: frozenset(served + made_up[:MAX_UNREFERENCED])}]
        first, second = (server.registry.views(["web"])[0].unreferenced for _ in range(2))
        assert first[ROUTES] is second[ROUTES], "a poll computes nothing anew"
        changed = world("clusters a=1; endpoints a=2; routes " + " ".join(f"{name}=1" for name in served))
        server.store.publish("web", changed)
        (third,) = server.registry.views(["web"])
        assert first[ROUTES] is third.unreferenced[ROUTES], "nor after a change of endpoints alone"
