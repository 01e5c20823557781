"""`admc compile --check`: whether the plan beside a program is the one that a compile gives."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import Admc
from tests.cli.programs import IMPOSSIBLE, SHOP, write
from tests.generate import cover

FORMATS = ("text", "json", "markdown", "sarif", "github", "junit")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path, SHOP)


@pytest.fixture
def planned(admc: Admc, shop: Path) -> Path:
    assert admc("compile", shop).code == 0
    return shop


def plan_of(program: Path) -> Path:
    return program.with_name("policies.plan.json")


def command_in(text: str) -> list[str]:
    """The command of a hint, without `admc`."""
    words = shlex.split(text.partition("run `admc ")[2].partition("`")[0])
    assert words
    return words


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format_", FORMATS)
def test_a_plan_that_is_up_to_date(admc: Admc, planned: Path, format_: str) -> None:
    before = files_of(planned.parent)
    run = admc("compile", planned, "--check", "--format", format_)
    assert run.code == 0
    assert files_of(planned.parent) == before
    if format_ == "text":
        assert run.out == f"`{plan_of(planned)}` is up to date\n"
    if format_ == "json":
        assert json.loads(run.out)["plan"] == plan_of(planned).as_posix()
    if format_ == "junit":
        assert ElementTree.fromstring(run.out).get("failures") == "0"  # noqa: S314 - our own output


EDITS: dict[str, tuple[str, str, str]] = {
    "a quota": ("requests: 400", "requests: 4000", "`inputs` (`policies.adm`), `policies` (`quota`)"),
    "a comment": ("app shop", "// why\napp shop", "`inputs` (`policies.adm`), `services` (`frontend`,"),
    "a call": ("call rate     -> mongo_rate\n", "", "`calls` (`rate -> mongo_rate`"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_stale_plan_says_what_differs_and_the_command_that_renews_it(admc: Admc, planned: Path, name: str) -> None:
    old, new, said = EDITS[name]
    planned.write_text(planned.read_text().replace(old, new))
    before = files_of(planned.parent)
    run = admc("compile", planned, "--check")
    assert run.code == 1
    assert "error[ADM815]" in run.err
    assert "is stale" in run.err
    assert said in " ".join(run.err.split())
    assert files_of(planned.parent) == before
    command = command_in(" ".join(run.err.split()))
    assert command == ["compile", str(planned), "--previous", str(plan_of(planned))]
    assert admc(*command).code == 0
    assert admc("compile", planned, "--check").code == 0


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_says_that_a_plan_is_stale(admc: Admc, planned: Path, format_: str) -> None:
    planned.write_text(planned.read_text() + "// why\n")
    run = admc("compile", planned, "--check", "--format", format_)
    assert run.code == 1
    shown = run.err if format_ == "text" else run.out
    assert "ADM815" in shown
    assert "--previous" in shown


def test_a_missing_plan(admc: Admc, shop: Path) -> None:
    run = admc("compile", shop, "--check", "--format", "json")
    assert run.code == 1
    (found,) = [item for item in json.loads(run.out)["diagnostics"] if item["severity"] == "error"]
    assert found["code"] == "ADM815"
    assert found["message"] == f"the plan `{plan_of(shop)}` is missing"
    assert not plan_of(shop).exists()
    assert admc(*command_in(found["hint"])).code == 0
    assert admc("compile", shop, "--check").code == 0


SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "blanks": (lambda content: content.replace(b'"app": "shop"', b'"app":  "shop"'), "its bytes are not those"),
    "conflict": (lambda content: b"<<<<<<< ours\n" + content, "not a plan that admc can read"),
    "half": (lambda content: content[:-40], "cut short"),
    "a reason": (lambda content: content.replace(b'"text": "', b'"text": "x', 1), "`adms` (`"),
    "a bound": (lambda content: content.replace(b'"bound": 1}', b'"bound": 0}', 1), "`solver`"),
    "a value": (lambda content: content.replace(b'"adms", "value": 1', b'"adms", "value": 0', 1), "`solver`"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_an_edited_plan_is_stale_and_can_be_renewed(admc: Admc, planned: Path, name: str) -> None:
    spoil, said = SPOILT[name]
    good = plan_of(planned).read_bytes()
    assert spoil(good) != good
    plan_of(planned).write_bytes(spoil(good))
    if name == "a bound":
        # What claims less than is proven is kept: it is the plan of a run with less effort.
        assert admc("compile", planned, "--check", "--require-optimal").code == 1
        return
    run = admc("compile", planned, "--check")
    assert run.code == 1
    text = " ".join(run.err.split())
    assert said in text
    command = command_in(text)
    assert ("--previous" in command) is (name not in ("conflict", "half"))
    assert admc(*command).code == 0
    assert plan_of(planned).read_bytes() == good


def test_a_plan_of_an_older_version_is_stale(admc: Admc, planned: Path) -> None:
    path = plan_of(planned)
    path.write_text(path.read_text().replace('"schema_version": 5', '"schema_version": 4'))
    run = admc("compile", planned, "--check")
    assert run.code == 1
    assert "ADM815" in run.err
    assert "it has schema version 4, and this admc reads 5" in " ".join(run.err.split())
    run = admc("compile", planned, "--previous", path)
    assert run.code == 1
    assert "compile again to write a new one" in run.err


def test_a_plan_of_a_newer_admc_is_no_stale_one(admc: Admc, planned: Path) -> None:
    path = plan_of(planned)
    path.write_text(path.read_text().replace('"schema_version": 5', '"schema_version": 99'))
    run = admc("compile", planned, "--check")
    assert run.code == 1
    assert "ADM805" in run.err
    assert "ADM815" not in run.err


def test_another_plan_with_output(admc: Admc, shop: Path, tmp_path: Path) -> None:
    other = tmp_path / "a folder" / "x.json"
    other.parent.mkdir()
    assert admc("compile", shop, "-o", other).code == 0
    assert admc("compile", shop, "--check", "-o", other).code == 0
    assert admc("compile", shop, "--check").code == 1
    shop.write_text(shop.read_text() + "// why\n")
    run = admc("compile", shop, "--check", "-o", other, "--effort", "2", "--format", "json")
    command = command_in(json.loads(run.out)["diagnostics"][0]["hint"])
    assert command == ["compile", str(shop), "--previous", str(other), "-o", str(other), "--effort", "2"]
    assert admc(*command).code == 0
    assert admc("compile", shop, "--check", "-o", other, "--effort", "2").code == 0


def test_no_placement_and_errors_of_the_program_have_their_own_codes(admc: Admc, planned: Path) -> None:
    planned.write_text(IMPOSSIBLE)
    assert admc("compile", planned, "--check").code == 3
    planned.write_text("app shop\ncall a -> b\n")
    run = admc("compile", planned, "--check")
    assert run.code == 1
    assert "ADM815" not in run.err


def test_warnings_as_errors(admc: Admc, planned: Path) -> None:
    run = admc("compile", planned, "--check", "--warnings-as-errors")
    assert run.code == 1
    assert "ADM814" in run.err


@pytest.mark.parametrize(
    "option", [["--json"], ["--emit", "out"], ["--previous", "x.json"], ["--xds", "10.0.0.1:18000"], ["--force"]]
)
def test_options_that_write_or_choose_are_refused(admc: Admc, planned: Path, option: list[str]) -> None:
    run = admc("compile", planned, "--check", *option)
    assert run.code == 1
    assert "ADM801" in run.err + run.out


def test_a_program_from_standard_input_needs_the_name_of_its_plan(admc: Admc) -> None:
    assert admc("compile", "-", "--check").code == 1


def test_a_plan_that_is_not_proven(admc: Admc, tmp_path: Path) -> None:
    program = write(tmp_path, cover(300, 900, 5, "uniform"))
    assert admc("compile", program, "--effort", "0.02").code == 0
    assert json.loads(plan_of(program).read_text())["solver"]["status"] == "feasible"
    assert admc("compile", program, "--check", "--effort", "0.02").code == 0
    assert admc("compile", program, "--check", "--effort", "0.02", "--require-optimal").code == 5
