"""In the midst of a rollout pods come, go and lose their proxies, and the server is killed: nobody else notices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.rollout.model import StepName
from tests.serve.traffic.pod_bed import PodBed
from tests.serve.traffic.programs import EGRESS
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, NEEDS_MESH]


def test_pods_come_go_and_lose_their_proxies_in_the_midst_of_a_rollout(tmp_path: Path) -> None:
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
        bed.over()
        wrong = bed.refused()
        bed.quiet()
        verdict = bed.verdict()
    assert (wrong, verdict.failed, verdict.unenforced) == ([], [], [])
    assert verdict.requests > 1000
