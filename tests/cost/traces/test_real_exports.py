"""Files as exporters write them: kinds as texts, torn lines, other signals, clocks that differ, no root, names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admc.cost.traces.json_input import _is_cut_off
from admc.cost.traces.spans import Kind, kind_of
from tests.cli.command import Admc

PROGRAM = """\
app shop
profile meshinsight
external internet
service web, api { http 8080 }
service db { tcp 5432 }
call internet -> web { rate 10/s  size 100B }
call web -> api { rate 10/s  size 100B }
call api -> db { rate 10/s  size 100B }
"""
MS = 1_000_000
START = 1_700_000_000_000_000_000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.adm").write_text(PROGRAM)
    return tmp_path


def span(name: str, parent: str, kind: object, begin: float, end: float, **attributes: object) -> dict[str, object]:
    """Times in milliseconds."""
    values = {
        key.replace("__", "."): {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
        for key, value in attributes.items()
    }
    return {
        "traceId": "t" * 32,
        "spanId": name,
        "parentSpanId": parent,
        "kind": kind,
        "startTimeUnixNano": str(START + int(begin * MS)),
        "endTimeUnixNano": str(START + int(end * MS)),
        "attributes": [{"key": key, "value": value} for key, value in values.items()],
    }


def document(**services: list[dict[str, object]]) -> str:
    resources = [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]},
            "scopeSpans": [{"spans": spans}],
        }
        for name, spans in services.items()
    ]
    return json.dumps({"resourceSpans": resources})


def request(kind: Callable[[Kind], object] = int, *, peer: dict[str, object] | None = None, shift: float = 0) -> str:
    return document(
        web=[span("a", "", kind(Kind.SERVER), 0, 100), span("b", "a", kind(Kind.CLIENT), 10, 90)],
        api=[
            span("c", "b", kind(Kind.SERVER), 12 + shift, 88 + shift),
            span("d", "c", kind(Kind.CLIENT), 20 + shift, 60 + shift, **(peer or {"server__address": "db"})),
        ],
    )


def taken(admc: Admc, text: str, *options: str, program: str = "shop.adm") -> Any:
    Path("traces.json").write_text(text)
    run = admc("overhead", program, "--traces", "traces.json", "--format", "json", *options)
    assert run.code == 0, run.err
    return json.loads(run.out)


def requests(admc: Admc, text: str, *options: str) -> str:
    Path("traces.json").write_text(text)
    run = admc("import", "traces", "traces.json", "--program", "shop.adm", *options)
    assert run.code == 0, run.err
    return run.out


# ---- kinds ----


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param(str, id="the name of this enumeration's number"),
        pytest.param(lambda kind: str(int(kind)), id="a number as text"),
        pytest.param(lambda kind: f"SPAN_KIND_{kind.name}", id="protobuf's name"),
        pytest.param(lambda kind: f"span_kind_{kind.name.lower()}", id="protobuf's name in lower case"),
        pytest.param(lambda kind: kind.name, id="capitals"),
        pytest.param(lambda kind: kind.name.title(), id="one capital"),
        pytest.param(lambda kind: kind.name.lower(), id="lower case"),
    ],
)
def test_a_kind_may_be_a_text(admc: Admc, spelling: Callable[[Kind], object]) -> None:
    assert requests(admc, request(spelling)) == requests(admc, request())


@pytest.mark.parametrize("kind", ["sever", "SPAN_KIND_", "7", 7, -1, 2.5, True, [2], "²"])
def test_a_kind_that_is_not_known_drops_its_trace_and_is_counted(admc: Admc, kind: object) -> None:
    whole = request().replace("t" * 32, "u" * 32)
    wrong = document(web=[span("a", "", kind, 0, 100)])
    found = taken(admc, f"{whole}\n{wrong}\n")
    if kind == "SPAN_KIND_":  # it names nothing, as `kind: 0` does
        return
    assert (found["taken"]["requests"], found["taken"]["skipped"]) == (1, 1)
    assert [each["code"] for each in found["dropped"]] == ["ADM893"]


def test_kinds_of_both_formats() -> None:
    assert [kind_of(each) for each in ("server", "Consumer", "SPAN_KIND_UNSPECIFIED", "", 5, None)] == [
        Kind.SERVER,
        Kind.CONSUMER,
        Kind.UNSTATED,
        Kind.UNSTATED,
        Kind.CONSUMER,
        None,
    ]


# ---- torn lines and other signals ----


def test_every_beginning_of_a_document_is_cut_off_and_nothing_else_is() -> None:
    line = '{"a": [true, false, null, -1.5e3, "x\\u00e9\\n\u00e9", {}], "b": {"c": ""}}'.encode()
    for end in range(1, len(line)):
        assert _is_cut_off(line[:end]), line[:end]
        assert _is_cut_off(line[:end] + b"\n"), line[:end]
    for damaged in (line, b'{"a": [}', b'{"a" 1}', b"no json", b'{"a": 1}}', b'{"a": "\\u00zz", "b": ""}'):
        assert not _is_cut_off(damaged), damaged


@pytest.mark.parametrize("end", ["", "\n", "\n\n  \n"])
def test_a_last_line_that_is_cut_off_is_skipped_and_counted(admc: Admc, end: str) -> None:
    torn = request().replace("t" * 32, "u" * 32)[:-500]
    found = taken(admc, f"{request()}\n{torn}{end}")
    assert found["taken"]["requests"] == 1
    assert found["taken"]["notes"] == {"torn": 1}
    run = admc("overhead", "shop.adm", "--traces", "traces.json")
    assert "skipped: 1 last line of a file that is cut off" in run.out


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda whole: f"{whole}\n{whole[:-500]}\n{whole}\n", id="in the middle"),
        pytest.param(lambda whole: whole[:-500], id="the only line"),
        pytest.param(lambda whole: f"{whole}\n{whole.replace('[', '', 1)}\n", id="damaged in another way"),
    ],
)
def test_another_line_that_cannot_be_read_is_an_error_with_its_place(admc: Admc, text: Callable[[str], str]) -> None:
    Path("traces.json").write_text(text(request()))
    run = admc("overhead", "shop.adm", "--traces", "traces.json")
    assert run.code == 1
    assert "ADM880" in run.err
    assert "line " in run.err


def test_documents_of_other_signals_are_skipped_and_counted(admc: Admc) -> None:
    others = ['{"resourceLogs": []}', '{"resourceMetrics": [{}]}', '{"resourceProfiles": []}']
    found = taken(admc, "\n".join([others[0], request(), *others[1:]]) + "\n")
    assert found["taken"]["requests"] == 1
    assert found["taken"]["notes"] == {"other_signals": 3}
    Path("traces.json").write_text(others[0])
    run = admc("overhead", "shop.adm", "--traces", "traces.json")
    assert run.code == 1
    assert "skipped: 1 document of logs, metrics or profiles" in " ".join(run.err.split())


# ---- clocks ----


def without_client(begin: float, end: float) -> str:
    return document(
        web=[span("a", "", 2, 0, 100)],
        api=[span("c", "a", 2, begin, end), span("d", "c", 3, begin + 8, begin + 48, server__address="db")],
    )


@pytest.mark.parametrize("shift", [-500, -13, 13, 20, 90, 500])
def test_a_clock_that_differs_makes_no_call_asynchronous(admc: Admc, shift: float) -> None:
    even = requests(admc, without_client(12, 88))
    assert "async" not in even
    assert requests(admc, without_client(12 + shift, 88 + shift)) == even
    found = taken(admc, without_client(12 + shift, 88 + shift))
    assert found["taken"]["notes"] == {"clock": 1}
    assert found["dropped"] == []
    assert taken(admc, without_client(12, 88))["taken"]["notes"] == {}


def test_a_call_that_is_longer_than_that_of_its_caller_is_asynchronous(admc: Admc) -> None:
    assert "async call api" in requests(admc, without_client(50, 200))
    assert taken(admc, without_client(50, 200))["taken"]["notes"] == {}
    assert "async call api" in requests(admc, without_client(-50, 100))
    assert taken(admc, without_client(-50, 100))["taken"]["notes"] == {"clock": 1}


@pytest.mark.parametrize("shift", [-1000, 1000])
def test_with_the_span_of_the_client_no_clock_matters(admc: Admc, shift: float) -> None:
    assert requests(admc, request(shift=shift)) == requests(admc, request())
    assert taken(admc, request(shift=shift))["taken"]["notes"] == {}


# ---- a missing root ----

ROOTLESS = request().replace('"parentSpanId": ""', '"parentSpanId": "lost"')


def test_a_trace_without_its_first_span_is_taken_where_that_is_asked_for(admc: Admc) -> None:
    Path("traces.json").write_text(ROOTLESS)
    run = admc("overhead", "shop.adm", "--traces", "traces.json")
    assert run.code == 1
    assert "ADM883" in run.err
    found = taken(admc, ROOTLESS, "--partial")
    assert (found["taken"]["requests"], found["taken"]["notes"]) == (1, {"partial": 1})
    assert requests(admc, ROOTLESS, "--partial") == requests(admc, request())


def test_the_caller_of_a_first_span_is_the_only_declared_one(admc: Admc, folder: Path) -> None:
    program = PROGRAM.replace(
        "call internet -> web", "service gateway { http 80 }\ncall internet -> gateway\ncall gateway -> web"
    )
    (folder / "shop.adm").write_text(program)
    assert "request web on gateway -> web" in requests(admc, ROOTLESS, "--partial")
    (folder / "shop.adm").write_text(program + "call api -> web\n")
    run = admc("overhead", "shop.adm", "--traces", "traces.json", "--partial")
    assert run.code == 1
    assert "ADM891" in run.err


def test_a_trace_of_several_pieces_or_cut_off_below_is_still_dropped(admc: Admc) -> None:
    pieces = document(web=[span("a", "lost", 2, 0, 100)], api=[span("c", "lost", 2, 10, 20)])
    below = document(web=[span("a", "", 2, 0, 100)], api=[span("c", "lost", 2, 10, 20)])
    for text, code in ((pieces, "ADM883"), (below, "ADM887")):
        Path("traces.json").write_text(text)
        run = admc("overhead", "shop.adm", "--traces", "traces.json", "--partial")
        assert run.code == 1
        assert code in run.err


# ---- names ----

PEERS: dict[str, dict[str, object]] = {
    "session-db.default.svc.cluster.local": {"server__address": "session-db.default.svc.cluster.local"},
    "10.0.0.7:5432": {"server__address": "10.0.0.7", "server__port": 5432},
    "10.0.0.7": {"net__peer__name": "10.0.0.7", "net__peer__port": 1},
    "[fd00::7]:5432": {"server__address": "fd00::7", "server__port": "5432"},
    "fd00::7": {"server__address": "fd00::7"},
    "ledger:5432": {"peer__service": "ledger:5432"},
}


@pytest.mark.parametrize("name", PEERS)
def test_names_of_traces_stand_for_services(admc: Admc, name: str) -> None:
    Path("names.json").write_text(json.dumps({name: "db", "shop-web": "web", "10.0.0.7:1": "db"}))
    text = request(peer=PEERS[name]).replace('"web"', '"shop-web"')
    assert requests(admc, text, "--names", "names.json") == requests(admc, request())
    assert taken(admc, text, "--names", "names.json")["taken"]["requests"] == 1
    run = admc("overhead", "shop.adm", "--traces", "traces.json")
    assert run.code == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"x": "dbb"}', "the program has no `dbb`, for which `x` stands"),
        ('{"x": "dbb"}', "did you mean `db`?"),
        ('{"x": 5}', "`x` must be a string (line 1)"),
        ('{"x": ""}', "`x` stands for no name"),
        ('{"x": "db", "x": "web"}', "`the document` has `x` twice"),
        ('{"x": "db", "db": "web"}', "`x` stands for `db`, which stands for another name"),
        ('["x"]', "it is not a JSON object"),
        ('{\n"x": ', "line 2 is not JSON"),
        ("", "line 1 is not JSON"),
        ('{"x": ' + "[" * 100_000, "it is nested too deeply"),
    ],
)
def test_names_that_cannot_be_used(admc: Admc, text: str, said: str) -> None:
    Path("traces.json").write_text(request())
    Path("names.json").write_text(text)
    run = admc("overhead", "shop.adm", "--traces", "traces.json", "--names", "names.json")
    assert run.code == 1
    assert "ADM879" in run.err
    assert said in " ".join(run.err.split())


@pytest.mark.parametrize("options", [("--partial",), ("--names", "names.json")])
def test_options_about_traces_need_traces(admc: Admc, options: tuple[str, ...]) -> None:
    run = admc("overhead", "shop.adm", *options)
    assert run.code == 1
    assert "is about traces" in run.err
