"""Profiles as JSON: what is read is what was written, and every mistake has a code and a place."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import admc
from admc.cost.profiles.profile import MAX_TEXT
from admc.cost.profiles.source import built_in, built_in_names
from admc.cost.profiles.write import to_json
from dsl.documents.exact_json import MAX_CHARACTERS, MAX_DEPTH, MAX_VALUES
from tests.cost.documents import DOCUMENT, Document, changed, curve, found, law, profile

SCHEMA = json.loads(Path(admc.__file__).with_name("profile.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def _knot(document: Document) -> Document:
    knot: Document = document["hops"][0]["parts"][0]["latency"]["base"][0]
    return knot


def _cpu(document: Document) -> list[Document]:
    knots: list[Document] = document["hops"][0]["parts"][0]["cpu"]["base"]
    return knots


def _set(*path: str | int, to: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        at: Any = document
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = to

    return change


def _drop(*path: str | int) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        at: Any = document
        for step in path[:-1]:
            at = at[step]
        del at[path[-1]]

    return change


def _many_rates(document: Document) -> None:
    """Each part has a few rates. Their sum has a figure at each of them, with a common divisor of all figures."""
    document["parts"] = {f"p{number}": "a part" for number in range(64)}
    document["hops"][0]["parts"] = [
        {"name": name, "latency": law(*((1000 * rate + at, 9.0 / rate) for rate in range(1, 10))), "cpu": None}
        for at, name in enumerate(document["parts"], 1)
    ]


BASE = ("hops", 0, "parts", 0, "latency", "base", 0)

MISTAKES: dict[str, tuple[Callable[[Document], object], str, str]] = {
    # name: the change, the code, and the text at the place of the finding
    "negative": (_set(*BASE, "value", to=-1), "ADM862", "-1"),
    "infinite": (_set(*BASE, "value", to=float("inf")), "ADM860", "Infinity"),
    "negative infinite": (_set(*BASE, "value", to=float("-inf")), "ADM860", "-Infinity"),
    "not a number": (_set(*BASE, "value", to=float("nan")), "ADM860", "NaN"),
    "huge": (_set(*BASE, "value", to=1e300), "ADM862", "1e+300"),
    "too fine": (_set(*BASE, "value", to=1e-300), "ADM862", "1e-300"),
    "null figure": (_set(*BASE, "value", to=None), "ADM862", "null"),
    "figure as text": (_set(*BASE, "value", to="12.75 us"), "ADM861", '"12.75 us"'),
    "figure left out": (_drop(*BASE, "value"), "ADM861", "{"),
    "law left out": (_drop("hops", 0, "parts", 0, "cpu"), "ADM861", "{"),
    "unknown field": (_set(*BASE, "vlaue", to=1), "ADM861", '"vlaue"'),
    "empty curve": (_set("hops", 0, "parts", 0, "latency", "base", to=[]), "ADM861", "[]"),
    "no parts": (_set("hops", 0, "parts", to=[]), "ADM861", "[]"),
    "rate zero": (_set(*BASE, "rate", to=0), "ADM862", "0"),
    "rates descend": (_set("hops", 0, "parts", 0, "latency", "base", 1, "rate", to=4), "ADM862", "4"),
    "rate missing": (_set("hops", 0, "parts", 0, "latency", "base", 1, "rate", to=None), "ADM862", "null"),
    "CPU without a rate": (_set("hops", 0, "parts", 1, "cpu", "base", 0, "rate", to=None), "ADM862", ""),
    "interval without its value": (_set(*BASE, "interval", to=[801, 900]), "ADM862", ""),
    "interval of one end": (_set(*BASE, "interval", to=[1]), "ADM861", ""),
    "sizes reversed": (_set("hops", 0, "sizes", to={"low": 9, "high": 8, "reference": 8}), "ADM862", "9"),
    "bytes without sizes": (_set("hops", 0, "sizes", to=None), "ADM862", ""),
    "negative at the smallest size": (
        _set("hops", 0, "sizes", to={"low": 100, "high": 65536, "reference": 65536000}),
        "ADM862",
        "",
    ),
    "CPU of a request rises": (lambda d: _cpu(d)[1].update(value=0.1, interval=None), "ADM867", ""),
    "CPU of a byte rises": (
        _set("hops", 0, "parts", 0, "cpu", "per_byte", to=curve((5.0, 0.0), (1600.0, 0.1))),
        "ADM867",
        "",
    ),
    "many rates of all parts": (_many_rates, "ADM862", ""),
    "seconds": (_set("units", "latency", to="s"), "ADM863", '"s"'),
    "milli-cores": (_set("units", "cpu", to="millicores"), "ADM863", '"millicores"'),
    "megabytes": (_set("units", "memory", to="MB"), "ADM863", '"MB"'),
    "unit left out": (_drop("units", "rate"), "ADM861", "{"),
    "unknown part": (_set("hops", 0, "parts", 0, "name", to="usr"), "ADM864", '"usr"'),
    "unknown protocol": (_set("hops", 0, "protocol", to="htpp"), "ADM864", '"htpp"'),
    "unknown component": (_set("components", 0, "component", to="compresor"), "ADM864", '"compresor"'),
    "unknown kind": (_set("components", 0, "kind", to="compresion"), "ADM864", '"compresion"'),
    "unknown argument": (_set("components", 0, "arguments", to={"algoritm": "gzip"}), "ADM864", '"algoritm"'),
    "unknown value": (_set("components", 0, "arguments", to={"algorithm": "gzipp"}), "ADM864", '"gzipp"'),
    "argument in another unit": (_set("components", 0, "arguments", to={"min_size": "30s"}), "ADM862", '"30s"'),
    "argument that is no number": (_set("components", 0, "arguments", to={"min_size": "big"}), "ADM862", '"big"'),
    "unknown side": (_set("components", 2, "side", to="ingres"), "ADM864", '"ingres"'),
    "unknown statistic": (_set("method", "statistic", to="meadian"), "ADM864", '"meadian"'),
    "newer": (_set("schema_version", to=2), "ADM865", "2"),
    "version as text": (_set("schema_version", to="1"), "ADM861", '"1"'),
    "version left out": (_drop("schema_version"), "ADM861", "{"),
    "hop twice": (lambda d: d["hops"].append(d["hops"][0]), "ADM870", ""),
    "part twice": (lambda d: d["hops"][0]["parts"].append(d["hops"][0]["parts"][0]), "ADM870", ""),
    "component twice": (lambda d: d["components"].append(d["components"][0]), "ADM870", ""),
    "two entries for one policy": (
        lambda d: d["components"].append({**d["components"][0], "arguments": {"min_size": "30"}}),
        "ADM870",
        "",
    ),
    "own component with a built-in name": (_set("own_components", to=["tap"]), "ADM861", '"tap"'),
    "runs of a half": (_set("hops", 0, "runs", to=0.5), "ADM862", "0.5"),
    "flag as a number": (_set("components", 0, "floor", to=1), "ADM861", "1"),
    "long text": (_set("source", to="x" * (MAX_TEXT + 1)), "ADM861", ""),
    "no text": (_set("source", to=" "), "ADM861", '" "'),
    "list as a profile": (lambda d: None, "ADM861", "[]"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_has_a_code_and_a_place(name: str) -> None:
    change, code, place = MISTAKES[name]
    text = "[]" if name == "list as a profile" else changed(change)
    read, findings = found(text)
    assert read is None
    assert [item.code for item in findings] == [code], findings
    span = findings[0].span
    assert span is not None
    if place:
        assert span.text == place
    assert span.end > span.start


@pytest.mark.parametrize("name", [name for name in MISTAKES if name.startswith("unknown")])
def test_unknown_names_get_the_known_one(name: str) -> None:
    _, (finding,) = found(changed(MISTAKES[name][0]))
    if name != "unknown field":
        assert (finding.hint or "").startswith("did you mean `")


def test_all_errors_of_a_file_are_found_at_once() -> None:
    def change(document: Document) -> None:
        _knot(document)["value"] = -1
        document["method"]["statistic"] = "meadian"
        document["units"]["latency"] = "ms"

    _, findings = found(changed(change))
    assert sorted(item.code for item in findings) == ["ADM862", "ADM863", "ADM864"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"name": "a", "name": "b"}',
        "{]",
        "[1,]",
        '{"a" 1}',
        '{"a": 1,}',
        "nul",
        "01",
        "1 2",
        '"\x01"',
        '"open',
        "1" * 41,
        "1x",
        "[" * (MAX_DEPTH + 2),
        "[" + "1," * MAX_VALUES + "1]",
        " " * MAX_CHARACTERS + "1",
        "{'a': 1}",
        "1e99999999999999999999",
        "0e-99999999999999999999",
    ],
)
def test_text_that_is_not_json(text: str) -> None:
    read, findings = found(text)
    assert read is None
    assert [item.code for item in findings] == ["ADM860"]
    assert findings[0].span is not None


def test_a_profile_without_mistakes_is_read() -> None:
    read = profile()
    assert read.hops[0].parts[0].latency is not None
    assert read.hops[0].parts[0].latency.base[0].figure.value == Decimal("800.0")
    assert [cost.title for cost in read.components] == [
        "compressor (http, algorithm=gzip)",
        "compressor (http, algorithm=zstd)",
        "request_count (http)",
        "request_count (http, egress)",
    ]


@pytest.mark.parametrize("name", [*built_in_names(), "document"])
def test_reading_and_writing_change_nothing(name: str) -> None:
    read = profile() if name == "document" else built_in(name).profile
    text = to_json(read)
    again, findings = found(text)
    assert (again, findings) == (read, [])
    assert again is not None
    assert to_json(again) == text
    VALIDATOR.validate(json.loads(text))


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_files_are_as_they_are_written(name: str) -> None:
    path = files("admc.cost.profiles") / "built_in" / f"{name}.json"
    assert path.read_text(encoding="utf-8") == to_json(built_in(name).profile)


def test_the_schema_and_the_reader_agree() -> None:
    """What is wrong in shape, units or version, the schema refuses too. It knows no names, orders and laws."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert VALIDATOR.is_valid(DOCUMENT)
    unseen = ("list as a profile", "own component with a built-in name", "no text")
    for name, (change, code, _) in MISTAKES.items():
        if code in ("ADM861", "ADM863", "ADM865") and name not in unseen:
            assert not VALIDATOR.is_valid(json.loads(changed(change))), name


TEXT = changed(lambda _: None)
ODD = ["1e9999", "-1", "null", "[]", "{}", '"x"', "0", "1e-400", "NaN", "", ",", "}", "\\", "\x00", "1" * 50]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(TEXT)), st.integers(0, 12), st.sampled_from(ODD) | st.text(max_size=4))
def test_any_text_gives_a_profile_or_findings(at: int, length: int, instead: str) -> None:
    read, findings = found(TEXT[:at] + instead + TEXT[at + length :])
    assert (read is None) == bool(findings)
    assert all(finding.span is not None for finding in findings)
