"""A guard moves among ADMs and the network: no request of a stranger arrives, on any connection."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.serve.rollout.model import StepName
from tests.serve.traffic.network_bed import NO_WAIT, TILL, NetworkBed
from tests.serve.traffic.network_programs import NETWORK
from tests.serve.traffic.programs import EGRESS, INGRESS
from tests.testbed.draining import DRAIN_SECONDS
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, NEEDS_MESH]

PODS = ("shop/0", TILL, "cart/0")
CLOSED_SECONDS = DRAIN_SECONDS + 2.0
"""Within them proxies close the connections that are older than `prepare`."""


def wait_for_a_wait_for_network_policies(bed: NetworkBed) -> None:
    bed.until_accepted()
    bed.server.until(lambda: "its NetworkPolicy" in bed.server.status()["server"]["why"])


def move_to_the_network(bed: NetworkBed) -> None:
    """Move the guard from the receiver. The NetworkPolicy comes so late that strangers have opened new connections
    since the server began the move, if it did not wait."""
    bed.write(replace(bed.variant, gate=NETWORK))
    wait_for_a_wait_for_network_policies(bed)
    time.sleep(CLOSED_SECONDS)
    bed.plugin.look()
    bed.wait_until_at_rest()
    time.sleep(0.5)


def test_a_guard_moves_while_a_proxy_restarts_and_a_waiting_server_is_killed(tmp_path: Path) -> None:
    with NetworkBed(tmp_path, PODS) as bed:
        move_to_the_network(bed)
        with bed.plugin.running():
            bed.write(replace(bed.variant, gate=EGRESS, cart=EGRESS, once="2", till=False))
            bed.until_step(StepName.PREPARE)
            bed.restart("cart/0")
            bed.wait_until_in_force()
        bed.write(replace(bed.variant, gate=NETWORK, once="3"))
        wait_for_a_wait_for_network_policies(bed)
        bed.kill_server()
        bed.serve()
        with bed.plugin.running():
            bed.wait_until_in_force()
            bed.write(replace(bed.variant, gate=INGRESS, till=True))
            bed.wait_until_at_rest()
        wrong = bed.update_rejections()
        bed.stop_callers()
        verdict = bed.verdict()
    assert (wrong, verdict.wrong) == ([], [])
    assert verdict.strangers[403] > 20
    assert verdict.strangers[None] > 20
    assert verdict.cut[503] > 0
    assert verdict.requests > 500


def test_a_server_that_does_not_wait_leaves_connections_of_strangers_open(tmp_path: Path) -> None:
    with NetworkBed(tmp_path, PODS, entry=NO_WAIT) as bed:
        move_to_the_network(bed)
        bed.stop_callers()
        verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])
    assert verdict.arrived
