"""The suite itself works; no test judges its figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.errors import SkippedError
from tests.bench.traces import suite


@pytest.mark.long
def test_the_suite_prints_its_table_and_removes_its_files(tmp_path: Path) -> None:
    console = Console(record=True, width=200)
    suite.traces(console, tmp_path, runs=1, count=300)
    text = console.export_text()
    assert "csv" in text
    assert "parquet" in text
    assert "added latency, us" in text
    assert {path.name for path in tmp_path.iterdir()} == {"traced.adm"}


def test_without_disk_the_suite_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "DISK", 1 << 62)
    with pytest.raises(SkippedError, match="MB of disk"):
        suite.traces(Console(), tmp_path, runs=1)
