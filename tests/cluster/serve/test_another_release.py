"""A replica of another release takes over: nothing is removed from a proxy that its connections may use."""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import grpc

from tests.cluster.serve.installation import PROGRAM
from tests.serve.test_identity_streams import bearing
from tests.serve.traffic.other_release import other_release
from tests.testbed.ports import free_port
from tests.xds_server.client import Client
from xds_server.resources.snapshot import Resource
from xds_server.resources.types import CLUSTER, EXTENSION, LISTENER, ORDER, ROUTES, TRIAL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.serve.installation import Installation

REST_SECONDS = 3.0
"""A server that has sent nothing for so long has nothing to send."""


class Proxy:
    """A delta client that subscribes to what its listeners and clusters refer to, and to what older ones do, as Envoy
    does while their connections are open."""

    def __init__(self) -> None:
        self.held: defaultdict[str, dict[str, Resource]] = defaultdict(dict)
        self.named: defaultdict[str, set[str]] = defaultdict(set)
        self.removed: list[tuple[str, str]] = []
        self._reading: asyncio.Task[Any] | None = None
        """The read that goes on: to cancel it would end the stream."""

    def used(self, type_url: str) -> set[str]:
        """The names to which its present listeners refer."""
        listeners = self.held[LISTENER].values()
        return {item.name for each in listeners for item in each.references if item.type_url == type_url}

    async def begin(self, client: Client) -> None:
        """Send the first requests of a stream, with what it has from earlier ones."""
        self._reading = None
        for type_url in (CLUSTER, LISTENER, *(kind for kind in ORDER if self.named[kind])):
            versions = {name: item.version for name, item in self.held[type_url].items()}
            await client.send(type_url, *sorted(self.named[type_url]), has=versions)

    async def follow(self, client: Client) -> None:
        """Acknowledge responses until no more come."""
        while True:
            self._reading = self._reading or asyncio.ensure_future(client.call.read())
            done, _ = await asyncio.wait({self._reading}, timeout=REST_SECONDS)
            if not done:
                return
            response, self._reading = self._reading.result(), None
            assert response is not grpc.aio.EOF, await client.status()
            await self._take(client, response)

    async def _take(self, client: Client, response: Any) -> None:
        kind, held = response.type_url, self.held[response.type_url]
        for item in response.resources:
            held[item.name] = Resource.parse(kind, item.resource.value)
        for name in response.removed_resources:
            held.pop(name, None)
            self.removed.append((kind, name))
        await client.send(kind, nonce=response.nonce)
        references = {reference for item in held.values() for reference in item.references}
        for type_url in ORDER:
            new = {item.name for item in references if item.type_url == type_url} - self.named[type_url]
            if new and type_url not in (CLUSTER, LISTENER):
                self.named[type_url] |= new
                await client.send(type_url, *sorted(new))


async def test_nothing_is_removed_that_older_connections_use(shop: Installation, tmp_path: Path) -> None:
    proxy = Proxy()
    bearer = bearing(shop.token("web-1"))
    credentials = grpc.ssl_channel_credentials(shop.authority.certificate)

    def client(port: int) -> Client:
        return Client(port, "delta", "web", id="web-1", credentials=credentials, metadata=bearer)

    with shop.server(checkout=other_release(tmp_path)) as earlier:
        shop.program(PROGRAM.replace("SIDE", "egress"))
        await asyncio.to_thread(shop.until, lambda: shop.condition("Programmed")[1] == "NotInSync")
        async with client(shop.port) as stream:
            await proxy.begin(stream)
            await proxy.follow(stream)
        older = {kind: proxy.used(kind) - {TRIAL} for kind in (ROUTES, EXTENSION)}
        clusters = set(proxy.held[CLUSTER])
        assert all(older.values())
        await asyncio.to_thread(shop.until, lambda: shop.condition("Programmed")[1] == "NotInSync")
        port = free_port()
        with shop.server(port=port, stands_by=True) as standby:
            await asyncio.to_thread(standby.until_event, "kept_state_ready")
            earlier.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(standby.until_event, "compiled")
            async with client(port) as stream:
                await proxy.begin(stream)
                await proxy.follow(stream)
                for kind, names in older.items():
                    assert names.isdisjoint(proxy.used(kind)), "the releases give these the same names"
                assert proxy.removed == []
                # The drain time is over.
                for kind, names in older.items():
                    await stream.send(kind, ends=sorted(names))
                await proxy.follow(stream)
            gone = {name for kind, name in proxy.removed if kind == CLUSTER}
            assert gone
            assert gone < clusters
