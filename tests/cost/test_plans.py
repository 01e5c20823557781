"""What a plan says of costs: with a profile exact sums that are read back, without one nothing.

A plan without a profile keeps its bytes. After a wanted change of plans or examples
`ADMC_SNAPSHOTS=1 python -m pytest tests/cost/test_plans.py` writes `plans.golden` anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dsl
from admc.compile.pipeline import compile_program
from admc.compile.plan.model import Plan
from admc.compile.plan.read import PlanFormatError, from_json
from admc.compile.plan.to_json import to_json
from admc.cost.model.overhead import Lack
from admc.cost.rows import REASONS
from tests.cli.command import ROOT, Admc
from tests.compile.test_plan import EXAMPLES, VALIDATOR
from tests.cost.documents import changed
from tests.cost.test_costs_in_plans import SHARED, write

GOLDEN = Path(__file__).with_name("plans.golden")


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return compile_program(write(tmp_path_factory.mktemp("priced"))).plan


def document(plan: Plan) -> Any:
    return json.loads(to_json(plan))


def with_profile(example: Path, folder: Path) -> Path:
    """A copy of an example that names a profile."""
    for item in dsl.load(example).inputs:
        target = folder / item.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((example.parent / item.path).read_bytes())
    path = folder / example.name
    path.write_text(path.read_text() + "\nprofile meshinsight\n")
    return path


def test_without_a_profile_a_plan_keeps_its_bytes() -> None:
    lines = []
    for path in EXAMPLES:
        plan = compile_program(path).plan
        content = to_json(replace(plan, solver=replace(plan.solver, version="")))
        assert json.loads(content)["overhead"] is None
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {path.relative_to(ROOT).as_posix()}\n")
    if os.environ.get("ADMC_SNAPSHOTS") == "1":
        GOLDEN.write_text("".join(lines))
    assert GOLDEN.read_text() == "".join(lines)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_with_a_profile_every_example_fits_the_schema_and_is_read_back(example: Path, tmp_path: Path) -> None:
    path = with_profile(example, tmp_path)
    plan = compile_program(path).plan
    content = to_json(plan)
    VALIDATOR.validate(json.loads(content))
    assert from_json(content) == plan
    assert to_json(from_json(content)) == content
    assert to_json(compile_program(path).plan) == content


def test_a_row_has_every_reason() -> None:
    assert [lack.value for lack in Lack] == list(REASONS)


def test_parts_and_components_add_up_to_the_totals(priced: Plan) -> None:
    found = document(priced)
    for adm in found["adms"]:
        costs = adm["overhead"]
        hops = sum(hop["cpu"]["value"] for hop in costs["hops"])
        components = sum(each["cpu"]["value"] for hop in costs["hops"] for each in hop["components"] if each["cpu"])
        assert costs["idle_cpu"]["value"] + hops == costs["cpu"]["value"]
        assert sum(part["cpu"] for part in costs["parts"]) + components == hops
    totals = found["overhead"]["totals"]
    for figure, name in (("cpu", "cpu"), ("memory", "memory")):
        assert totals["plan"][name]["value"] == sum(adm["overhead"][figure]["value"] for adm in found["adms"])
    assert totals["none"]["cpu"]["value"] == 0 < totals["plan"]["cpu"]["value"] < totals["full_mesh"]["cpu"]["value"]


def test_a_plan_has_the_figures_of_the_estimate(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path)
    plan = document(compile_program(path).plan)
    estimate = json.loads(admc("overhead", path, "--format", "json").out)
    assert plan["profile"] == estimate["profile"]
    assert plan["overhead"] == {name: estimate[name] for name in ("totals", "missing", "extrapolated", "saturated")}
    for adm, other in zip(plan["adms"], estimate["adms"], strict=True):
        own = adm["overhead"]
        for hop, theirs in zip(own.pop("hops"), other["hops"], strict=True):
            assert hop == {name: theirs[name] for name in hop}
        assert own == {name: other[name] for name in own}


def test_a_plan_has_what_its_adms_add_to_each_request(admc: Admc, tmp_path: Path) -> None:
    hotel = with_profile(ROOT / "examples" / "hotel_reservation" / "policies.adm", tmp_path)
    content = to_json(compile_program(hotel).plan)
    estimate = json.loads(admc("overhead", hotel, "--format", "json").out)
    found = json.loads(content)["overhead"]["requests"]
    assert [each["request"] for each in found] == ["book", "find_hotels", "recommend"]
    assert found == [{name: each[name] for name in each if name != "rate"} for each in estimate["requests"]]
    assert all(0 < each["plan"]["latency_mean"]["value"] < each["full_mesh"]["latency_mean"]["value"] for each in found)
    lines = [line for line in content.decode().splitlines() if '"request": ' in line]
    assert len(lines) == len(found)  # a review compares lines


def test_a_plan_of_a_program_without_requests_does_not_name_them(priced: Plan) -> None:
    content = to_json(priced)
    assert b'"requests"' not in content
    assert from_json(content).overhead == priced.overhead


def test_the_whole_costs_are_missing_where_the_profile_has_none(tmp_path: Path) -> None:
    """`access_log` is not in the profile: the plan says so, and its sums are lower bounds."""
    plan = document(compile_program(write(tmp_path)).plan)
    (lack,) = (each for each in plan["overhead"]["missing"] if each["reason"] == "component")
    assert lack["subject"] == "access_log (http)"
    for service in lack["services"]:
        (adm,) = (each for each in plan["adms"] if each["service"] == service)
        assert adm["overhead"]["cpu"]["at_least"]
        shares = [each for hop in adm["overhead"]["hops"] for each in hop["components"]]
        assert [each["cpu"] for each in shares if each["component"] == "access_log"] == [None] * len(
            [each for each in shares if each["component"] == "access_log"]
        )


def test_a_profile_without_cpu_gives_no_value_of_the_overhead(tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text(SHARED.replace('"node.json"', "flatproxy"))
    levels = document(compile_program(path).plan)["solver"]["objectives"]
    assert {"metric": "overhead", "value": None, "bound": None} in levels


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        (b'"interval": null', b'"interval": [1]', "lacks its entry 2"),
        (b'"interval": null', b'"interval": [1, 1.5]', "must be a whole number"),
        (b'"at_least": true', b'"at_least": 1', "must be true or false"),
        (b'"sidecars": ', b'"sidecars": -', "must be at least 0"),
        (b'"none": {', b'"nothing": {', "has an unknown field `nothing`"),
        (b'"profile": {"named"', b'"profile": {"name_"', "has an unknown field `name_`"),
    ],
)
def test_a_broken_overhead_is_refused(priced: Plan, old: bytes, new: bytes, where: str) -> None:
    content = to_json(priced)
    assert old in content
    with pytest.raises(PlanFormatError) as error:
        from_json(content.replace(old, new, 1))
    assert where in str(error.value)


def test_a_plan_grows_by_a_line_for_each_adm_and_reason_and_not_by_calls(tmp_path: Path) -> None:
    """The estimate of an ADM is in the line of the ADM, without one for each call."""
    path = write(tmp_path)
    with_costs = to_json(compile_program(path).plan).count(b"\n")
    path.write_text(SHARED.replace('profile "node.json"\n', ""))
    plan = compile_program(path).plan
    content = to_json(plan)
    assert b'"profile": {' not in content
    reasons = len(document(compile_program(write(tmp_path)).plan)["overhead"]["missing"])
    assert with_costs - content.count(b"\n") <= 20 + 2 * reasons


def test_negative_ends_of_intervals_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path)

    def uncertain(profile: Any) -> None:
        for component in profile["components"]:
            for knot in component["cpu"]["base"]:
                knot["interval"] = [-1, 1]

    (tmp_path / "node.json").write_text(changed(uncertain))
    plan = compile_program(path).plan
    lows = [
        each.cpu.interval[0]
        for adm in plan.adms
        if adm.overhead is not None
        for hop in adm.overhead.hops
        for each in hop.components
        if each.cpu is not None and each.cpu.interval is not None
    ]
    assert lows
    assert min(lows) < 0
    assert from_json(to_json(plan)) == plan


def test_compile_says_what_the_plan_costs_beside_a_full_mesh(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path)
    out = " ".join(admc("compile", path).out.split())
    found = document(compile_program(path).plan)["overhead"]["totals"]
    own, mesh = (found[name]["memory"]["value"] for name in ("plan", "full_mesh"))
    assert f"{own / 1e6:.1f} MB of memory, {100 * own / mesh:.0f}% of a full mesh" in out
    assert f"overhead: at least {found['plan']['cpu']['value'] / 1e9:.4f} cores (a full mesh: at least " in out
    path.write_text(SHARED.replace("access_log", "request_count").replace(" 30/s", " 40/s"))
    out = " ".join(admc("compile", path, "--format", "markdown").out.split())
    assert "overhead" in out
    path.write_text(SHARED.replace('profile "node.json"\n', ""))
    assert "overhead" not in admc("compile", path).out
