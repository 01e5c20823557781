"""The profile of a program decides, in every command that places policies, and all commands agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from admc.compile.pipeline import compile_program
from admc.compile.plan.to_json import to_json
from admc.serve.compiling.source import Source, read, restored
from emitters.envoy import Mode
from tests.cli.command import ROOT, Admc
from tests.cost.documents import changed

SHARED = """app shop

service front, one, two { http 8080 }
service deep { http 8080  replicas 2 }
call front -> one, two { rate 30/s  size 100B }
call one, two -> deep { rate 5/s  size 100B }

policy count_front = request_count() on front -> one, two
policy logs = access_log() on one, two -> deep
profile "node.json"
"""
"""`front` has one ADM at most. At `deep` one ADM of two sidecars, or two ADMs at the callers."""


def write(folder: Path, objective: str = "") -> Path:
    (folder / "node.json").write_text(changed(lambda _: None))
    path = folder / "policies.adm"
    path.write_text(SHARED + objective)
    return path


def levels(plan: Any) -> dict[str, tuple[int, int]]:
    return {level["metric"]: (level["value"], level["bound"]) for level in plan["solver"]["objectives"]}


def compiled(admc: Admc, path: Path, *options: str) -> Any:
    return json.loads(admc("compile", path, "--json", *options).out)


def test_the_overhead_is_a_proven_level(admc: Admc, tmp_path: Path) -> None:
    plan = compiled(admc, write(tmp_path))
    assert list(levels(plan)) == ["adms", "closed", "overhead", "hops"]
    value, bound = levels(plan)["overhead"]
    assert value == bound > 0
    assert plan["solver"]["status"] == "optimal"


@pytest.mark.parametrize("metric", ["cpu", "latency"])
def test_a_metric_of_the_profile_is_minimized(admc: Admc, tmp_path: Path, metric: str) -> None:
    """Two ADMs cost more CPU while they are idle, and none has the hop of the other."""
    fewest = compiled(admc, write(tmp_path))
    other = compiled(admc, write(tmp_path, f"objective minimize {metric}\n"))
    assert levels(other)[metric][0] == levels(other)[metric][1] > 0
    if metric == "cpu":
        assert levels(other)["cpu"] <= levels(fewest)["overhead"]


def test_serve_agrees_with_compile_byte_for_byte(tmp_path: Path) -> None:
    path = write(tmp_path)
    plan = to_json(compile_program(path).plan)
    found = read(Source(path, Mode.REDIRECT), (b'{"services": {}}',), with_recipe=True)
    assert found.recipe is not None, found.findings
    assert found.recipe.plan == plan
    # What a restarted server restores is verified by the same costs.
    assert found.state is not None
    assert restored(Source(path, Mode.REDIRECT), found.recipe).placement.objectives == found.state.placement.objectives


def test_a_small_program_with_costs_needs_no_or_tools(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from admc.compile.pipeline import compile_program\n"
        f"compile_program(Path({str(write(tmp_path))!r}))\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] == 'ortools'))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60)
    assert run.stdout == "[]\n"


def test_a_plan_that_is_its_own_earlier_plan_keeps_its_bytes(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path)
    assert admc("compile", path).code == 0
    first = path.with_name("policies.plan.json").read_bytes()
    compiled(admc, path, "--previous", str(path.with_name("policies.plan.json")))
    assert path.with_name("policies.plan.json").read_bytes() == first


def test_a_reviewed_plan_is_served_and_one_with_another_sum_is_not(tmp_path: Path) -> None:
    path = write(tmp_path)
    plan = tmp_path / "policies.plan.json"
    content = json.loads(to_json(compile_program(path).plan))
    plan.write_text(json.dumps(content))
    source = Source(plan, Mode.REDIRECT)
    assert read(source, (b'{"services": {}}',)).state is not None
    level = next(each for each in content["solver"]["objectives"] if each["metric"] == "overhead")
    level["value"] = level["bound"] = level["value"] + 1
    plan.write_text(json.dumps(content))
    found = read(source, (b'{"services": {}}',))
    assert found.state is None
    assert [item.code for item in found.findings] == ["ADM853"]


def test_explain_and_overhead_have_the_placement_of_compile(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path, "objective minimize latency\n")
    services = [adm["service"] for adm in compiled(admc, path)["adms"]]
    explained = json.loads(admc("explain", path, "--format", "json").out)
    titles = [part["heading"] for part in explained["sections"]]
    assert titles[: len(services)] == [f"ADM of `{name}`" for name in services]
    estimated = json.loads(admc("overhead", path, "--format", "json").out)
    assert [adm["service"] for adm in estimated["adms"]] == services


def test_the_capacity_of_each_replica_holds(admc: Admc, tmp_path: Path) -> None:
    """R9 is about one sidecar, and the requests are shared by the replicas."""
    path = write(tmp_path)
    text = SHARED.replace("access_log() on one, two", "request_count() on one, two")
    pinned = f"{text}pin logs at ingress\n"
    path.write_text(pinned)
    estimated = json.loads(admc("overhead", path, "--format", "json").out)
    (deep,) = (adm for adm in estimated["adms"] if adm["service"] == "deep")
    each = deep["cpu"]["value"] / 2 / 1e9
    for capacity, code in ((each * 1.01, 0), (each * 0.99, 3)):
        path.write_text(pinned.replace("replicas 2", f"replicas 2  capacity {capacity:.6f}"))
        run = admc("compile", path, "--json")
        assert run.code == code, run.out
    assert "R9" in run.out


def test_a_plan_by_another_built_in_profile_is_refused(tmp_path: Path) -> None:
    """The digests of files do not show that a later release brings other figures."""
    path = write(tmp_path)
    path.write_text(SHARED.replace('"node.json"', "meshinsight"))
    plan = tmp_path / "policies.plan.json"
    content = json.loads(to_json(compile_program(path).plan))
    plan.write_text(json.dumps(content))
    source = Source(plan, Mode.REDIRECT)
    assert read(source, (b'{"services": {}}',)).state is not None
    content["profile"]["sha256"] = "0" * 64
    plan.write_text(json.dumps(content))
    found = read(source, (b'{"services": {}}',))
    assert [item.code for item in found.findings] == ["ADM852"]
    assert "meshinsight" in (found.findings[0].cause or "")


CHOICE = """app shop

service a, b { http 8080 }
call a -> b { rate 20/s  size 100B }

policy count = request_count() on a -> b
profile "node.json"
"""


def test_explain_says_what_the_other_side_would_cost(admc: Admc, tmp_path: Path) -> None:
    """In the profile `request_count` takes 2 us more at egress, which are 20 times in a second."""
    path = write(tmp_path)
    path.write_text(CHOICE)
    told = admc("explain", path, "count").out
    assert "could be at the senders to `b`: no rule forbids it, but it would cost 0.00004 cores more" in _flat(told)
    path.write_text(CHOICE + "objective minimize latency\n")
    assert "but it would add 0.04 ms of latency in each second" in _flat(admc("explain", path, "b").out)
    path.write_text(CHOICE.replace('profile "node.json"\n', ""))
    assert "no rule forbids it, but it is no better for the objective" in _flat(admc("explain", path, "count").out)


def test_explain_names_no_cost_where_something_else_decided(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path)
    told = _flat(admc("explain", path, "logs").out)
    assert "cores more" not in told


def _flat(text: str) -> str:
    return " ".join(text.split())
