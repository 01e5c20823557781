"""One request gives the same in each format."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import dsl
from tests.cli.command import Admc
from tests.cost.traces.samples import CALLS, HEAD, PROGRAM, csv, jaeger, otlp, parquet, rows, spans

REQUEST = """\
request web on internet -> web {
  rate 1/s
  work WORK
  together {
    call rate { work 18ms }
    call search {
      work 12ms
      call geo { times 2  work 3ms }
    }
  }
  async call audit { work 98ms }
}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two equal requests, a second apart, in each format."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.adm").write_text(PROGRAM)
    table = rows() + rows(trace="t2", at=2000)
    both = spans() + spans(trace="t2", at=2000)
    newer = [(*row[:2], "S_1", *row[2:]) for row in table]
    names_2022 = ("timestamp", "traceid", "service", "rpc_id", "um", "rpctype", "interface", "dm", "rt")
    return {
        "2021.csv": csv(tmp_path / "2021.csv", table),
        "2022.csv": csv(tmp_path / "2022.csv", newer, names_2022),
        "table.parquet": parquet(tmp_path / "table.parquet", table),
        "document.json": otlp(tmp_path / "document.json", both),
        "lines.json": otlp(tmp_path / "lines.json", both, lines=True),
        "jaeger.json": jaeger(tmp_path / "jaeger.json", both),
    }


def _added(admc: Admc, *files: Path, program: str = "shop.adm") -> Any:
    run = admc("overhead", program, *(word for file in files for word in ("--traces", file)), "--format", "json")
    assert run.code == 0, run.err
    return json.loads(run.out)


NAMES = ("2021.csv", "2022.csv", "table.parquet", "document.json", "lines.json", "jaeger.json")


@pytest.mark.parametrize("name", NAMES)
def test_requests_of_each_format(admc: Admc, files: dict[str, Path], name: str) -> None:
    run = admc("import", "traces", files[name], "--program", "shop.adm")
    assert (run.code, run.err) == (0, "")
    # 48 ms of the callee, of which it waits 25 for the two calls.
    assert run.out == f"// Of traces: 2 requests with 12 calls, 1 requests/s.\n\n// 2 traces\n{REQUEST}".replace(
        "WORK", "23ms"
    )


@pytest.mark.parametrize("name", NAMES[1:])
def test_all_formats_are_evaluated_alike(admc: Admc, files: dict[str, Path], name: str) -> None:
    one, other = _added(admc, files["2021.csv"]), _added(admc, files[name])
    for part in ("taken", "plan", "full_mesh", "dropped"):
        assert other[part] == one[part]


def test_the_evaluation_is_that_of_the_request(admc: Admc, files: dict[str, Path], tmp_path: Path) -> None:
    """`import`, then `overhead` of the program with that request."""
    assert admc("import", "traces", files["2021.csv"], "-o", "requests.adm", "--program", "shop.adm").code == 0
    text = (tmp_path / "requests.adm").read_text()
    (tmp_path / "with.adm").write_text(PROGRAM + text)
    request = json.loads(admc("overhead", "with.adm", "--format", "json").out)["requests"][0]
    traces = _added(admc, files["2021.csv"])
    assert request["plan"]["latency_mean"]["value"] == traces["plan"]["latency"]["p50"] > 0
    assert request["full_mesh"]["latency_mean"]["value"] == traces["full_mesh"]["latency"]["max"] > 0
    # CPU of traces is rounded for each call.
    rounding = len(CALLS) / 2
    cpu = request["plan"]["cpu_of_request"]["value"]
    assert traces["plan"]["cpu"]["p99"] == pytest.approx(cpu, abs=rounding)
    assert cpu > 100 * rounding


def test_added_latency_by_hand(admc: Admc, files: dict[str, Path]) -> None:
    """Hops of the full mesh, at 167.25 us each: one at `web`; two to `rate`; two to `search`, and two for each of its
    two calls. Without a mesh, `search` with 18 ms of work ties with `rate`."""
    document = _added(admc, files["document.json"])
    hop = 167_250
    assert document["full_mesh"]["latency"]["p50"] >= 7 * hop
    assert document["full_mesh"]["latency"]["p50"] < 8 * hop


def test_lines_may_be_in_any_order(admc: Admc, files: dict[str, Path], tmp_path: Path) -> None:
    expected = _added(admc, files["lines.json"])
    lines = files["lines.json"].read_text().splitlines(keepends=True)
    random.Random(3).shuffle(lines)  # noqa: S311
    (tmp_path / "one.json").write_text("".join(lines[:9]))
    (tmp_path / "other.json").write_text("".join(lines[9:]))
    assert _added(admc, tmp_path / "one.json", tmp_path / "other.json") == expected


