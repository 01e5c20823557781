"""Documents: what is read, what is refused and with which words, and what a hostile one costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Len
from hypothesis import given
from hypothesis import strategies as st

from dsl.documents import (
    Amount,
    Bytes,
    Count,
    DocumentError,
    Exact,
    Form,
    Given,
    Json,
    Plain,
    Signed,
    VersionError,
    document,
    kind_of,
    plain,
    read,
    read_exact,
    record,
    schema,
)
from dsl.documents.json_text import Places, has_more_keys


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@document
class Row:
    name: str
    number: Count
    colour: Colour = Colour.RED
    """The colour of a row."""


@document
class Sheet:
    schema_version: Literal[3]
    rows: tuple[Row, ...]
    share: Amount | None
    ends: tuple[Signed, Signed] | None
    value: Plain
    by_name: Mapping[str, Row]


GOOD: dict[str, object] = {
    "schema_version": 3,
    "rows": [{"name": "a", "number": 1}, {"name": "b", "number": 2, "colour": "blue"}],
    "share": 1,
    "ends": [-1, 2],
    "value": [True, None, 1, 1.5, ["x"]],
    "by_name": {"c": {"name": "c", "number": 0}},
}
SHEET = Sheet(
    3, (Row("a", 1), Row("b", 2, Colour.BLUE)), 1.0, (-1, 2), (True, None, 1, 1.5, ("x",)), {"c": Row("c", 0)}
)


def refused(content: bytes) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read(Sheet, content)
    # A cause or a context would print the input.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


def test_a_document_is_read_and_written_again() -> None:
    assert read(Sheet, json.dumps(GOOD).encode()) == SHEET
    assert read(Sheet, json.dumps(plain(SHEET)).encode()) == SHEET


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": {}}, "`rows` must be a list"),
        ({"rows": [[]]}, "`rows[0]` must be an object"),
        ({"rows": [{"name": "a"}]}, "`rows[0]` lacks `number`"),
        ({"rows": [{"name": "a", "number": 1, "x" * 99: 1}]}, f"`rows[0]` has an unknown field `{'x' * 37}...`"),
        ({"rows": [{"name": 1, "number": 1}]}, "`rows[0].name` must be a string"),
        ({"rows": [{"name": "a", "number": -1}]}, "`rows[0].number` must be at least 0"),
        ({"rows": [{"name": "a", "number": 1.0}]}, "`rows[0].number` must be a whole number"),
        ({"rows": [{"name": "a", "number": True}]}, "`rows[0].number` must be a whole number"),
        ({"rows": [{"name": "a", "number": 1 << 130}]}, "`rows[0].number` is out of range"),
        ({"rows": [{"name": "a", "number": 1, "colour": "green"}]}, "`rows[0].colour` must be `red` or `blue`"),
        (
            {"rows": [{"name": "a", "number": 1, "Colour": "red"}]},
            "`rows[0]` has an unknown field `Colour`",
        ),
        ({"share": "1"}, "`share` must be a number"),
        ({"share": float("nan")}, "`share` must be a number"),
        ({"ends": [1]}, "`ends` lacks its entry 2"),
        ({"ends": [1, 2, 3]}, "`ends` has more than 2 entries"),
        ({"value": {}}, "`value` must be a number, a string, true, false, null or a list of these"),
        ({"value": [[[[[[[[[[1]]]]]]]]]]}, "`value` has too many lists inside each other"),
        ({"by_name": []}, "`by_name` must be an object"),
        ({"by_name": {"c": {"name": "c", "number": "0"}}}, "`by_name.c.number` must be a whole number"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    assert refused(json.dumps(GOOD | change).encode()).message == f"{message} (line 1)"


@record
class Entry:
    name: str
    content: Bytes = b""
    names: frozenset[str] = frozenset()


ENTRY = {"name": "a", "content": "/+8=", "names": ["b", "c"]}


def test_bytes_are_in_base_64() -> None:
    entry = Entry("a", b"\xff\xef", frozenset(("b", "c")))
    assert read(Entry, json.dumps(ENTRY).encode()) == entry
    assert plain(entry) == ENTRY


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ENTRY | {"content": "_-8="}, "`content` must be in base 64 (line 1)"),
        (ENTRY | {"content": "secret"}, "`content` must be in base 64 (line 1)"),
        (ENTRY | {"content": 1}, "`content` must be a string (line 1)"),
        ({"name": "a", "names": []}, "`the document` lacks `content` (line 1)"),
        ({"name": "a", "content": ""}, "`the document` lacks `names` (line 1)"),
    ],
)
def test_a_record_has_all_its_fields(content: dict[str, object], message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(Entry, json.dumps(content).encode())
    assert caught.value.message == message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(("name", "shown"), [("x" * 99, "x" * 37 + "..."), ("\x1b[2J", "\\x1b[2J"), ("ü", "ü")])
def test_a_name_in_a_message_is_short_and_controls_no_terminal(name: str, shown: str) -> None:
    error = refused(json.dumps(GOOD | {"by_name": {name: 1}}).encode())
    assert error.message == f"`by_name.{shown}` must be an object (line 1)"


def test_a_dense_text_is_read_while_it_is_not_large() -> None:
    rows = [{"name": "", "number": 0}] * 100_000
    assert len(read(Sheet, json.dumps(GOOD | {"rows": rows}, separators=(",", ":")).encode()).rows) == 100_000


def test_an_error_has_its_line() -> None:
    text = json.dumps(GOOD | {"share": "secret"}, indent=2)
    error = refused(text.encode())
    (line,) = (number for number, line in enumerate(text.splitlines(), start=1) if "share" in line)
    assert error.message == f"`share` must be a number (line {line})"
    assert "secret" not in repr(error) + str(error.violations)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1 is not JSON; the file may be cut short"),
        (b"[]", "it is not a JSON object"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b'{"schema_version": 3, "value": "\\ud83d"}', "a text in it has half of a character (line 1)"),
        (b'{"schema_version": 3, "share": NaN}', "`the document` lacks `rows` (line 1)"),
        (b'{"schema_version": 3, "share": 1' + b"0" * 5000 + b"}", "it has a number that JSON does not allow (line 1)"),
        (b'{"schema_version": ' + b"[" * 100_000, "it is nested too deeply (line 1)"),
        (b'{"schema_version": ' + b"[" * 500 + b"]" * 500 + b"}", "it is nested too deeply (line 1)"),
        (b'{"schema_version": 3, "value": ' + b"[" * 500 + b"]" * 500 + b"}", "it is nested too deeply (line 1)"),
    ],
)
def test_what_is_no_json_is_refused(content: bytes, message: str) -> None:
    assert refused(content).message == message


def test_true_is_no_version() -> None:
    @document
    class First:
        schema_version: Literal[1]

    with pytest.raises(DocumentError, match="it has no `schema_version`"):
        read(First, b'{"schema_version": true}')


@pytest.mark.parametrize(("version", "newer"), [(2, False), (4, True)])
def test_another_version_is_named_whatever_else_is_wrong(version: int, newer: bool) -> None:
    for content in (GOOD | {"schema_version": version}, {"schema_version": version, "other": 1}):
        error = refused(json.dumps(content).encode())
        assert isinstance(error, VersionError)
        assert error.newer is newer
        assert error.message == f"it has schema version {version}, and this admc reads 3"


@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"separators": (" , ", "\t :\n")}])
@pytest.mark.parametrize("text", ["x", '\\": ', '":', " :", "\\", '\\\\":'])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"share"', '"share"SEPnull,"share"'),
        ('"number"', '"number"SEP7,"number"'),
        ('"colour"', '"colour"SEP"red","colour"'),
        ('"c"SEP{', '"c"SEP{"name"SEP"d","number"SEP1},"c"SEP{'),
    ],
)
def test_a_key_that_stands_twice_is_refused_in_any_layout(
    layout: dict[str, object], text: str, old: str, new: str
) -> None:
    separator = layout.get("separators", (", ", ": "))[1]
    good = json.dumps(GOOD | {"value": text}, **layout)
    assert read(Sheet, good.encode()).value == text
    bad = good.replace(old.replace("SEP", separator), new.replace("SEP", separator), 1)
    assert bad != good
    assert " twice (line " in refused(bad.encode()).message


@document
class Notes:
    lines: Given[tuple[str, ...]] = None
    row: Given[Row] = None


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        (b"{}", Notes()),
        (b'{"lines": []}', Notes(())),
        (b'{"row": {"name": "a", "number": 1}}', Notes(None, Row("a", 1))),
    ],
)
def test_a_field_that_may_be_left_out_is_none_then(
    content: bytes, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsl.documents.reading._refuse_extra_keys", None)  # it takes long
    assert read(Notes, content) == notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"lines": null}', "`lines` must be a list"),
        (b'{"row": null}', "`row` must be an object"),
        (b'{"row": {"name": "a"}}', "`row` lacks `number`"),
        (b'{"lines": [], "lines": []}', "`the document` has `lines` twice"),
    ],
)
def test_a_field_that_may_be_left_out_is_never_null(content: bytes, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(Notes, content)
    assert caught.value.message == f"{message} (line 1)"


def test_an_optional_field_may_stand_with_its_default() -> None:
    rows = [{"name": "a", "number": 1, "colour": "red"}]
    assert read(Sheet, json.dumps(GOOD | {"rows": rows}).encode()).rows == (Row("a", 1),)


TEXTS = st.text() | st.text('":\\, ')


@given(st.recursive(st.none() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_the_keys_of_a_document_are_counted(value: object) -> None:
    number = 0

    def count(pairs: list[tuple[str, object]]) -> None:
        nonlocal number
        number += len(pairs)

    for indent in (None, 1):
        number = 0
        text = json.dumps(value, indent=indent)
        json.loads(text, object_pairs_hook=count)
        assert all(has_more_keys(text.encode(), fewer) for fewer in range(number))
        assert not has_more_keys(text.encode(), number)


@pytest.mark.parametrize("text", ["{}", '{"a": {"b":1}}', '{ "a"\n:\t[{"b" :"c"}] }'])
def test_keys_are_counted_in_any_layout(text: str) -> None:
    assert not has_more_keys(text.encode(), text.count("a") + text.count("b"))


def test_a_place_is_found_by_its_path() -> None:
    text = ' { "a" : [ 1, {"b": [[], "x]"]}, 2 ] , "c": {} }'
    for path, value in (
        (("a", 0), "1"),
        (("a", 1, "b", 1), '"x]"'),
        (("a", 2), "2"),
        (("c",), "{}"),
        (("a", 1, "no"), '{"b": [[], "x]"]}'),
        (("a", 9), '[ 1, {"b": [[], "x]"]}, 2 ]'),
    ):
        places = Places(text)
        assert places.value(places.of(path)) == value


def test_a_schema_has_descriptions_and_no_titles() -> None:
    published = schema(Sheet)
    assert "title" not in json.dumps(published)
    assert published["additionalProperties"] is False
    assert published["properties"]["schema_version"] == {"const": 3, "type": "integer"}
    assert published["$defs"]["Row"]["properties"]["colour"]["description"] == "The colour of a row."


@document
class Price:
    amount: Annotated[Exact, Ge(0)]
    name: Annotated[str, Len(1, 9), Form("[a-z]+", "has small letters alone")]
    ends: tuple[Exact, Exact] | None = None


def inexact(text: str) -> list[tuple[str, str]]:
    """What is refused, each with the text at its place."""
    with pytest.raises(DocumentError) as caught:
        read_exact(Price, text)
    return [(str(violation), text[slice(*violation.range)]) for violation in caught.value.violations]


@pytest.mark.parametrize(
    "digits", ["0.1234567890123456789"[:20], "123456789.123456789012345678", "1.50", "1e3", "7", "0"]
)
def test_decimals_are_kept_as_they_are_written(digits: str) -> None:
    text = f'{{"amount": {digits}, "name": "a", "ends": [-{digits}, {digits}]}}'
    price = read_exact(Price, text)
    assert (price.amount, price.ends) == (Decimal(digits), (-Decimal(digits), Decimal(digits)))
    assert read_exact(Price, f"\ufeff{text}") == price


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ('{"amount": "1", "name": "a"}', "`amount` must be a number", '"1"'),
        ('{"amount": -1, "name": "a"}', "`amount` must be at least 0", "-1"),
        ('{"amount": 1e30, "name": "a"}', "`amount` is out of range", "1e30"),
        ('{"amount": 1e-30, "name": "a"}', "`amount` has more than 18 digits after the point", "1e-30"),
        ('{"amount": true, "name": "a"}', "`amount` must be a number", "true"),
        ('{"amount": 1, "name": "A"}', "`name` has small letters alone", '"A"'),
        ('{"amount": 1, "name": "\\ud800"}', "`name` has half of a character", '"\\ud800"'),
        ('{"amount": 1, "name": "a", "ends": [1]}', "`ends` lacks its entry 2", "["),
        ('{"amount": 1, "name": "a", "ends": [1, 2, 3]}', "`ends` has more than 2 entries", "3"),
        ('{"amount": 1, "name": "a", "end": null}', "`the document` has an unknown field `end`", '"end"'),
        ('{"amuont": 1, "name": "a"}', "`the document` has an unknown field `amuont`", '"amuont"'),
        ('{"amount": 1}', "`the document` lacks `name`", "{"),
        ("[]", "`the document` must be an object", "[]"),
        ('{"amount": 1, "x": {"a": 1, "a": 2}}', "`a` is given twice in one object", '"a"'),
        ('{"\\u001b": 1, "\\u001b": 2}', "`\\x1b` is given twice in one object", '"\\u001b"'),
        ('{"amount": 1, "\\ud800": 1}', "this key has half of a character", '"\\ud800"'),
        ('{"amount": NaN}', "`NaN` is no JSON value", "NaN"),
        ('{"NaN": -Infinity}', "`-Infinity` is no JSON value", "-Infinity"),
        ('{"amount": 1' + "0" * 40 + "}", "this number has more than 40 characters", "1" + "0" * 40),
        ('{"amount": 1e99999}', "the exponent of this number is beyond 9999", "1e99999"),
        ("[" * 18 + "]" * 18, "it is nested deeper than 16 levels", "["),
        ("[" * 100_000, "it is nested deeper than 16 levels", "["),
        ('{"amount": }', "expecting value", "}"),
        ('{"amount": "a\\"b\n}', "this string is not closed, or has a character that JSON does not allow", '"'),
        ('{"amount": "\\x"}', "this string is not closed, or has a character that JSON does not allow", '"'),
    ],
)
def test_what_is_wrong_in_an_exact_document_has_its_place(text: str, message: str, place: str) -> None:
    assert inexact(text) == [(message, place)]


def test_an_unknown_field_and_a_wrong_value_are_both_named() -> None:
    assert inexact('{"amuont": 1, "name": 1}') == [
        ("`the document` has an unknown field `amuont`", '"amuont"'),
        ("`name` must be a string", "1"),
    ]


def test_the_schema_of_a_decimal_is_a_number() -> None:
    amount = {"type": "number", "minimum": 0, "exclusiveMaximum": 10**19}
    assert schema(Price)["properties"]["amount"] == amount
    assert schema(Price)["properties"]["name"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 9,
        "pattern": "^(?:[a-z]+)$",
    }


NONSENSE = {
    "lists": lambda: b'{"schema_version":4,"calls":[' + b"[]," * 21_000_000 + b"[]]}",
    "objects": lambda: b'{"schema_version":4,"calls":[' + b"{}," * 21_000_000 + b"{}]}",
    "numbers": lambda: b"[" + b"0," * 32_000_000 + b"0]",
    "keys": lambda: b"{" + b",".join(b'"%d":0' % number for number in range(6_000_000)) + b"}",
    "sparse numbers": lambda: b"[" + b"0,         " * 5_700_000 + b"0]",
    "sparse lists": lambda: b'{"schema_version":4,"calls":[' + (b"[]," + b" " * 38) * 1_500_000 + b"[]]}",
    "sparse objects": lambda: b'{"schema_version":4,"calls":[' + (b"{}," + b" " * 38) * 1_500_000 + b"{}]}",
    "sparse keys": lambda: b"{" + b",".join(b'"%030d":0' % number for number in range(1_700_000)) + b"}",
    "keys of an object": lambda: (
        b'{"schema_version":4,"calls":[{' + b",".join(b'"%029d":0' % number for number in range(1_900_000)) + b"}]}"
    ),
    "one text": lambda: b'{"schema_version":4,"calls":"' + b"x" * 63_000_000 + b'"}',
    "one number": lambda: b'{"schema_version":' + b"1" * 63_000_000 + b"}",
    "one key": lambda: b'{"' + b"x" * 63_000_000 + b'":1}',
    "depth": lambda: b"[" * 64_000_000,
    "blanks": lambda: b" " * 64_000_000,
    "bytes": lambda: bytes(range(256)) * 250_000,
}
# Facts and identities are never this large.
DOCUMENTS = {
    "plan": ("admc.compile.plan.model:Plan", 4, "calls"),
    "difference": ("admc.review.diff.model:Diff", 2, "weaker"),
    "state": ("admc.serve.storage.manifest:Manifest", 3, "groups"),
    "index": ("admc.kubernetes.cluster.storage.record:Index", 1, "packs"),
    "status": ("admc.serve.observe.status:Status", 2, "adms"),
    "endpoints": ("emitters.addresses.endpoints_file:_EndpointsFile", 1, "services"),
    "plan in ConfigMaps": ("admc.kubernetes.cluster.program.plan_objects:_Index", 1, "parts"),
    "emitted folder": ("admc.compile.emit.manifest:_Content", 1, "files"),
    "redirection": ("admc.serve.files.redirection:Known", 1, "asked"),
    "names of traces": ("admc.cost.traces.names:_Names", 1, "names"),
}
# The error about an object that should be there in place of a list has a copy of the list.
COPIED = {"sparse lists", "sparse objects", "keys of an object"}
BY_NAME = {"state", "endpoints", "emitted folder", "redirection"}
_CHILD = """
import importlib, re, sys
from dsl.documents import DocumentError, read
module, _, name = sys.argv[2].partition(":")
expected = getattr(importlib.import_module(module), name)
content = open(sys.argv[1], "rb").read()
try:
    read(expected, content)
