"""What a client may bring about without end: a few lines, a count, and no more memory than there is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.xds_server.client import SECONDS, Client
from tests.xds_server.transcript import world
from xds_server.limits.repeated_warnings import LOGGED, OTHERS, SORTS, RepeatedWarnings
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.types import CLUSTER
from xds_server.transport.client import Admission, DeniedError
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from xds_server.transport.client import Caller


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.getMessage() == event]


async def test_the_rest_is_counted_and_then_it_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    repeats = RepeatedWarnings(seconds=0.05)
    for number in range(10):
        repeats.warn("denied", "ipv4:10.0.0.1", "unknown", {"node": f"n-{number}"})
    repeats.warn("denied", "ipv4:10.0.0.1", "expired", {"node": "other"})
    repeats.warn("denied", "ipv4:10.0.0.2", "unknown", {"node": "elsewhere"})
    assert [line["node"] for line in lines(caplog, "denied")] == ["n-0", "n-1", "n-2", "other", "elsewhere"]
    assert lines(caplog, "left_out") == []
    async with asyncio.timeout(SECONDS):
        while not lines(caplog, "left_out"):
            await asyncio.sleep(0.01)
    (line,) = lines(caplog, "left_out")
    assert (line["of"], line["peer"], line["reason"], line["lines"]) == ("denied", "ipv4:10.0.0.1", "unknown", 7)
    repeats.warn("denied", "ipv4:10.0.0.1", "unknown", {"node": "again"})
    assert lines(caplog, "denied")[-1]["node"] == "again"
    repeats.close()
    assert len(lines(caplog, "left_out")) == 1


async def test_any_number_of_addresses_takes_no_more_than_so_many_lines(caplog: pytest.LogCaptureFixture) -> None:
    repeats = RepeatedWarnings()
    for number in range(5000):
        repeats.warn("denied", f"ipv4:10.0.{number // 256}.{number % 256}", "unknown", {"node": str(number)})
    assert len(lines(caplog, "denied")) == SORTS + LOGGED
    repeats.close()
    (line,) = lines(caplog, "left_out")
    assert (line["peer"], line["lines"]) == (OTHERS, 5000 - SORTS - LOGGED)


def identify(caller: Caller) -> Admission:
    if caller.node.cluster == "stranger":
        raise DeniedError("unmapped", "no service is `stranger`")
    return Admission("web", "spiffe://cluster.local/ns/shop/sa/web")


async def test_denied_clients_and_claims_of_another_service_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    store = SnapshotCache()
    store.publish("web", world("clusters a=1-"))
    server = XdsServer(store, identify)
    port = await server.start("127.0.0.1:0")
    for cluster in (*["stranger"] * 20, "web", "cart"):
        async with Client(port, "sotw", cluster, id="n-1") as client:
            await client.send(CLUSTER)
            if cluster == "stranger":
                assert (await client.status())[0] is grpc.StatusCode.PERMISSION_DENIED
                continue
            await client.read()
            await client.send(CLUSTER, "b")
    assert server.metrics.denials["unmapped"] == 20
    await server.stop(0.2)
    denied = lines(caplog, "denied")
    assert len(denied) == LOGGED
    found = {key: denied[0][key] for key in ("node", "claimed", "reason", "why")}
    assert found == {"node": "n-1", "claimed": "stranger", "reason": "unmapped", "why": "no service is `stranger`"}
    assert denied[0]["peer"].startswith("ipv4:127.0.0.1:")
    (left_out,) = lines(caplog, "left_out")
    assert (left_out["of"], left_out["reason"], left_out["lines"]) == ("denied", "unmapped", 20 - LOGGED)
    (claim,) = lines(caplog, "claims_another")
    assert (claim["node"], claim["claimed"], claim["service"]) == ("n-1", "cart", "web")
    assert claim["identity"].endswith("/web")
