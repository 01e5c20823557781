"""Runs command lines of admc for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from admc.__main__ import main

ROOT = Path(__file__).parents[2]


class Run(NamedTuple):
    code: int
    out: str
    err: str


class Admc:
    """Runs command lines in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str | Path) -> Run:
        code = main([str(argument) for argument in arguments])
        out, err = self._capfd.readouterr()
        return Run(code, out, err)


def process(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "admc", *arguments],
        cwd=cwd,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=60,
    )
