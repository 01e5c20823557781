"""What the number of ADMs is compared with: the services that can host one, in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admc.base.baseline import Baseline, baseline_of
from admc.compile.pipeline import compile_program
from admc.compile.plan.summary import facts, headline, summarize, summary_of
from admc.review.report.plan_page import plan_page
from admc.testbed.session import Trial
from admc.testbed.trial_text import render
from emitters.pictures import svg, svg_comparison
from tests.cli.command import Admc

PROGRAM = """\
app shop

service web      { http 8080  replicas 3 }
service api, geo { http 8080  replicas 2 }
service db       { tcp 5432  no adm  replicas 5 }
service agent    { http 9000  host_network }

call web -> api, geo, agent { rate 10/s  size 1KB }
call api -> db { rate 10/s  size 1KB }

policy quota = rate_limit(requests: 5, per: 1s) on web -> api

profile meshinsight
"""
SENTENCE = "1 of 3 services that can host one {} an ADM (5 services in all)"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.adm"
    path.write_text(PROGRAM)
    return path


def test_every_command_has_the_same_baseline(admc: Admc, shop: Path) -> None:
    compiled = compile_program(shop)
    program, placement, plan = compiled.program, compiled.placement, compiled.plan
    assert len(placement.adms) == 1
    said = " ".join(admc("compile", shop).out.split())
    assert said.startswith(
        "shop: 1 of 3 services that can host one gets an ADM (33%, 5 services in all); "
        f"with replicas {plan.adms[0].replicas} sidecars instead of 7 proven"
    )
    assert headline(summary_of(plan)) == headline(summarize(program, plan))
    assert admc("explain", shop).out.splitlines()[0] == SENTENCE.format("has")
    assert plan_page(plan).facts[0] == SENTENCE.format("hosts")
    trial = Trial(program, placement, "1.40.0", (), (), 1.0)
    assert render(trial, colour=False, width=120).splitlines()[-1] == f"{SENTENCE.format('gets')}; optimal"
    assert "1 sidecar for 5 services, of which 3 can host one" in svg(program, placement)
    assert ">3 sidecars<" in svg_comparison(program, placement)
    assert plan.overhead is not None
    assert plan.overhead.totals.full_mesh.sidecars == 7
    assert plan.overhead.totals.full_mesh_everywhere.sidecars == 13


def test_the_json_of_a_compilation_has_both_figures(shop: Path) -> None:
    compiled = compile_program(shop)
    found = json.loads(json.dumps(facts(summarize(compiled.program, compiled.plan)), default=str))
    assert (found["services"], found["services_that_can_host"]) == (5, 3)
    assert (found["full_mesh_sidecars"], found["full_mesh_everywhere_sidecars"]) == (7, 13)


def test_services_that_can_all_host_one_need_no_second_figure() -> None:
    assert Baseline(4, 4, 4, 4).sentence(2, "gets", "get", share=True) == "2 of 4 services get an ADM (50%)"
    assert Baseline(4, 0, 0, 4).sentence(0, "gets", "get", share=True) == (
        "0 of 0 services that can host one get an ADM (4 services in all)"
    )
    assert baseline_of(()) == Baseline(0, 0, 0, 0)
