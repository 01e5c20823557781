"""The server and proxies end and start under traffic: each request meets the policies of one program."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from tests.serve.traffic.bed import Bed
from tests.serve.traffic.programs import EGRESS, Variant

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]


def test_starts_changes_and_ends_under_traffic(tmp_path: Path) -> None:
    assert ENVOY is not None
    with Bed(tmp_path, ENVOY) as bed:
        # Proxies start first, and wait for the server.
        with bed.starting_proxies():
            time.sleep(0.5)
            bed.serve()
        bed.wait_until_in_force()

        variant = replace(Variant(), once="2", said="2", shut=True, tier="1", stamped="1", balance="round_robin")
        bed.write(variant)
        bed.wait_until_in_force()

        # The server ends, the program changes meanwhile, and the server starts again.
        bed.end(signal.SIGTERM)
        variant = replace(variant, tier="2", attempts=3)
        bed.write(variant)
        bed.serve()
        bed.wait_until_in_force()
        bed.end(signal.SIGKILL)
        bed.serve()
        bed.wait_until_in_force()
        # The server is killed during a rollout that moves everything to the other side.
        variant = replace(variant, cart=EGRESS, stock=EGRESS, ledger=EGRESS, once="3", wide=True)
        bed.write(variant)
        bed.server.until(lambda: bed.server.events("rollout_step"))
        bed.end(signal.SIGKILL)
        bed.serve()
        bed.wait_until_in_force()

        # One proxy restarts during a change, and then all of them: now the server runs first.
        variant = replace(variant, shut=False, tier=None, stamped=None)
        bed.write(variant)
        bed.restart_proxy("cart")
        bed.start_proxies()
        bed.wait_until_at_rest()
        assert bed.disagreements() == []
    verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])
