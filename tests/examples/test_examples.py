"""Every example compiles, is correct, and does what its README says."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

import dsl
from admc.__main__ import main
from admc.compile.pipeline import Compiled, compile_program
from dsl.program import Side
from solver.placement import Status
from solver.verify.verifier import verify

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/policies.adm"))
GOLDEN = Path(__file__).parent / "golden"

pytestmark = pytest.mark.parametrize("name", EXAMPLES)


@cache
def compiled(name: str) -> Compiled:
    return compile_program(ROOT / "examples" / name / "policies.adm")


def described(name: str) -> str:
    """What the golden files hold: one line for each ADM and each closed destination."""
    placement = compiled(name).placement
    lines = []
    for adm in placement.adms:
        sides = [(side, names) for side, names in ((Side.INGRESS, adm.ingress), (Side.EGRESS, adm.egress)) if names]
        lines.append(f"{adm.service}: " + "; ".join(f"{side.value} {', '.join(names)}" for side, names in sides))
    lines += [f"closed {destination}" for destination in placement.closed]
    return "\n".join(lines) + "\n"


def test_it_is_optimal_and_without_warnings(name: str) -> None:
    result = compiled(name)
    assert result.program.warnings == ()
    assert result.placement.status is Status.OPTIMAL


def test_the_verifier_accepts_it(name: str) -> None:
    result = compiled(name)
    assert verify(result.program, result.placement) == ()


def test_its_adms_are_those_recorded(name: str) -> None:
    """`python -m tests.examples.golden` records anew what was meant to change."""
    assert described(name) == (GOLDEN / f"{name}.txt").read_text()


def test_the_command_compiles_it_and_emits_its_configuration(name: str, tmp_path: Path) -> None:
    program = str(ROOT / "examples" / name / "policies.adm")
    plan, folder = tmp_path / "plan.json", tmp_path / "configuration"
    assert main(["compile", program, "-o", str(plan), "--emit", str(folder)]) == 0
    assert [adm["service"] for adm in json.loads(plan.read_bytes())["adms"]] == sorted(
        path.parent.name for path in folder.glob("*/bootstrap.yaml")
    )


def test_it_is_formatted(name: str) -> None:
    programs = sorted(str(path) for path in (ROOT / "examples" / name).glob("*.adm"))
    assert main(["fmt", "--check", *programs]) == 0


def test_its_readme_gives_the_command_and_the_true_numbers(name: str) -> None:
    result = compiled(name)
    readme = (ROOT / "examples" / name / "README.md").read_text()
    assert f"admc compile examples/{name}/policies.adm" in readme
    stated = {(int(adms), int(services)) for adms, services in re.findall(r"\*\*(\d+) ADMs? instead of (\d+)", readme)}
    assert stated == {(len(result.placement.adms), sum(each.can_host for each in result.program.services.values()))}


def test_every_service_of_the_plan_is_explained_in_its_readme(name: str) -> None:
    readme = (ROOT / "examples" / name / "README.md").read_text()
    assert [adm.service for adm in compiled(name).placement.adms if f"`{adm.service}`" not in readme] == []


def test_it_is_in_the_one_layout(name: str) -> None:
    for path in (ROOT / "examples" / name).glob("*.adm"):
        text = path.read_text(encoding="utf-8")
        assert dsl.format_text(text) == text
