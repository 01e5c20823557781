"""Fixtures of the tests of `admc doctor --cluster`."""

from __future__ import annotations

import pytest

from tests.cli.command import Admc


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)
