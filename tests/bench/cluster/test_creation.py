"""The benchmark of creation works, with few pods; no test judges its figures."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tests.bench.cluster.creation import SERVICES, creation
from tests.bench.errors import SkippedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.cluster
def test_a_few_pods_are_created_with_and_without(tmp_path: Path) -> None:
    output = io.StringIO()
    try:
        found = creation(Console(file=output, width=140), tmp_path, 3)
    except SkippedError as error:
        pytest.skip(str(error))
    assert [created.services for created in found] == list(SERVICES)
    assert all(len(created.with_admc) == len(created.without) == 3 for created in found)
    assert "Creation of 3 pods" in output.getvalue()
