"""Files of strangers: each mistake is an error with a place, and none is a crash."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.base.exits import CommandError
from admc.cost.traces.report import _distribution
from admc.cost.traces.requests import imported
from tests.cli.command import Admc
from tests.cost.traces.samples import HEAD, PROGRAM, csv, jaeger, otlp, parquet, rows, spans
from tests.properties import examples


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.adm").write_text(PROGRAM)
    return tmp_path


TEXTS: dict[str, tuple[str, str]] = {
    "no json": ("{ resourceSpans", "line 1: it is no JSON"),
    "cut off": ('{"resourceSpans": [\n{"scopeSpans": [', "it is no JSON"),
    "a later line": ('{"resourceSpans": []}\n{"resourceSpans": [}\n', "line 2: it is no JSON"),
    "another document": ('{"resourceSpans": []}\n{"spans": []}\n', "the document on line 2 has neither"),
    "a list": ("[1, 2]", "the document on line 1 has neither"),
    "not a number": ('{"resourceSpans": [], "x": NaN}', "a number or text that cannot be read"),
    "a long number": ('{"resourceSpans": [], "x": ' + "9" * 5000 + "}", "a number or text that cannot be read"),
    "deep": ('{"resourceSpans": ' + "[" * 100_000 + "]" * 100_000 + "}", "it is nested too deep"),
    "empty": ("", "it has no row"),
    "one line": ("timestamp,traceid", "it has no row"),
    "a missing column": (",".join(HEAD).replace("rt", "r") + "\n1,2\n", "the column `rt` is missing"),
    "a column twice": (",".join((*HEAD, "um")) + "\n1,2\n", "the column `um` stands twice"),
    "a short row": (",".join(HEAD) + "\n1,2,3\n", "row 1 has 3 cells, and the header has 8"),
    "no time": (
        ",".join(HEAD) + "\n1,t1,0,,http,x,web,5\nnow,t1,0,,http,x,web,5\n",
        "row 2: the column `timestamp` holds `now`, and not a number",
    ),
    "binary": ("\x00\x01\x02\n\x03\n", "the column `traceid` is missing"),
}


@pytest.mark.parametrize("case", sorted(TEXTS))
def test_texts(admc: Admc, folder: Path, case: str) -> None:
    text, said = TEXTS[case]
    (folder / "bad").write_text(text)
    run = admc("overhead", "shop.adm", "--traces", "bad")
    assert (run.code, run.out) == (1, "")
    assert "ADM880" in run.err
    assert "`bad` cannot be read as traces" in run.err
    assert said in run.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"timestamp", mtime=0), "it is compressed by gzip"),
        (",".join(HEAD).encode("utf-16"), "its text is UTF-16"),
        (
            (",".join(HEAD) + "\n").encode() + b"1,t1,0,,http,x,w\xff,5\n",
            "the column `dm` holds text that is not UTF-8",
        ),
    ],
)
def test_bytes_that_are_no_text(admc: Admc, folder: Path, content: bytes, said: str) -> None:
    (folder / "bad").write_bytes(content)
    run = admc("overhead", "shop.adm", "--traces", "bad")
    assert (run.code, "ADM880" in run.err, said in run.err) == (1, True, True), run.err


def test_the_row_of_a_mistake_is_counted_over_blocks(admc: Admc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.cost.traces.alibaba.BLOCK", 2000)
    many = [(1000, f"t{at}", "0", "(?)", "http", "x", "web", 5) for at in range(500)]
    csv(folder / "bad.csv", [*many, (1000, "t", "0", "(?)", "http", "x", "web", "soon")])
    assert "row 501: the column `rt` holds `soon`" in admc("overhead", "shop.adm", "--traces", "bad.csv").err


def test_a_column_that_was_meant(admc: Admc, folder: Path) -> None:
    csv(folder / "bad.csv", rows(), ("timestamp", "trace_id", "rpcid", "um", "rpctype", "interface", "dm", "rt"))
    assert "did you mean `trace_id`?" in admc("import", "traces", "bad.csv").err


SPAN = {"traceId": "t", "spanId": "s", "kind": 2, "startTimeUnixNano": "5", "endTimeUnixNano": "6"}
STRANGE: tuple[Any, ...] = (
    {"resourceSpans": 5},
    {"resourceSpans": {"scopeSpans": 5}},
    {"resourceSpans": [5, None, [], {"resource": 7, "scopeSpans": [{"spans": [4, {}]}]}]},
    {"resourceSpans": [{"resource": {"attributes": {"key": 5}}, "scopeSpans": [{"spans": {"traceId": "t"}}]}]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, "traceId": 7}]}]}]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, "startTimeUnixNano": 1.5}]}]}]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, "endTimeUnixNano": "9" * 20}]}]}]},
    {"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, "kind": 99, "spanId": "x" * 1000}]}]}]},
    {"data": "spans"},
    {"data": [{"spans": [{"traceID": "t", "spanID": "s", "startTime": 5, "duration": True, "processID": []}]}]},
    {"data": [{"spans": [{"traceID": "t", "spanID": "s", "references": [[], {"refType": "CHILD_OF"}]}]}]},
    {"data": [{"spans": [{"traceID": "t", "tags": [{"key": []}, {"key": "span.kind", "value": {}}]}]}]},
)


@pytest.mark.parametrize("document", STRANGE)
def test_documents_of_another_form(admc: Admc, folder: Path, document: Any) -> None:
    (folder / "strange.json").write_text(json.dumps(document))
    run = admc("overhead", "shop.adm", "--traces", "strange.json")
    assert (run.code, "ADM882" in run.err) == (1, True)


BAD_CELLS: dict[str, tuple[int, Any]] = {
    "no trace": (1, ""),
    "no id": (2, ""),
    "an id of words": (2, "0.x"),
    "an id with a gap": (2, "0..1"),
    "a deep id": (2, ".".join("1" * 500)),
    "a time without end": (0, "inf"),
    "no time": (0, ""),
    "a large time": (0, "1e300"),
    "a time that is none in nanoseconds": (0, "9e12"),
    "a long call": (7, "1e15"),
    "no duration": (7, "nan"),
}


@pytest.mark.parametrize("case", sorted(BAD_CELLS))
def test_a_trace_with_a_row_that_cannot_be_used_is_dropped(admc: Admc, folder: Path, case: str) -> None:
    """Which call the row is about is not known, so the trace may not be whole. A row without a trace is of no trace."""
    at, value = BAD_CELLS[case]
    damaged = [list(row) for row in rows(trace="bad", at=5000)]
    damaged[-1][at] = value
    file = csv(folder / "calls.csv", [*rows(), *damaged])
    document = json.loads(admc("overhead", "shop.adm", "--traces", file, "--format", "json").out)
    assert document["taken"]["skipped"] == 1
    if case == "no trace":
        assert (document["taken"]["requests"], document["dropped"]) == (2, [])
    else:
        (dropped,) = document["dropped"]
        assert (dropped["code"], dropped["requests"], document["taken"]["requests"]) == ("ADM893", 1, 1)
        assert dropped["first"] == {"file": str(file), "what": "row", "number": 11, "trace": "bad"}
    text = admc("overhead", "shop.adm", "--traces", file).out
    assert f"without a usable trace, id, time or kind (ADM893); the first: row 20 of `{file}`" in text


def test_whole_traces_after_a_dropped_one_are_the_same_as_without_it(admc: Admc, folder: Path) -> None:
    damaged = [list(row) for row in rows(trace="bad", at=0)]
    damaged[-1][0] = ""
    alone, after = (
        csv(folder / f"{name}.csv", found) for name, found in (("alone", rows()), ("after", [*damaged, *rows()]))
    )
    one, other = (imported(SHOP, [file], Fraction(1)) for file in (alone, after))
    assert one.requests == other.requests
    figures = [
        json.loads(admc("overhead", "shop.adm", "--traces", file, "--format", "json").out) for file in (alone, after)
    ]
    assert [each["plan"] for each in figures] == [figures[0]["plan"]] * 2


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "no id": {"spanId": None},
    "a long parent": {"parentSpanId": "x" * 1000},
    "no start": {"startTimeUnixNano": 0},
    "a late end": {"endTimeUnixNano": 10**30},
}


@pytest.mark.parametrize("case", sorted(BAD_FIELDS))
def test_a_trace_with_a_span_that_cannot_be_used_is_dropped(admc: Admc, folder: Path, case: str) -> None:
    damaged = spans(trace="bad")
    damaged[-1]["span"].update(BAD_FIELDS[case])
    file = otlp(folder / "spans.json", [*spans(), *damaged])
    document = json.loads(admc("overhead", "shop.adm", "--traces", file, "--format", "json").out)
    assert document["taken"]["skipped"] == 1
    (dropped,) = document["dropped"]
    assert (dropped["code"], dropped["requests"], document["taken"]["requests"]) == ("ADM893", 1, 1)
    assert dropped["first"] == {"file": str(file), "what": "span", "number": 10, "trace": "bad"}


def test_no_span_can_be_used(admc: Admc, folder: Path) -> None:
    for each in (found := spans()):
        each["span"]["endTimeUnixNano"] = "never"
    run = admc("overhead", "shop.adm", "--traces", otlp(folder / "spans.json", found))
    assert (run.code, "ADM882" in run.err, "span 1 of `" in run.err) == (1, True, True)


def test_parquet_of_another_form(admc: Admc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = parquet(folder / "good.parquet", rows())
    numbers = [(str(row[0]), *row[1:]) for row in rows()]
    for file, said in (
        (parquet(folder / "texts.parquet", numbers), "the column `timestamp` holds string, and not numbers"),
        (parquet(folder / "traces.parquet", [(row[0], 5, *row[2:]) for row in rows()]), "and not text"),
        (
            parquet(folder / "lists.parquet", [(*row[:3], [row[3]], *row[4:]) for row in rows()]),
            "the column `um` holds list<",
        ),
        (parquet(folder / "few.parquet", [row[:7] for row in rows()], HEAD[:7]), "the column `rt` is missing"),
    ):
        run = admc("overhead", "shop.adm", "--traces", file)
        assert (run.code, "ADM880" in run.err, said in run.err) == (1, True, True), run.err
    (folder / "cut.parquet").write_bytes(good.read_bytes()[:-20])
    assert "ADM880" in admc("overhead", "shop.adm", "--traces", "cut.parquet").err
    monkeypatch.setattr("admc.cost.traces.alibaba.MAX_ROW_GROUP", 100)
    assert "row group 1 has more than 100 bytes" in admc("overhead", "shop.adm", "--traces", good).err


def test_limits(admc: Admc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, document = csv(folder / "calls.csv", rows()), otlp(folder / "spans.json", spans())
    for name, value, file, said in (
        ("rows.MAX_ROWS", 5, table, "more than 5 rows"),
        ("rows.MAX_TRACES", 0, table, "more than 0 traces"),
        ("rows.MAX_PATHS", 3, table, "more than 3 different ids"),
        ("spans.MAX_SPANS", 4, document, "more than 4 spans"),
        ("json_input.MAX_DOCUMENT", 900, document, "has more than 900 bytes"),
        ("json_input.MAX_FILE", 1, document, "it has more than 1 bytes"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"admc.cost.traces.{name}", value)
            run = admc("overhead", "shop.adm", "--traces", file)
        assert (run.code, "ADM880" in run.err, said in run.err) == (1, True, True), run.err


def test_a_trace_with_too_many_calls_is_dropped(admc: Admc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(1005, "many", f"0.{at}", "web", "rpc", "x", "rate", 1) for at in range(1, 60)]
    first = (1000, "many", "0", "(?)", "rpc", "x", "web", 900)
    monkeypatch.setattr("admc.cost.traces.rows.MAX_CALLS", 20)
    monkeypatch.setattr("admc.cost.traces.calls.MAX_CALLS", 20)
    for rows_of_many in ([first, *many], [first, *many[:25]]):
        file = csv(folder / "calls.csv", [*rows(), *rows_of_many])
        document = json.loads(admc("overhead", "shop.adm", "--traces", file, "--format", "json").out)
        (dropped,) = document["dropped"]
        assert (dropped["code"], dropped["requests"], document["taken"]["requests"]) == ("ADM892", 1, 1)


def test_a_deep_trace_is_dropped(admc: Admc, folder: Path) -> None:
    (folder / "loop.adm").write_text(
        "app loop\nprofile meshinsight\nexternal users\nservice a, b { http 80 }\n"
        "call users -> a\ncall a -> b\ncall b -> a\n"
    )
    found: list[dict[str, Any]] = []
    for depth in range(250):
        span = {
            "traceId": "t",
            "spanId": f"s{depth}",
            "parentSpanId": f"s{depth - 1}" if depth else "",
            "kind": 2,
            "startTimeUnixNano": 1000 + depth,
            "endTimeUnixNano": 10_000 - depth,
        }
        found.append({"service": "ab"[depth % 2], "span": span})
    run = admc("overhead", "loop.adm", "--traces", otlp(folder / "deep.json", found))
    assert (run.code, "ADM892" in run.err) == (1, True)
    run = admc("overhead", "loop.adm", "--traces", otlp(folder / "flat.json", found[:150]))
    assert run.code == 0
    run = admc("import", "traces", folder / "flat.json")
    assert (run.code, "ADM895" in run.err) == (1, True)


@pytest.mark.parametrize("microseconds", [10**9, 3 * 10**14, 10**18])
def test_giant_figures(admc: Admc, folder: Path, microseconds: int) -> None:
    """Sums over the calls of a trace are exact, or refused."""
    profile = json.loads(admc("profile", "show", "meshinsight", "--format", "json").out)
    parts = [part for hop in profile["hops"] for part in hop["parts"] if part["latency"]]
    for part in parts:
        for knot in part["latency"]["base"]:
            knot.update(value=microseconds if part["name"] == "ipc" else 0, interval=None)
    (folder / "giant.json").write_text(json.dumps(profile))
    (folder / "giant.adm").write_text(PROGRAM.replace("profile meshinsight", 'profile "giant.json"'))
    run = admc("overhead", "giant.adm", "--traces", csv(folder / "calls.csv", rows()), "--format", "json")
    if microseconds > 10**9:
        assert (run.code, "ADM862" in run.out, "10,000 s" in run.out) == (1, True, True), run.out
    else:
        # The longest path: `web`, and `search` with two calls of `geo` after each other; each call has two hops.
        assert json.loads(run.out)["full_mesh"]["latency"]["max"] == 7 * 10**9 * 1000


def test_sums_over_traces_are_exact() -> None:
    values = [2**62, 2**62 + 1, 2**62 + 3, 0]
    assert _distribution(np.array(values, np.int64), at_least=False).mean == sum(values) / 4


def test_what_is_no_file(admc: Admc, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for name, said in (("none.csv", "ADM802"), (".", "ADM880"), ("pipe", "it is not a regular file")):
        run = admc("overhead", "shop.adm", "--traces", name)
        assert (run.code, said in run.err) == (1, True), run.err


def test_the_output_is_no_input(admc: Admc, folder: Path) -> None:
    file = csv(folder / "calls.csv", rows())
    before = file.read_bytes()
    run = admc("import", "traces", file, "-o", file)
    assert (run.code, "ADM803" in run.err, file.read_bytes()) == (1, True, before)


SHOP = dsl.load_text(PROGRAM)
WRITERS: dict[str, Callable[[Path], Path]] = {
    "csv": lambda path: csv(path, rows()),
    "parquet": lambda path: parquet(path, rows()),
    "otlp": lambda path: otlp(path, spans()),
    "jaeger": lambda path: jaeger(path, spans()),
}


@pytest.mark.parametrize("format_", sorted(WRITERS))
@examples(20)
@given(seed=st.integers(0, 2**32))
def test_damaged_bytes_are_an_error_or_a_result(
    tmp_path_factory: pytest.TempPathFactory, format_: str, seed: int
) -> None:
    file = WRITERS[format_](tmp_path_factory.mktemp("damaged") / "file")
    content = bytearray(file.read_bytes())
    chance = random.Random(seed)  # noqa: S311
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(content))
        if chance.random() < 0.3:
            del content[at : at + chance.randint(1, 40)]
        else:
            content[at] = chance.choice(b'0129"{}[],.:-\n\x00\xff')
    file.write_bytes(content)
    found, failure = None, None
    try:
        found = imported(SHOP, [file], Fraction(1))
    except CommandError as error:
        failure = error
    assert (found is not None and found.requests) or (failure is not None and failure.exit_code == 1)
