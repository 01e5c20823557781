"""The plans of the examples are committed beside their programs, as those of a user are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from admc.__main__ import main
from tests.cli.command import ROOT
from tests.examples.test_examples import EXAMPLES

PROGRAMS = [Path("examples") / name / "policies.adm" for name in EXAMPLES]


def git(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no repository of Git")
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parent.name)
def test_the_plan_is_the_one_of_its_program(
    program: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m tests.examples.golden` writes them anew."""
    monkeypatch.chdir(ROOT)
    assert main(["compile", str(program), "--check"]) == 0, capfd.readouterr().err


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parent.name)
def test_git_has_the_plan_and_does_not_merge_it(program: Path) -> None:
    plan = program.with_name("policies.plan.json").as_posix()
    assert git("check-ignore", "--quiet", "--no-index", plan).returncode == 1
    attributes = git("check-attr", "merge", "linguist-generated", "--", plan).stdout
    assert attributes.splitlines() == [f"{plan}: merge: unset", f"{plan}: linguist-generated: set"]
    assert git("ls-files", "--error-unmatch", plan).returncode == 0


def test_git_ignores_plans_elsewhere() -> None:
    assert git("check-ignore", "--quiet", "--no-index", "tests/policies.plan.json").returncode == 0
