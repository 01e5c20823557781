"""Fixtures of the tests of injection."""

from __future__ import annotations

import pytest

from tests.cli.command import Admc


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)
