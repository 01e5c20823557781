"""A replica stands by beside the active one, and takes over."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import grpc

from admc.kubernetes.cluster.api.lease import DURATION_SECONDS
from admc.serve.app import GRACE_SECONDS
from tests.cluster.serve.installation import PROGRAM, SECONDS
from tests.serve.test_identity_streams import bearing
from tests.testbed.ports import free_port
from tests.xds_server.client import Client
from xds_server.resources.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.serve.installation import Installation
    from tests.serve.server_process import Served

AT_EGRESS = PROGRAM.replace("SIDE", "egress")
LONG = 4 * DURATION_SECONDS


@contextmanager
def active(shop: Installation) -> Iterator[tuple[Served, str]]:
    """With the state that it serves, and has stored."""
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        secret = f"/api/v1/namespaces/{shop.system}/secrets/admc-{shop.name}-state"
        shop.until(lambda: shop.api.request("GET", secret).get("data"))
        yield server, str(server.status()["server"]["state"])


def follows(standby: Served, state: str) -> None:
    """It serves the state that was stored, and compiles the same."""
    standby.until(lambda: standby.events("compiled"), LONG)
    assert [each["state"] for each in standby.events("recalled")] == [state]
    assert [each["state"] for each in standby.events("compiled")] == [state]
    standby.listens()
    assert standby.status()["server"]["role"] == "active"


def test_a_standby_takes_over_with_what_it_has_built(shop: Installation) -> None:
    with active(shop) as (server, state), shop.server(port=free_port(), stands_by=True) as standby:
        standby.until_event("kept_state_ready")
        # The last good plan, which the Program does not have any more.
        shop.program("half of")
        shop.until(lambda: shop.condition("Accepted")[0] == "False")
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Accepted")[0] == "True")
        server.stop(signal.SIGKILL)
        follows(standby, state)


def test_a_standby_that_is_not_ready_takes_over_all_the_same(shop: Installation) -> None:
    with active(shop) as (server, state):
        server.stop(signal.SIGKILL)
        with shop.server(port=free_port(), stands_by=True) as standby:
            follows(standby, state)


def test_a_replica_that_ends_in_order_is_replaced_at_once(shop: Installation) -> None:
    with active(shop) as (server, state), shop.server(port=free_port(), stands_by=True) as standby:
        standby.until_event("kept_state_ready")
        before = server.status()["server"]["holder"]
        assert server.stop(signal.SIGTERM) == 0
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{shop.system}/leases/admc-{shop.name}"
        assert shop.api.request("GET", lease)["spec"].get("holderIdentity") != before
        follows(standby, state)


async def test_the_next_replica_does_not_wait_for_a_client_that_is_slow(shop: Installation) -> None:
    """The client has received a response and does not acknowledge it: its stream ends 10 s after the signal."""
    with active(shop) as (server, state), shop.server(port=free_port(), stands_by=True) as standby:
        await asyncio.to_thread(standby.until_event, "kept_state_ready")
        credentials = grpc.ssl_channel_credentials(shop.authority.certificate)
        bearer = bearing(shop.token("web-1"))
        async with Client(shop.port, "delta", "web", id="web-1", credentials=credentials, metadata=bearer) as client:
            await client.send(CLUSTER)
            assert await client.read(SECONDS) is not grpc.aio.EOF
            before = server.status()["server"]["holder"]
            signalled = time.time()
            server.process.send_signal(signal.SIGTERM)
            (began,) = await asyncio.to_thread(standby.until, lambda: standby.events("active"))
            assert server.process.poll() is None
            assert datetime.fromisoformat(began["time"]).timestamp() - signalled < GRACE_SECONDS / 2
            assert server.get("/readyz") == (503, "draining\n")
            assert server.events("lease_given_up")
            assert not server.events("stopped")
            row = await asyncio.to_thread(standby.status)
            assert row["server"]["holder"] not in ("", before)
        assert await asyncio.to_thread(server.process.wait, SECONDS) == 0
        assert not server.events("lease_lost")
        assert not server.events("lease_lapsed")
        await asyncio.to_thread(follows, standby, state)
