"""`admc compile`: the plan file, `--json` and `--previous`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import Admc, process
from tests.cli.programs import IMPOSSIBLE, SHOP, WRONG, write


def test_compile_writes_the_plan_beside_the_program(admc: Admc, shop: Path) -> None:
    run = admc("compile", shop)
    assert (run.code, run.err) == (0, "")
    plan = shop.with_name("policies.plan.json")
    assert json.loads(plan.read_text())["app"] == "shop"
    assert f"wrote `{plan}`" in run.out
    assert "1 of 4 services that can host one gets an ADM (25%, 5 services in all)" in run.out
    assert "search" in run.out
    assert "proven optimal" in run.out
    assert "up to date" in admc("compile", shop).out


def test_json_is_the_plan_and_writes_nothing(admc: Admc, shop: Path, tmp_path: Path) -> None:
    run = admc("compile", shop, "--json")
    assert run.code == 0
    assert not shop.with_name("policies.plan.json").exists()
    admc("compile", shop, "--json", "-o", tmp_path / "other.json")
    assert (tmp_path / "other.json").read_text() == run.out


@pytest.mark.parametrize("format_", ["text", "json", "markdown", "sarif", "github"])
def test_no_format_and_no_place_changes_the_plan(
    admc: Admc, shop: Path, tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = admc("compile", shop, "--json").out
    other = tmp_path / "other" / "place"
    other.mkdir(parents=True)
    monkeypatch.chdir(other)
    run = admc("compile", "../../policies.adm", "-o", "p.json", "--format", format_)
    assert run.code == 0
    assert (other / "p.json").read_text() == reference
    if format_ in ("json", "sarif"):
        assert json.loads(run.out)
    if format_ == "json":
        assert json.loads(run.out)["adms"] == len(json.loads(reference)["adms"])


def test_the_same_bytes_whatever_the_hash_seed_and_the_folder(shop: Path, tmp_path: Path) -> None:
    first = process("compile", str(shop), "--json", PYTHONHASHSEED="1")
    second = process("compile", "policies.adm", "--json", cwd=tmp_path, PYTHONHASHSEED="4242", LC_ALL="C")
    assert first.returncode == second.returncode == 0
    assert first.stdout == second.stdout


def test_an_existing_plan_survives_a_failure(admc: Admc, shop: Path) -> None:
    plan = shop.with_name("policies.plan.json")
    plan.write_text("precious")
    write(shop.parent, WRONG)
    assert admc("compile", shop).code == 1
    write(shop.parent, IMPOSSIBLE)
    assert admc("compile", shop).code == 3
    assert plan.read_text() == "precious"


def test_the_program_is_never_overwritten(admc: Admc, shop: Path) -> None:
    run = admc("compile", shop, "-o", shop)
    assert run.code == 1
    assert "ADM803" in run.err
    assert shop.read_text() == SHOP
    assert admc("graph", shop, "-o", shop).code == 1
    assert shop.read_text() == SHOP


def test_previous(admc: Admc, shop: Path, tmp_path: Path) -> None:
    admc("compile", shop)
    plan = shop.with_name("policies.plan.json")
    assert admc("compile", shop, "--previous", plan).code == 0
    plan.write_text(plan.read_text()[:-50])
    run = admc("compile", shop, "--previous", plan)
    assert run.code == 1
    assert "cut short" in run.err
    assert admc("compile", shop, "--previous", tmp_path / "none.json").code == 1


def test_a_previous_plan_of_another_application_is_a_warning(admc: Admc, shop: Path, tmp_path: Path) -> None:
    other = write(tmp_path, SHOP.replace("app shop", "app other"), "other.adm")
    admc("compile", other, "-o", tmp_path / "other.json")
    run = admc("compile", shop, "--previous", tmp_path / "other.json")
    assert run.code == 0
    assert "warning[ADM811]" in run.err
