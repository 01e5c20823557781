"""A replica stands by beside the active one, and takes over."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from admc.kubernetes.cluster.api.lease import DURATION_SECONDS
from tests.cluster.serve.installation import PROGRAM
from tests.testbed.ports import free_port

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
        secret = f"/api/v1/namespaces/{shop.namespace}/secrets/admc-{shop.name}-state"
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
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{shop.namespace}/leases/admc-{shop.name}"
        assert shop.api.request("GET", lease)["spec"].get("holderIdentity") != before
        follows(standby, state)
