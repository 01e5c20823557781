"""Every code that any part of admc can show is registered, explained and in its range."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from admc.__main__ import main
from admc.cli.codes import OWN, registry
from admc.cli.explain import ExplainFormat, explain

ROOT = Path(__file__).parents[2]
PACKAGES = ("admc", "dsl", "solver", "emitters", "xds_server")


def test_all_codes_in_the_source_are_registered() -> None:
    known = registry()
    missing: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.stem.startswith("codes"):
                continue
            for code in re.findall(r"\bADM[0-9]{3}\b", path.read_text(encoding="utf-8")):
                if code not in known:
                    missing[code] = str(path.relative_to(ROOT))
    assert not missing


def test_no_package_takes_the_code_of_another() -> None:
    from dsl.diagnostics.codes import CODES as LANGUAGE
    from emitters.codes.cluster import CODES as CLUSTER
    from emitters.codes.envoy import CODES as ENVOY

    assert len(registry()) == len(LANGUAGE) + len(ENVOY) + len(CLUSTER) + len(OWN)
    assert all(code[3] in "012345" for code in LANGUAGE)
    assert all(code[3] == "7" for code in (*ENVOY, *CLUSTER))
    assert all(code[3] in "689" for code in OWN)


def test_no_code_of_the_application_is_left_over() -> None:
    modules = [path for path in (ROOT / "admc").rglob("*.py") if not path.stem.startswith("codes")]
    policies = (ROOT / "deploy" / "chart" / "templates").glob("*.yaml")
    source = "".join(path.read_text(encoding="utf-8") for path in (*modules, *policies))
    assert {code for code in OWN if code[3] != "6" and code not in source} == set()


def test_every_placement_rule_has_a_code() -> None:
    from solver.placement import Rule

    assert {f"ADM{600 + int(rule.value[1:])}" for rule in Rule} == {code for code in OWN if code[3] == "6"}


@pytest.mark.parametrize("code", sorted(OWN))
def test_entries_are_written_like_messages(code: str) -> None:
    entry = registry()[code]
    assert entry.title[0].islower() or entry.title.startswith(("`", "admc"))
    assert not entry.title.endswith(".")
    assert entry.explanation.endswith(".")


def test_every_code_can_be_explained(capfd: pytest.CaptureFixture[str]) -> None:
    for code in registry():
        assert explain(code, format_=ExplainFormat.JSON) == 0
        assert json.loads(capfd.readouterr().out)["subject"] == code
    assert main(["explain", "adm606"]) == 0
    out = capfd.readouterr().out
    assert "declared order" in out
    assert "wrong:" in out


def test_the_wrong_and_right_examples_of_placement_codes(tmp_path: Path) -> None:
    """A bad example gives its code, and its remedy compiles."""
    from admc.base.exits import CommandError
    from admc.compile.pipeline import compile_program

    tried = 0
    for code, entry in OWN.items():
        if code[3] != "6" or not entry.bad:
            continue
        tried += 1
        path = tmp_path / "policies.adm"
        path.write_text(entry.bad + "\n")
        with pytest.raises(CommandError) as error:
            compile_program(path)
        assert [item.code for item in error.value.diagnostics] == [code]
        path.write_text(entry.good + "\n")
        assert compile_program(path).plan.adms
    assert tried >= 6
