"""The pods of the benchmark are those of a cluster: `admc advise` reads them, and their size is what is promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.istio.pods import write
from tests.cli.command import Admc


def test_pods_have_275_lines_and_are_read_from_both_forms(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    json_, yaml_ = write(tmp_path, 20)
    lines = yaml_.read_text(encoding="utf-8").count("\n") / 20
    assert 270 < lines < 280
    admc = Admc(capfd)
    for path in (json_, yaml_):
        run = admc("advise", path)
        assert (run.code, run.err) == (0, "")
        assert run.out.startswith("20 sidecars today (20 pods), by the container `istio-proxy`;")
