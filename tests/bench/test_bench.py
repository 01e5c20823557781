"""The benchmark itself works; no test judges its figures."""

from __future__ import annotations

import sys

import pytest

from tests.bench import __main__ as bench
from tests.bench.measure import run, spread


@pytest.mark.long
def test_a_suite_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--only", "hotel", "--runs", "1"]) == 0
    output = capsys.readouterr().out
    for word in ("admc compile examples/hotel_reservation", "parse", "verify", "write", "4 ADMs for 17 services"):
        assert word in output


def test_an_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--only", "everything"])
    assert "everything" in capsys.readouterr().err


def test_what_a_machine_cannot_measure_is_said_and_fails_only_where_it_was_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.bench.cost.suite.missing", lambda: ("`iptables-restore`",))
    monkeypatch.setattr(bench, "SUITES", ("cost",))
    assert bench.main([]) == 0
    assert (
        "skipped: the mesh needs `iptables-restore`. Skipped without it: what a mesh costs" in capsys.readouterr().out
    )
    with pytest.raises(SystemExit, match="needs `iptables-restore`"):
        bench.main(["--only", "cost"])


def test_a_run_knows_time_memory_and_exit_code() -> None:
    done = run([sys.executable, "-c", "import sys; b = bytearray(50_000_000); print(len(b)); sys.exit(3)"])
    assert (done.code, done.output) == (3, b"50000000\n")
    assert done.rss > 50_000_000
    assert done.wall > 0


def test_a_spread_is_median_lowest_and_highest() -> None:
    assert spread([3.0, 1.0, 9.0]) == (3.0, 1.0, 9.0, 3)
