"""A folder for an Envoy that runs as another user."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that an Envoy of another user can read; pytest's own folders are root's."""
    with tempfile.TemporaryDirectory(prefix="admc-pod-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
