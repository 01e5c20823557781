"""The recipe for GitLab in docs/ci.md, run as its runner does, in a real repository of git."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.github.test_scripts import BASE, BROKEN, GATES, ROOT, WEAKER, Repository, planned

pytestmark = pytest.mark.long
SHOP = "policies/shop.adm"
TEST = "test few = adms <= 9\n"
FAILING = "test few = adms <= 0\n"


def recipe() -> dict[str, Any]:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    (block,) = (part.partition("```")[0] for part in page.split("```yaml\n") if part.startswith("policies:"))
    job: dict[str, Any] = yaml.safe_load(block)["policies"]
    return job


def ran(folder: Path, base: dict[str, str], head: dict[str, str]) -> tuple[int, str, Path]:
    """The exit code, the log and the folder of a merge request. All lines are one script, which ends at an error."""
    repository = Repository(folder / "repository")
    before = repository.commit(base)
    repository.commit(head)
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "admc").write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m admc "$@"\n', "utf-8")
    (bin_ / "admc").chmod(0o755)
    environment = {
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "HOME": str(folder),
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": before,
    }
    script = "\n".join(["set -eo pipefail", *recipe()["script"]])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc"],
        input=script,
        cwd=repository.work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, repository.work


def files(folder: Path, text: str, test: str) -> dict[str, str]:
    plan = {} if text == BROKEN else {"policies/shop.plan.json": planned(folder, text, "shop.adm")}
    return {SHOP: text, "policies/shop.gates.adm": GATES, "policies/shop.test.adm": test, **plan}


@pytest.mark.parametrize(
    ("text", "test", "code", "failed"),
    [
        pytest.param(BASE, TEST, 0, 0, id="nothing"),
        pytest.param(WEAKER, TEST, 4, 2, id="a breach"),
        pytest.param(BASE, FAILING, 4, 1, id="a failing test"),
        pytest.param(WEAKER, FAILING, 4, 3, id="both"),
    ],
)
def test_all_artifacts_are_written_and_then_the_job_fails(
    tmp_path: Path, text: str, test: str, code: int, failed: int
) -> None:
    found, log, work = ran(tmp_path, files(tmp_path, BASE, TEST), files(tmp_path, text, test))
    assert found == code, log
    artifacts = recipe()["artifacts"]
    assert artifacts["when"] == "always"
    counted = 0
    for name in artifacts["reports"]["junit"]:
        counted += len(Xml.parse(work / name).getroot().findall(".//failure"))  # noqa: S314 - admc has written it
    assert counted == failed
    (sarif,) = artifacts["paths"]
    assert bool(json.loads((work / sarif).read_text("utf-8"))["runs"][0]["results"]) is (text == WEAKER)


def test_a_stale_plan_alone_fails_the_job_after_its_artifacts(tmp_path: Path) -> None:
    stale = {
        **files(tmp_path, WEAKER.replace("gate", "gate"), TEST),
        "policies/shop.plan.json": planned(tmp_path, BASE),
    }
    found, log, work = ran(tmp_path, {**files(tmp_path, BASE, TEST), "policies/shop.gates.adm": ""}, stale)
    assert found == 1, log
    assert "ADM815" in log
    assert (work / "difference.xml").exists()
    assert (work / "tests.xml").exists()


def test_a_broken_program_fails_the_job_with_reports_of_its_errors(tmp_path: Path) -> None:
    found, log, work = ran(tmp_path, files(tmp_path, BASE, TEST), files(tmp_path, BROKEN, TEST))
    assert found == 1, log
    assert Xml.parse(work / "tests.xml").getroot().findall(".//error")  # noqa: S314 - admc has written it
