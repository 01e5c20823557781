"""`admc report` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admc.review.diff.render import json as diff_json
from tests.cli.command import Admc
from tests.cli.programs import IMPOSSIBLE, SHOP, WRONG, write
from tests.istio.ten_meshes import FOLDER, as_json
from tests.review.diff.rendering.cases import EXAMPLE
from tests.review.report.markup import Markup


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path, SHOP)


def shown(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(Markup(path.read_bytes()).block("script", "application/json")[0])
    return found


def test_a_program_becomes_a_page(admc: Admc, shop: Path, tmp_path: Path) -> None:
    target = tmp_path / "shop.html"
    run = admc("report", shop, "-o", target)
    assert (run.code, run.err) == (0, "")
    assert run.out == f"wrote `{target}`\n"
    assert shown(target)["title"] == "shop: the plan"
    assert admc("report", shop, "-o", target).out == f"`{target}` is up to date\n"


def test_the_plan_beside_a_program_is_taken_if_it_fits(admc: Admc, shop: Path, tmp_path: Path) -> None:
    target = tmp_path / "shop.html"
    assert admc("compile", shop).code == 0
    admc("report", shop, "-o", target)
    assert "the plan beside it" in str(shown(target)["facts"])
    shop.write_text(SHOP.replace("requests: 400", "requests: 4"), encoding="utf-8")
    admc("report", shop, "-o", target)
    assert "compiled, since" in str(shown(target)["facts"])


def test_a_plan_alone_is_enough(admc: Admc, shop: Path, tmp_path: Path) -> None:
    admc("compile", shop)
    shop.unlink()
    target = tmp_path / "shop.html"
    assert admc("report", tmp_path / "policies.plan.json", "-o", target).code == 0
    assert shown(target)["title"] == "shop: the plan"


def test_a_saved_difference_becomes_a_page(admc: Admc, tmp_path: Path) -> None:
    saved, target = tmp_path / "DIFF.json", tmp_path / "diff.html"
    saved.write_text(diff_json.render(EXAMPLE), encoding="utf-8")
    assert admc("report", saved, "-o", target).code == 0
    assert shown(target)["title"] == "hotel_reservation: what changes"


def test_a_saved_advice_becomes_a_page(admc: Admc, tmp_path: Path) -> None:
    saved, target = tmp_path / "ADVICE.json", tmp_path / "advice.html"
    mesh = FOLDER / "principals.yaml"
    run = admc("advise", mesh, "--format", "json")
    saved.write_text(run.out, encoding="utf-8")
    run = admc("report", saved, "-o", target)
    assert (run.code, run.out) == (0, f"wrote `{target}`\n")
    page = shown(target)
    assert page["title"] == "The sidecars of the mesh: what they do, and why they are there"
    assert "6 of 9 sidecars do something that a resource asks for; 3 do not" in str(page["facts"])
    # The order of keys does not matter.
    saved.write_text(json.dumps(json.loads(saved.read_text(encoding="utf-8")), sort_keys=True), encoding="utf-8")
    assert admc("report", saved, "-o", target).out == f"`{target}` is up to date\n"


def test_findings_alone_are_no_advice(admc: Admc, tmp_path: Path) -> None:
    saved, target = tmp_path / "ADVICE.json", tmp_path / "advice.html"
    saved.write_text(admc("advise", FOLDER / "undeclared.yaml", "--format", "json").out, encoding="utf-8")
    run = admc("report", saved, "-o", target)
    assert run.code == 1
    assert "error[ADM994]" in run.err
    assert "unless `--keep-going` is given" in run.err
    assert not target.exists()


@pytest.mark.parametrize("content", ["", "{}", "[]", as_json("principals")[:-100], '{"schema_version": 1}', "\x00"])
def test_what_is_of_no_kind_has_a_hint_for_both(admc: Admc, tmp_path: Path, content: str) -> None:
    saved = tmp_path / "ANSWER.json"
    saved.write_text(content, encoding="utf-8")
    run = admc("report", saved, "-o", tmp_path / "page.html")
    assert run.code == 1
    assert "error[ADM839]" in run.err
    assert "is neither a difference nor an advice" in run.err
    assert "`admc diff BASE HEAD" in run.err
    assert "`admc advise PATH..." in run.err


@pytest.mark.parametrize("change", [{"schema_version": 2}, {"unknown": 1}, {"free": "3"}])
def test_a_changed_advice_is_refused(admc: Admc, tmp_path: Path, change: dict[str, object]) -> None:
    saved, target = tmp_path / "ADVICE.json", tmp_path / "advice.html"
    saved.write_text(json.dumps({**json.loads(as_json("principals")), **change}), encoding="utf-8")
    run = admc("report", saved, "-o", target)
    assert run.code == 1
    assert "ADM994" in run.err
    assert not target.exists()


@pytest.mark.parametrize("target", ["page.txt", "page", "page.json"])
def test_a_page_has_the_ending_of_one(admc: Admc, shop: Path, tmp_path: Path, target: str) -> None:
    run = admc("report", shop, "-o", tmp_path / target)
    assert run.code == 1
    assert "ADM801" in run.err + run.out
    assert not (tmp_path / target).exists()


def test_the_file_has_to_be_named(admc: Admc, shop: Path) -> None:
    run = admc("report", shop)
    assert run.code == 1
    assert "-o" in run.err + run.out


@pytest.mark.parametrize(("text", "code"), [(WRONG, 1), (IMPOSSIBLE, 3)])
def test_a_program_without_a_plan_writes_nothing(admc: Admc, tmp_path: Path, text: str, code: int) -> None:
    target = tmp_path / "page.html"
    assert admc("report", write(tmp_path, text), "-o", target).code == code
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "code"), [("{", "ADM839"), ('{"schema_version": 1}', "ADM839"), ('{"schema_version": 99}', "ADM839")]
)
def test_a_broken_difference_is_refused(admc: Admc, tmp_path: Path, content: str, code: str) -> None:
    saved, target = tmp_path / "DIFF.json", tmp_path / "diff.html"
    saved.write_text(content, encoding="utf-8")
    run = admc("report", saved, "-o", target)
    assert run.code == 1
    assert code in run.err + run.out
    assert not target.exists()


def test_a_saved_difference_takes_no_options_of_programs(admc: Admc, tmp_path: Path) -> None:
    saved = tmp_path / "DIFF.json"
    saved.write_text(diff_json.render(EXAMPLE), encoding="utf-8")
    run = admc("report", saved, "-o", tmp_path / "diff.html", "--effort", "2")
    assert run.code == 1
    assert "as it is" in run.err + run.out


def test_an_effort_has_to_be_above_zero(admc: Admc, shop: Path, tmp_path: Path) -> None:
    assert admc("report", shop, "-o", tmp_path / "page.html", "--effort", "0").code == 1


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("-", "standard input is not read here"),
        ("HEAD", "`HEAD` names no program and no plan"),
        ("no.adm", "no such file"),
    ],
)
def test_what_is_no_program_is_refused_in_words_about_one(
    admc: Admc, tmp_path: Path, subject: str, message: str
) -> None:
    run = admc("report", subject, "-o", tmp_path / "page.html")
    assert run.code == 1
    assert message in run.err + run.out
