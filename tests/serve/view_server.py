"""The HTTP endpoints of a server with a view whose content a test can change."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import aiohttp

from admc.serve.auth.tls import TlsCounts
from admc.serve.observe import http
from admc.serve.observe.metrics import Gauges, MetricSources
from admc.serve.observe.problems import Counts
from admc.serve.observe.status import Status
from tests.serve.test_status import client
from tests.serve.test_status import serving as status_of
from xds_server.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Bed:
    """A view whose content can be changed, and its server."""

    def __init__(self) -> None:
        self.status: Status = status_of(client("search", "s-1"))
        self.now = Gauges(
            ready=True, version="0.1.0", adms=2, adms_without_clients=1, clients_out_of_sync=1, problem=True
        )
        self.made = 0
        self.xds = Metrics()
        self.counts = Counts()
        self.tls = TlsCounts(expires=5.0)
        self.port = 0
        self.is_prepared = False

    def look(self) -> Gauges:
        self.made += 1
        return self.now

    def view(self) -> http.View:
        sources = MetricSources(self.xds, self.counts, self.look, self.tls)
        return http.View(lambda: self.status, lambda: self.status.server, sources, is_prepared=lambda: self.is_prepared)

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{self.port}{path}") as response,
        ):
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Bed]:
    bed = Bed()
    server = await http.serve(bed.view(), "127.0.0.1", 0)
    bed.port = server.address[1]
    try:
        yield bed
    finally:
        await server.stop()
