"""A read that is in hand when its stream ends is left to end with the call: gRPC never frees one that is cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.xds_server.client import SECONDS, Client
from tests.xds_server.test_server import serving
from tests.xds_server.transcript import world
from xds_server.limits.limits import Limits
from xds_server.resources.types import CLUSTER
from xds_server.transport.connection import Connection

if TYPE_CHECKING:
    from xds_server.transport.server import XdsServer
    from xds_server.transport.variants import Variant


class Reads:
    """How the reads of all streams began and ended."""

    def __init__(self) -> None:
        self.open = 0
        self.ended: list[str] = []

    async def at_rest(self) -> None:
        async with asyncio.timeout(SECONDS):
            while self.open:
                await asyncio.sleep(0.01)


class _Context:
    """What gRPC gives to a stream, with its reads watched."""

    def __init__(self, context: Any, reads: Reads) -> None:
        self._context = context
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        self._reads.open += 1
        how = "cancelled"
        try:
            found = await self._context.read()
            how = "read"
        except Exception:
            how = "failed"
            raise
        finally:
            self._reads.open -= 1
            self._reads.ended.append(how)
        return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found = Reads()

    class Watched(Connection):
        def __init__(self, server: XdsServer, context: Any, variant: Variant) -> None:
            super().__init__(server, _Context(context, found), variant)

    monkeypatch.setattr("xds_server.transport.server.Connection", Watched)
    return found


@pytest.mark.parametrize("variant", ["sotw", "delta"])
@pytest.mark.parametrize("ends", ["cancelled", "half closed", "by age", "refused", "silent", "drained"])
async def test_no_read_is_cancelled(variant: str, ends: str, reads: Reads) -> None:
    limits = Limits(
        age_seconds=0.2 if ends == "by age" else 60.0,
        age_grace_seconds=0.1,
        first_request_seconds=0.2 if ends == "silent" else 10.0,
    )
    async with serving(world("clusters a=1-"), limits) as (server, port):
        async with Client(port, variant) as client:
            if ends != "silent":
                await client.send("" if ends == "refused" else CLUSTER)
            if ends not in ("refused", "silent"):
                assert (await client.read()).resources
            if ends == "cancelled":
                client.call.cancel()
            elif ends == "half closed":
                await client.call.done_writing()
            elif ends == "drained":
                await server.stop(0.1)
            if ends != "cancelled":
                await client.status()
            async with asyncio.timeout(SECONDS):
                while server.metrics.connected:
                    await asyncio.sleep(0.01)
            await reads.at_rest()
        assert reads.ended
        assert "cancelled" not in reads.ended
