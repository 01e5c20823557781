"""Fixtures of the tests of differences."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.review.diff.harness import MAIN, GitRepository, write
from tests.review.diff.sides import LOOSER, SHOP


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    """`main` has SHOP, and the working tree LOOSER."""
    found = GitRepository(tmp_path / "repository")
    found.commit({MAIN: SHOP})
    write(found.folder, {MAIN: LOOSER})
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return found
