from __future__ import annotations

import pytest

from tests.admc.command import Admc


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)
