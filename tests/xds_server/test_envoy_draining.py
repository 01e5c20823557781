"""A real Envoy keeps the subscriptions of a filter chain while it drains, and ends them afterwards."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.testbed.ports import free_port
from tests.xds_server.envoy_bed import (
    BOTH,
    NEEDS_ENVOY,
    SECONDS,
    Running,
    backend,
    cluster,
    clusters,
    endpoints,
    extension,
    listener,
    routes,
    running,
)
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import EXTENSION, ROUTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = [pytest.mark.long, NEEDS_ENVOY]
DRAIN_SECONDS = 4
OLD = {ROUTES: {"r-old"}, EXTENSION: {"tier-old"}}


class Draining:
    """An Envoy whose listener has just got another filter chain, and a connection to the old one."""

    def __init__(self, bed: Running, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.bed = bed
        self.began = 0.0
        self._reader = reader
        self._writer = writer

    async def ask_old(self) -> str:
        """Status and body of a request on the connection to the old filter chain."""
        self._writer.write(b"GET / HTTP/1.1\r\nhost: web\r\n\r\n")
        head = (await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), SECONDS)).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        body = await asyncio.wait_for(self._reader.readexactly(length), SECONDS)
        return f"{head.split()[1].decode()} {body.decode()}".strip()

    async def answers_old_until(self, end: float) -> set[str]:
        """All answers to requests on the connection to the old filter chain until a time."""
        seen = set()
        while time.monotonic() < end:
            seen.add(await self.ask_old())
            await asyncio.sleep(0.05)
        return seen

    async def close_old(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def unreferenced(self) -> list[dict[str, set[str]]]:
        """What each stream is subscribed to that the snapshot does not refer to."""
        views = self.bed.server.registry.views(["web"])
        return [{kind: set(names) for kind, names in each.unreferenced.items()} for each in views]

    async def until_chain_is_gone(self) -> float:
        """Seconds from the new snapshot until the subscriptions of the old filter chain have ended."""

        async def ended() -> bool:
            return self.unreferenced() == [{}]

        await self.bed.until(ended)
        return time.monotonic() - self.began


@asynccontextmanager
async def draining(variant: str, folder: Path, *, kept: bool = True) -> AsyncIterator[Draining]:
    """`kept`: whether the new snapshot still has what the old filter chain uses."""
    port = free_port()
    options = ["--drain-time-s", str(DRAIN_SECONDS)]
    async with backend("one") as one:
        common = [cluster("a"), endpoints("a", one)]
        old = [routes("r-old", "a"), extension("gold", "tier-old")]
        new = [routes("r-new", "a"), extension("plain", "tier-new"), listener(port, table="r-new", tier="tier-new")]
        first = [*common, *old, listener(port, table="r-old", tier="tier-old")]
        async with running(variant, folder, *first, port=port, options=options) as bed:
            found = Draining(bed, *await asyncio.open_connection("127.0.0.1", port))
            assert await found.ask_old() == "200 one x-tier: gold"
            assert found.unreferenced() == [{}]
            found.began = time.monotonic()
            bed.server.store.publish("web", Snapshot.of([*common, *new, *(old if kept else ())]))
            await bed.until(bed.complete)
            assert await bed.ask() == "200 one"
            try:
                yield found
            finally:
                await found.close_old()


@BOTH
async def test_subscriptions_of_a_draining_chain_last_until_the_drain_time_is_over(
    variant: str, tmp_path: Path
) -> None:
    async with draining(variant, tmp_path) as chain:
        assert chain.unreferenced() == [OLD]
        assert await chain.ask_old() == "200 one x-tier: gold"
        # What a draining chain uses may still change.
        current = chain.bed.server.store.current("web")
        assert current is not None
        others = [item for kind in current.collections.values() for item in kind.resources.values()]
        others = [item for item in others if item.name != "tier-old"]
        chain.bed.server.store.publish("web", Snapshot.of([*others, extension("plain", "tier-old")]))
        await chain.bed.until(chain.bed.complete)
        assert await chain.ask_old() == "200 one"
        assert chain.unreferenced() == [OLD]
        assert DRAIN_SECONDS - 1 < await chain.until_chain_is_gone() < DRAIN_SECONDS + 5


@BOTH
async def test_a_proxy_that_comes_back_repeats_the_subscriptions_of_a_draining_chain(
    variant: str, tmp_path: Path
) -> None:
    async with draining(variant, tmp_path) as chain:
        server = chain.bed.server
        (before,) = server.registry
        before.end("age", 1.0)

        async def back() -> bool:
            if before in set(server.registry) or not await chain.bed.complete():
                return False
            # As soon as it has acknowledged everything, and not some time later.
            assert chain.unreferenced() == [OLD]
            return True

        await chain.bed.until(back)
        assert await chain.ask_old() == "200 one x-tier: gold"
        # The end of the last connection does not shorten the drain.
        await chain.close_old()
        assert DRAIN_SECONDS - 1 < await chain.until_chain_is_gone() < DRAIN_SECONDS + 5


@BOTH
async def test_a_draining_chain_keeps_what_the_snapshot_does_not_have(variant: str, tmp_path: Path) -> None:
    async with draining(variant, tmp_path, kept=False) as chain:
        assert await chain.answers_old_until(time.monotonic() + DRAIN_SECONDS / 2) == {"200 one x-tier: gold"}
        assert chain.unreferenced() == [OLD]
        await chain.until_chain_is_gone()


async def test_a_server_that_gives_chains_other_names_takes_nothing_from_connections_that_are_open(
    tmp_path: Path,
) -> None:
    """The next server has another table, another extension and another cluster, and knows nothing of what the one
    before has sent."""
    port = free_port()
    options = ["--drain-time-s", str(DRAIN_SECONDS)]
    async with backend("one") as one, backend("two") as two:
        old = [cluster("a"), endpoints("a", one), routes("r-old", "a"), extension("gold", "tier-old")]
        new = [cluster("b"), endpoints("b", two), routes("r-new", "b"), extension("plain", "tier-new")]
        first = [*old, listener(port, table="r-old", tier="tier-old")]
        async with running("DELTA_GRPC", tmp_path, *first, port=port, options=options) as bed:
            chain = Draining(bed, *await asyncio.open_connection("127.0.0.1", port))
            assert await chain.ask_old() == "200 one x-tier: gold"
            await bed.replace_server(*new, listener(port, table="r-new", tier="tier-new"))
            await bed.until(bed.complete)
            assert await bed.ask() == "200 two"
            assert await chain.answers_old_until(time.monotonic() + DRAIN_SECONDS / 2) == {"200 one x-tier: gold"}
            assert chain.unreferenced() == [OLD]
            assert await clusters(bed) >= {"a", "b"}
            await chain.until_chain_is_gone()
            await chain.close_old()

            async def without_a() -> bool:
                return "a" not in await clusters(bed)

            await bed.until(without_a)
            assert await bed.ask() == "200 two"
