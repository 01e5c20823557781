"""The JSON of an advice: its schema, and reading it back. It may be hostile, cut short or of another version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

import admc
from admc.base.exits import CommandError
from admc.istio.document import AdviceDocument, advice_of, json_of
from dsl.documents import DocumentError, plain, read
from tests.changed_documents import mutants
from tests.istio.ten_meshes import DECLARED, as_json

SCHEMA: Final = json.loads(Path(admc.__file__).with_name("advice.schema.json").read_text(encoding="utf-8"))


def everything() -> dict[str, Any]:
    """An advice in which no field is null and no list is empty, but for objects that may have any names."""
    document = json.loads(as_json("principals"))
    place = {"path": "a.yaml", "line": 3}
    location = {**place, "column": 1, "end_line": 3, "end_column": 2}
    cited = {"reason": "VirtualService a/b", "location": place, "does": ["a route"], "layer": 7}
    guess = {"namespace": "a", "workload": "b", "host": "c", "location": place}
    price = {"sidecars": 1, "profile": "p", "sha256": "0" * 64, "machine": "m", "at_least": True}
    price |= {"cores": 0.5, "bytes": 1e6}
    finding = {"code": "ADM989", "severity": "warning", "message": "m", "cause": "c", "hint": "h", "location": location}
    return {
        **document,
        "schemas": {},
        "calls": {
            "source": "calls.json",
            "guessed": False,
            "days": 7.5,
            "calls": 3,
            "without_caller": 1,
            "without_host": 2,
            "guesses": [guess],
        },
        "price": price,
        "not_in_force": [
            {"kind": "A", "namespace": "b", "name": "c", "location": place, "cause": "no route leads to the subset"}
            | {"by": place}
        ],
        "workloads": [{**document["workloads"][0], "revision": "r", "reasons": [cited]}],
        "revisions": [{"name": "r", "location": place, "settings": {}}],
        "diagnostics": [{**finding, "related": [{"message": "m", "location": location}]}],
    }


@pytest.mark.parametrize("case", DECLARED)
def test_what_is_written_fits_the_schema_and_is_read_back(case: str) -> None:
    text = as_json(case)
    Draft202012Validator(SCHEMA).validate(json.loads(text))
    assert json_of(read(AdviceDocument, text.encode())) == text


def test_a_field_more_or_less_or_of_another_type_is_refused() -> None:
    document = everything()
    validator = Draft202012Validator(SCHEMA)
    validator.validate(document)
    assert plain(read(AdviceDocument, json.dumps(document).encode())) == document
    tried = 0
    for changed in mutants(document):
        if changed.get("schemas") == {"no": "such type"}:
            continue  # it may have any names
        tried += 1
        with pytest.raises(DocumentError):
            read(AdviceDocument, json.dumps(changed).encode())
        assert not validator.is_valid(changed)
    assert tried > 200


@pytest.mark.parametrize("value", [None, True, 1.5, "x", [1, ["y"]], {"a": {"b": [None, {"c": 1}]}}, {}])
def test_a_setting_may_have_any_value(value: object) -> None:
    document = everything()
    document["revisions"][0]["settings"] = {"s": {"value": value, "default": False}}
    text = json.dumps(document)
    Draft202012Validator(SCHEMA).validate(document)
    assert plain(read(AdviceDocument, text.encode())) == document
    with pytest.raises(DocumentError, match="has `s` twice"):
        read(
            AdviceDocument, text.replace('"settings": {', '"settings": {"s": {"value": 1, "default": true}, ').encode()
        )


def test_a_setting_inside_of_a_setting_is_there_once() -> None:
    document = everything()
    document["revisions"][0]["settings"] = {"s": {"value": {"a": [{"b": 1}]}, "default": False}}
    text = json.dumps(document).replace('{"b": 1}', '{"b": 1, "b": 2}')
    with pytest.raises(DocumentError, match="has `b` twice"):
        read(AdviceDocument, text.encode())


@pytest.mark.parametrize("cut", [2, 100, 1000, 5000])
def test_an_advice_that_was_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(DocumentError):
        read(AdviceDocument, as_json("principals").encode()[:-cut])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("schema_version", 2, "it has schema version 2, and this admc reads 1"),
        ("exit_code", 3, "exit_code"),
        ("tool", "istioctl", "tool"),
        ("free", -1, "free"),
        ("skipped", True, "skipped"),
    ],
)
def test_another_version_and_values_that_no_advice_has(field: str, value: object, words: str) -> None:
    document = {**everything(), field: value}
    with pytest.raises(CommandError) as refused:
        advice_of(json.dumps(document).encode(), Path("ADVICE.json"))
    (finding,) = refused.value.diagnostics
    assert (refused.value.exit_code, finding.code) == (1, "ADM994")
    assert words in (finding.cause or "")
    assert "admc advise PATH... --format json" in (finding.hint or "")