def test_several_formats_at_once(admc: Admc, files: dict[str, Path]) -> None:
    document = _added(admc, files["2021.csv"], files["jaeger.json"], files["document.json"])
    assert document["taken"]["requests"] == 6
    assert document["plan"]["latency"] == _added(admc, files["2021.csv"])["plan"]["latency"]


def test_a_share_scales_rates_alone(admc: Admc, files: dict[str, Path]) -> None:
    whole = _added(admc, files["2021.csv"])
    run = admc("overhead", "shop.adm", "--traces", files["2021.csv"], "--sampled", "1%", "--format", "json")
    part = json.loads(run.out)
    assert part["taken"]["rate"] == 100 * whole["taken"]["rate"] == 100
    assert part["plan"]["cores"] == 100 * whole["plan"]["cores"]
    assert part["plan"]["latency"] == whole["plan"]["latency"]
    assert "rate 100/s" in admc("import", "traces", files["2021.csv"], "--sampled", "1%").out
    for wrong in ("0%", "101%", "1", "much"):
        run = admc("import", "traces", files["2021.csv"], "--sampled", wrong)
        assert (run.code, "ADM801" in run.err) == (1, True)


def test_a_share_needs_traces(admc: Admc, files: dict[str, Path]) -> None:
    run = admc("overhead", "shop.adm", "--sampled", "1%")
    assert (run.code, "`--sampled` is about traces" in run.err) == (1, True)


def test_without_a_program_names_are_taken_as_they_are(admc: Admc, files: dict[str, Path]) -> None:
    for name in NAMES:
        run = admc("import", "traces", files[name])
        assert (run.code, run.out.partition("\n\n")[2].partition("\n")[2]) == (0, REQUEST.replace("WORK", "23ms"))


def test_imported_requests_are_in_canonical_layout(admc: Admc, files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "requests.adm"
    run = admc("import", "traces", files["lines.json"], "-o", out)
    assert (run.code, run.err) == (0, "")
    assert run.out == f"2 requests with 12 calls, 1 requests/s\nwrote 1 request to `{out}`\n"
    assert admc("fmt", "--check", out).code == 0
    program = dsl.load_text(PROGRAM + out.read_text())
    assert [request.name for request in program.requests] == ["web"]


def test_csv_without_pyarrow_says_what_to_install(
    admc: Admc, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    run = admc("overhead", "shop.adm", "--traces", files["2021.csv"])
    assert run.code == 1
    assert "ADM881" in run.err
    assert "pip install 'admc[traces]'" in run.err
    assert admc("overhead", "shop.adm", "--traces", files["lines.json"]).code == 0


def test_text(admc: Admc, files: dict[str, Path]) -> None:
    out = admc("overhead", "shop.adm", "--traces", files["2021.csv"]).out
    assert out.startswith("shop, by the profile meshinsight: 2 requests with 12 calls, 1 requests/s\n")
    assert "plan " in out
    assert "dropped" not in out


def test_columns_may_stand_in_any_order(admc: Admc, files: dict[str, Path], tmp_path: Path) -> None:
    turned = csv(tmp_path / "turned.csv", [row[::-1] for row in rows() + rows(trace="t2", at=2000)], HEAD[::-1])
    assert _added(admc, turned)["plan"] == _added(admc, files["2021.csv"])["plan"]
    assert len(CALLS) == 6


@pytest.mark.parametrize("name", ["document.json", "lines.json", "jaeger.json"])
def test_blank_lines_are_passed_over(admc: Admc, files: dict[str, Path], name: str) -> None:
    plain = admc("import", "traces", files[name])
    files[name].write_text(" \n\n" + files[name].read_text().replace("\n", "\r\n") + "\n\n")
    blank = admc("import", "traces", files[name])
    assert (blank.code, blank.out) == (0, plain.out)


@pytest.mark.parametrize("name", ["2021.csv", "document.json", "lines.json", "jaeger.json"])
def test_a_byte_order_mark_is_passed_over(admc: Admc, files: dict[str, Path], name: str) -> None:
    plain = admc("import", "traces", files[name])
    files[name].write_bytes(b"\xef\xbb\xbf" + files[name].read_bytes())
    marked = admc("import", "traces", files[name])
    assert (marked.code, marked.out) == (0, plain.out)


@pytest.mark.parametrize("name", ["document.json", "jaeger.json"])
def test_a_parent_of_zeros_is_none(admc: Admc, files: dict[str, Path], name: str) -> None:
    plain = admc("import", "traces", files[name])
    text = files[name].read_text().replace('"parentSpanId": ""', f'"parentSpanId": "{"0" * 16}"')
    none = {"refType": "CHILD_OF", "traceID": "t1", "spanID": "0" * 16}
    files[name].write_text(text.replace('"references": []', f'"references": [{json.dumps(none)}]'))
    zeros = admc("import", "traces", files[name])
    assert (zeros.code, zeros.out) == (0, plain.out)
