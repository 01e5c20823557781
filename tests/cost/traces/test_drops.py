"""What is dropped has a reason, a count and a place; nothing that is left out goes unsaid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Admc
from tests.cost.traces.samples import CALLS, PROGRAM, Call, csv, jaeger, otlp, rows, spans


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.adm").write_text(PROGRAM)
    return tmp_path


def _taken(admc: Admc, *files: Path, program: str = "shop.adm") -> Any:
    run = admc("overhead", program, *(word for file in files for word in ("--traces", file)), "--format", "json")
    assert run.code == 0, run.err
    return json.loads(run.out)


def _changed(at: int, **fields: Any) -> list[Call]:
    calls = list(CALLS)
    calls[at] = calls[at]._replace(**fields)
    return calls


BAD_ROWS: dict[str, list[Call]] = {
    "ADM883": [call._replace(path=f"0.7.{call.path}") for call in CALLS],
    "ADM884": [*CALLS, Call("1", "", "web", 3, 9)],
    "ADM886": _changed(1, begin=-5),
    "ADM887": [call for call in CALLS if call.path != "0.1"],
    "ADM888": _changed(2, source="rate", destination="geo"),
    "ADM889": _changed(4, destination="rating"),
    "ADM890": _changed(2, source="search", destination="audit"),
    "ADM892": _changed(5, end=3_700_000),
}


@pytest.mark.parametrize("code", sorted(BAD_ROWS))
def test_rows(admc: Admc, folder: Path, code: str) -> None:
    # A call from `rate` to `geo` is declared, so that only the ids are wrong.
    (folder / "shop.adm").write_text(PROGRAM + "call rate -> geo\n")
    file = csv(folder / "calls.csv", rows() + rows(BAD_ROWS[code], trace="bad") + rows(trace="t3", at=5000))
    document = _taken(admc, file)
    assert document["taken"]["requests"] == 2
    (dropped,) = document["dropped"]
    assert (dropped["code"], dropped["requests"]) == (code, 1)
    assert dropped["first"] == {"file": str(file), "what": "row", "number": len(rows()) + 1, "trace": "bad"}
    assert dropped["calls"] == len(BAD_ROWS[code])


@pytest.mark.parametrize("format_", ["csv", "otlp", "jaeger"])
def test_traces_may_be_days_apart(admc: Admc, folder: Path, format_: str) -> None:
    """The longest request takes an hour; the time between two requests has no limit."""
    day = 24 * 3600 * 1000
    if format_ == "csv":
        file = csv(folder / "calls", [*rows(), *rows(trace="next", at=day)])
    else:
        found = [*spans(), *spans(trace="next", at=day)]
        file = (otlp if format_ == "otlp" else jaeger)(folder / "calls", found)
    document = _taken(admc, file)
    assert (document["taken"]["requests"], document["dropped"]) == (2, [])


def _with(change: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
    """Spans of a request, changed; the name of each is `spanId`."""
    found = {each["span"]["spanId"]: each for each in spans(trace="bad")}
    change(found)
    return list(found.values())


def _set(name: str, **fields: Any) -> list[dict[str, Any]]:
    return _with(lambda found: found[name]["span"].update(fields))


def _lost(name: str) -> list[dict[str, Any]]:
    def remove(found: dict[str, Any]) -> None:
        del found[name]

    return _with(remove)


def _service(name: str, service: str) -> list[dict[str, Any]]:
    return _with(lambda found: found[name].update(service=service))


BAD_SPANS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "no first span": ("ADM883", _set("server0", parentSpanId="lost")),
    "only a step inside a service": ("ADM883", _set("server0", kind="SPAN_KIND_INTERNAL")[:1]),
    "two first spans": ("ADM884", _set("client0.1", parentSpanId="")),
    "a circle": ("ADM885", _set("server0", parentSpanId="server0.1")),
    "its own parent": ("ADM885", _set("client0.2", parentSpanId="client0.2")),
    "a call before its caller": ("ADM886", _set("client0.2", startTimeUnixNano="999999999")),
    "an end before its start": ("ADM886", _set("server0.2", endTimeUnixNano="1000000000")),
    "a lost span": ("ADM887", _lost("server0.1")),
    "two spans of one id": ("ADM888", [*_with(lambda _: None), *_set("server0.2", kind="SPAN_KIND_CLIENT")[-3:-2]]),
    "a service of no name": ("ADM889", _service("server0.2", "")),
    "another service": ("ADM889", _service("server0.2", "raet")),
    "a peer of no name": ("ADM889", _set("client0.1.1", attributes=[])),
    "a call that is not declared": ("ADM890", _service("server0.2", "geo")),
}


@pytest.mark.parametrize("case", sorted(BAD_SPANS))
@pytest.mark.parametrize("write", [otlp, jaeger])
def test_spans(admc: Admc, folder: Path, case: str, write: Callable[[Path, Any], Path]) -> None:
    code, damaged = BAD_SPANS[case]
    file = write(folder / "spans.json", spans() + damaged)
    document = _taken(admc, file)
    assert document["taken"]["requests"] == 1
    (dropped,) = document["dropped"]
    assert (dropped["code"], dropped["requests"]) == (code, 1)
    assert dropped["first"] == {"file": str(file), "what": "span", "number": len(spans()) + 1, "trace": "bad"}


def test_nothing_is_left(admc: Admc, folder: Path) -> None:
    file = otlp(folder / "spans.json", _service("server0.2", "raet"))
    run = admc("overhead", "shop.adm", "--traces", file)
    assert (run.code, run.out) == (1, "")
    assert "ADM882" in run.err
    assert "ADM889" in run.err
    assert f"span 1 of `{file}`" in run.err
    assert "did you mean `rate`?" in run.err
    (folder / "empty.json").write_text('{"resourceSpans": []}')
    run = admc("import", "traces", "empty.json")
    assert (run.code, "the files have no call" in run.err) == (1, True)


def test_rows_of_which_nothing_is_known(admc: Admc, folder: Path) -> None:
    other = [
        call._replace(source=call.source and f"x{call.source}", destination=f"x{call.destination}") for call in CALLS
    ]
    run = admc("overhead", "shop.adm", "--traces", csv(folder / "calls.csv", rows(other)))
    assert (run.code, "ADM889" in run.err, "`xgeo`" in run.err) == (1, True, True)
    text = "app small\nprofile meshinsight\nservice web { http 80 }\n"
    (folder / "small.adm").write_text(text)
    run = admc("overhead", "small.adm", "--traces", csv(folder / "calls.csv", rows()))
    assert (run.code, "ADM889" in run.err) == (1, True)


def test_a_name_that_was_meant_stands_in_the_text(admc: Admc, folder: Path) -> None:
    file = csv(folder / "calls.csv", rows() + rows(BAD_ROWS["ADM889"], trace="bad"))
    out = admc("overhead", "shop.adm", "--traces", file).out
    assert "dropped 1 request with 6 calls (ADM889)" in out
    assert "`rating`: did you mean `rate`?" in out


def test_the_caller_of_the_first_call_is_the_only_external(admc: Admc, folder: Path) -> None:
    (folder / "two.adm").write_text(PROGRAM + "external partners\ncall partners -> web\n")
    file = csv(folder / "calls.csv", rows())
    run = admc("overhead", "two.adm", "--traces", file)
    assert (run.code, "ADM891" in run.err) == (1, True)
    named = csv(folder / "named.csv", rows(_changed(0, source="partners")))
    assert _taken(admc, named, program="two.adm")["taken"]["requests"] == 1


def test_calls_on_several_ports_look_alike(admc: Admc, folder: Path) -> None:
    text = PROGRAM.replace("service search, rate,", "service rate { http api 80  http admin 81 }\nservice search,")
    text = text.replace("search, rate, audit {", "search, rate:api, audit {")
    (folder / "ports.adm").write_text(text.replace("on web -> rate", "on web -> rate:api"))
    file = csv(folder / "calls.csv", rows())
    assert _taken(admc, file, program="ports.adm")["taken"]["requests"] == 1
    assert "call rate:api { work 18ms }" in admc("import", "traces", file, "--program", "ports.adm").out
    (folder / "both.adm").write_text((folder / "ports.adm").read_text() + "call web -> rate:admin\n")
    run = admc("overhead", "both.adm", "--traces", file)
    assert (run.code, "ADM891" in run.err) == (1, True)


def test_copies_count_once(admc: Admc, folder: Path) -> None:
    once = _taken(admc, csv(folder / "once.csv", rows()))
    twice = _taken(admc, csv(folder / "twice.csv", rows() + rows()))
    assert (twice["taken"]["duplicates"], twice["taken"]["calls"]) == (len(rows()), 6)
    assert twice["plan"] == once["plan"]
    twice = _taken(admc, otlp(folder / "twice.json", spans() + spans()))
    assert (twice["taken"]["duplicates"], twice["plan"]) == (len(spans()), once["plan"])


def test_rows_of_one_id_may_be_several_calls(admc: Admc, folder: Path) -> None:
    """As several calls of a cache: rows of the caller alone, none of which calls on."""
    again = [call._replace(path="0.1.1") if call.path == "0.1.2" else call for call in CALLS]
    document = _taken(admc, csv(folder / "calls.csv", rows(again)))
    assert document["taken"]["calls"] == 6
    assert document["plan"] == _taken(admc, csv(folder / "plain.csv", rows()))["plan"]


def test_one_id_of_two_callees_is_settled_by_their_names(admc: Admc, folder: Path) -> None:
    """`search` and `rate` have one id; the calls below it are of `search`, since `geo` is called from there."""
    shared = [call._replace(path="0.1") if call.path == "0.2" else call for call in CALLS]
    document = _taken(admc, csv(folder / "calls.csv", rows(shared)))
    assert (document["taken"]["calls"], document["dropped"]) == (6, [])
    assert document["plan"] == _taken(admc, csv(folder / "plain.csv", rows()))["plan"]


def test_short_calls_in_one_millisecond_follow_each_other(admc: Admc, folder: Path) -> None:
    """Two calls of 1 ms that begin in one millisecond: rounding explains that, so they do not run together."""
    calls = [
        Call("0", "", "web", 0, 50),
        Call("0.1", "web", "search", 5, 6, own_span=False),
        Call("0.2", "web", "rate", 5, 6, own_span=False),
    ]
    out = admc("import", "traces", csv(folder / "calls.csv", rows(calls))).out
    assert "together" not in out
    calls[2] = calls[2]._replace(end=9)
    calls[1] = calls[1]._replace(begin=4, end=8)
    assert "together" in admc("import", "traces", csv(folder / "calls.csv", rows(calls))).out


def test_a_call_that_outlives_its_caller_is_asynchronous(admc: Admc, folder: Path) -> None:
    calls = _changed(4, end=70)
    for file in (csv(folder / "calls.csv", rows(calls)), otlp(folder / "spans.json", spans(calls))):
        out = admc("import", "traces", file).out
        assert "async call rate { work 58ms }" in out
        assert "together" not in out


def test_a_message_is_asynchronous_whenever_it_ends(admc: Admc, folder: Path) -> None:
    calls = _changed(5, end=45)
    for file in (csv(folder / "calls.csv", rows(calls)), otlp(folder / "spans.json", spans(calls))):
        assert "async call audit { work 3ms }" in admc("import", "traces", file).out
