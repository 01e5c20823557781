"""What the estimate of a plan makes of the resources of an ADM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.compile.plan.read import named_plan
from admc.kubernetes.inject.needs import MIB, MILLICORE, estimates_of, resources_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.command import Admc

PROGRAM = """\
app shop
profile shared_2core_envoy_1_40
service web  { http 8080 }
service cart { http 8081  replicas 4 }
call web -> cart { rate 4000/s }
@ingress
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
"""


def test_a_replica_requests_its_part_of_the_estimate(admc: Admc, tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text(PROGRAM, encoding="utf-8")
    assert admc("compile", str(path)).code == 0
    plan = named_plan((tmp_path / "policies.plan.json").read_bytes(), "plan")
    (adm,) = plan.adms
    assert adm.overhead is not None
    (estimate,) = estimates_of(plan).values()
    assert abs(4 * estimate.cpu - adm.overhead.cpu.value) <= 4  # rounding
    assert estimate.memory == adm.overhead.memory.value // 4
    requests = resources_of(estimate, None).requests
    assert requests.cpu == f"{-(-estimate.cpu // MILLICORE)}m"
    assert requests.memory == f"{max(64, -(-estimate.memory // MIB))}Mi"
    assert estimate.cpu > 50 * MILLICORE, "else the test sees the floor alone"


def test_without_a_profile_there_is_no_estimate(admc: Admc, tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text(PROGRAM.replace("profile shared_2core_envoy_1_40\n", ""), encoding="utf-8")
    assert admc("compile", str(path)).code == 0
    assert estimates_of(named_plan((tmp_path / "policies.plan.json").read_bytes(), "plan")) == {}
