"""`make setup` takes minutes: it says what it does before each step, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_each_step_is_said_before_it_begins(tmp_path: Path) -> None:
    run = subprocess.run(
        ["make", "--no-print-directory", "-n", "setup", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = run.stdout.splitlines()
    said = [re.fullmatch(r'echo "setup (\d)/(\d): .+ \(.+\)"', line) for line in lines]
    steps = [(int(found[1]), int(found[2])) for found in said if found]
    assert steps == [(number, len(steps)) for number in range(1, len(steps) + 1)]
    slow = [at for at, line in enumerate(lines) if re.search(r" -m (venv|pip|compileall) ", line)]
    assert len(slow) == len(steps)
    assert all(said[at - 1] for at in slow)
    assert all("--quiet" in lines[at] for at in slow if " -m pip " in lines[at])
    recipe = (ROOT / "Makefile").read_text().partition("$(STAMP):")[2].partition("demo:")[0]
    assert all(line.startswith("\t@") for line in recipe.splitlines()[1:] if line)
