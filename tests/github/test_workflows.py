"""What users copy and call on GitHub: well-formed by `actionlint`, safe by `zizmor`, with no right it can spare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.golang import MissingError, build

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / "examples/github").glob("*.yml"))
ACTION = ROOT / "action.yml"


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False)


def test_actionlint_finds_nothing() -> None:
    try:
        actionlint = build(
            Path(__file__).parent / "actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint"
        )
    except MissingError as error:
        pytest.skip(str(error))
    done = run(actionlint, "-no-color", *WORKFLOWS)
    assert (done.returncode, done.stdout) == (0, "")


def test_zizmor_finds_nothing_but_the_exception_with_a_reason() -> None:
    """`workflow_run` is dangerous where a job takes files of the pull request; the comment in the file says why not."""
    zizmor = Path(sys.executable).with_name("zizmor")
    done = run(zizmor, "--offline", "--no-progress", "--color=never", "--persona=pedantic", *WORKFLOWS, ACTION)
    assert done.returncode == 0, done.stdout
    assert "No findings to report" in done.stdout + done.stderr
    ignored = [line for path in WORKFLOWS for line in path.read_text("utf-8").splitlines() if "zizmor: ignore" in line]
    assert len(ignored) == 1
    assert "ignore[dangerous-triggers] no file" in ignored[0]


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_nothing_of_the_event_stands_in_a_script_and_actions_are_pinned(path: Path) -> None:
    document = yaml.safe_load(path.read_text("utf-8"))
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
    for step in (step for job in jobs for step in job["steps"]):
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert len(step["uses"].partition("@")[2]) == 40


def test_each_job_has_the_rights_that_it_needs() -> None:
    found: dict[str, dict[str, str]] = {}
    for path in WORKFLOWS:
        document = yaml.safe_load(path.read_text("utf-8"))
        assert document["permissions"] == {}
        found |= {name: job["permissions"] for name, job in document["jobs"].items()}
    assert found == {
        "policies": {"contents": "read"},
        "compute": {"contents": "read", "pull-requests": "read"},
        "comment": {"pull-requests": "write"},
    }