except DocumentError as error:
    # Not `ru_maxrss`, which counts what the parent had.
    print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024, str(error)[:100])
"""


@pytest.mark.long
@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("name", NONSENSE)
def test_64_megabytes_of_nonsense_take_little_memory(name: str, document: str, tmp_path: Path) -> None:
    most = 500 if name in COPIED and document in BY_NAME else 300
    expected, version, section = DOCUMENTS[document]
    content = NONSENSE[name]()
    content = content.replace(b'"schema_version":4', b'"schema_version":%d' % version, 1)
    path = tmp_path / "x.json"
    path.write_bytes(content.replace(b'"calls":', b'"%s":' % section.encode(), 1))
    run = subprocess.run([sys.executable, "-c", _CHILD, path, expected], capture_output=True, text=True, check=True)
    assert int(run.stdout.split()[0]) < most, run.stdout


@record
class Settings:
    values: Mapping[str, Json]
    number: Count


@pytest.mark.parametrize("value", [None, True, "x", 1, 1.5, [], {}, [[1], {"a": None}], {"a": {"b": [{"c": 1}]}}])
def test_any_json_is_read_and_written_again(value: object) -> None:
    content = {"values": {"x": value}, "number": 1}
    assert plain(read(Settings, json.dumps(content).encode())) == content


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"a": 1, "a": 2}', "`values.x` has `a` twice (line 1)"),
        ('[{"a": [{"b": 1, "b": 1}]}]', "`values.x[0].a[0]` has `b` twice (line 1)"),
        ("[" * 40 + "]" * 40, "`values.x` has too many lists inside each other (line 1)"),
        ('{"a": ' * 40 + "1" + "}" * 40, "`values.x` has too many lists inside each other (line 1)"),
    ],
)
def test_any_json_has_bounds(value: str, message: str) -> None:
    assert refused_settings(f'{{"values": {{"x": {value}}}, "number": 1}}').message == message


def refused_settings(content: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read(Settings, content.encode())
    return caught.value


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ('{"schema_version": 3, "rows": []}', Sheet),
        ('{"rows": [], "schema_version": 3}', Sheet),
        ('{"unknown": 1, "number": 1}', Settings),
        ('{"number": "of another type"}', Settings),
        ('{"unknown": 1}', None),
        ("{}", None),
        ("[1]", None),
        ('{"number": 1', None),
        ("[" * 100_000, None),
        ("", None),
        ("[" + "[]," * 1_500_000 + "[]]", None),
    ],
)
def test_a_document_is_of_the_type_that_has_its_first_key(content: str, kind: type | None) -> None:
    assert kind_of(content.encode(), (Sheet, Settings)) is kind


def test_a_document_in_another_encoding_is_of_no_type() -> None:
    assert kind_of(b'{"number": "\xff"}', (Sheet, Settings)) is None
