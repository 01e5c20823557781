"""During a rollout pods start and end, and proxies and the server are killed: no other request fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.serve.rollout.model import StepName
from tests.serve.traffic.pod_bed import PodBed
from tests.serve.traffic.programs import EGRESS
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, NEEDS_MESH]


def test_pods_start_and_end_and_proxies_restart_during_a_rollout(tmp_path: Path) -> None:
    with PodBed(tmp_path, ("shop/0", "shop/1", "cart/0", "cart/1")) as bed:
        bed.write(replace(bed.variant, cart=EGRESS, once="2", said="2"))
        bed.until_step(StepName.PREPARE)
        bed.restart("cart/0")
        bed.until_step(StepName.SENDERS)
        bed.restart("shop/0")
        bed.until_step(StepName.RECEIVERS)
        bed.join("cart/2")
        bed.until_step(StepName.RELEASE)
        bed.kill_server()
        bed.serve()
        bed.until_step("plan")
        bed.leave("cart/1")
        bed.wait_until_at_rest()
        wrong = bed.update_rejections()
        bed.stop_callers()
        verdict = bed.verdict()
    assert (wrong, verdict.failed, verdict.unenforced) == ([], [], [])
    assert verdict.requests > 1000
