"""Fixtures of the application's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Admc
from tests.cli.programs import SHOP, write


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path, SHOP)
