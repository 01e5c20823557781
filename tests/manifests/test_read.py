"""The reader of manifests: documents one by one, JSON as YAML, the line of each field, and no line of a Secret."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from admc.base.exits import CommandError
from admc.manifests import bounds
from admc.manifests.bounds import Budget
from admc.manifests.documents import Document, objects
from admc.manifests.json_values import read_json
from admc.manifests.places import span_of
from admc.manifests.read import documents_of, read, source_of
from admc.manifests.yaml_values import Builder
from dsl.diagnostics.diagnostic import Diagnostic
from dsl.text import SourceText
from tests.properties import examples


def outcomes(text: str) -> list[Document | Diagnostic]:
    return list(documents_of(SourceText("a.yaml", text)))


def data(text: str) -> list[Any]:
    return [each.data for each in outcomes(text) if isinstance(each, Document)]


def test_a_broken_document_leaves_the_others() -> None:
    text = "a: 1\n---\nb: [\n---\nc: 3\n--- {d: 4}\n---\ne: 5\ne: 6\n"
    first, broken, third, fourth, twice = outcomes(text)
    assert isinstance(broken, Diagnostic)
    assert isinstance(twice, Diagnostic)
    assert broken.span is not None
    assert (broken.code, broken.span.line) == ("ADM927", 4)
    assert twice.span is not None
    assert (twice.message, twice.span.line) == ("the key `e` is there twice", 9)
    assert data(text) == [{"a": 1}, {"c": 3}, {"d": 4}]
    assert [each.number for each in (first, third, fourth) if isinstance(each, Document)] == [1, 3, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%YAML 1.1\n---\na: on\n", [{"a": True}]),
        ("# comment\n---\na: 1\n", [{"a": 1}]),
        ("a: |\n  x\n  ---\n  y\n", [{"a": "x\n---\ny\n"}]),
        ("a: 1\n...\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}]),
        ("a: 1\n...\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("a: 1\n...\n%YAML 1.1\n# comment\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("a: 1\r---\rb: 2\r", [{"a": 1}, {"b": 2}]),
        ("---\n---\na: 1\n", [None, {"a": 1}]),
        ('{"a": 1}\n{"b": [true, null, -1.5]}', [{"a": 1}, {"b": [True, None, -1.5]}]),
        ('{"a": 1}\n---\n{"a": 2}', [{"a": 1}, {"a": 2}]),
        ("a: &x {b: 1}\nc: {<<: *x, d: 2}\n", [{"a": {"b": 1}, "c": {"b": 1, "d": 2}}]),
        ("a: &x 1\nb: [*x, *x]\n", [{"a": 1, "b": [1, 1]}]),
    ],
)
def test_documents_are_parted_as_yaml_parts_them(text: str, expected: list[Any]) -> None:
    wanted = [each for each in expected if each is not None]
    assert [each for each in data(text) if each is not None] == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: *nothing\n", "no anchor `nothing` is before this alias"),
        ("a: &x 1\nb: &x 2\n", "the anchor `x` is there twice"),
        ("a: !!python/object/apply:os.system [x]\nb: !!python/name:os.system x\n", "a tag that JSON has no type for"),
        ("&a [*a]", "an alias stands for what it is in"),
        ("a: " + "[" * 61 + "]" * 61, "nested deeper than 60"),
        ('{"a": {"b": 1, "b": 2}}', "the key `b` is there twice"),
        ('{"a": ' + "[" * 61 + "]" * 61 + "}", "nested deeper than 60"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper than 60"),
        ('{"a": 1} trailing', "is not YAML"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    errors = [each for each in outcomes(text) if isinstance(each, Diagnostic)]
    assert message in errors[0].message


def test_aliases_do_not_lead_deeper_than_the_text_may() -> None:
    levels = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 70)]
    (error,) = outcomes("\n".join(levels))
    assert isinstance(error, Diagnostic)
    assert "nested deeper than 60" in error.message
    assert error.span is not None
    assert 57 < error.span.line < 62


def test_a_long_comment_before_a_separator_takes_no_time() -> None:
    began = time.process_time()
    for line in ("# a comment\n", "#\n", "  # x\n", " \n", "%\n", "# %\n"):
        outcomes(line * 20_000 + "---\na: 1\n")
        assert data("# a\n" * 200 + "---\na: 1\n") == [{"a": 1}]
    assert time.process_time() - began < 10


def test_a_file_has_a_bound_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_DOCUMENTS", 3)
    assert len(data("---\na: 1\n" * 3)) == 3
    made = outcomes("---\na: 1\n" * 4)
    error = made[-1]
    assert len(made) == 4
    assert isinstance(error, Diagnostic)
    assert error.span is not None
    assert (error.message, error.span.line) == ("`a.yaml` has more than 3 documents", 7)
    with pytest.raises(CommandError, match="more than 3 documents"):
        read("a.yaml", b"---\na: 1\n" * 4)


def test_many_small_documents_take_little_time() -> None:
    began = time.process_time()
    assert len(outcomes("---\n" * 20_000)) == 20_000
    assert time.process_time() - began < 20


def test_an_address_of_ipv6_in_brackets_needs_quotes() -> None:
    (error,) = outcomes("a: [1, 2001:db8::]\n")
    assert isinstance(error, Diagnostic)
    assert "IPv6: write it in quotes" in str(error.hint)
    assert data('a: [1, "2001:db8::"]\n') == [{"a": [1, "2001:db8::"]}]


def test_a_control_character_has_its_line() -> None:
    (error,) = outcomes("a: ä\nb: \x01\n")
    assert isinstance(error, Diagnostic)
    assert error.span is not None
    assert error.span.line == 2


def test_each_object_of_a_list_has_bounds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_VALUES", 20)
    items = [{"kind": "Pod", "a": list(range(8))} for _ in range(10)]
    for text in (json.dumps({"kind": "List", "items": items}), yaml.dump({"items": items, "kind": "List"})):
        assert data(text) == [{"kind": "List", "items": items}]
        with pytest.raises(CommandError, match="too large"):
            read("a.yaml", text.encode())
    items[3]["a"] = list(range(30))
    for text in (json.dumps({"kind": "List", "items": items}), yaml.dump({"items": items, "kind": "List"})):
        (error,) = outcomes(text)
        assert isinstance(error, Diagnostic)
        assert error.message == "the manifests are too large"


def test_what_is_kept_of_an_object_is_chosen_while_a_list_is_read() -> None:
    items = [{"kind": "Pod", "metadata": {"name": f"p{n}"}, "spec": {"x": n}} for n in range(3)]
    for text in (json.dumps({"items": items, "kind": "List"}), yaml.dump({"items": items, "kind": "List"})):
        kept: list[int] = []

        def keep(item: Any, kept: list[int] = kept) -> Any:
            kept.append(item["spec"]["x"])
            return {"kind": item["kind"], "metadata": item["metadata"]}

        (document,) = documents_of(SourceText("a", text), keep=keep)
        assert isinstance(document, Document)
        assert kept == [0, 1, 2]
        assert [(each.name, "spec" in each.data) for each in objects(document)] == [("p0", 0), ("p1", 0), ("p2", 0)]


BLOCK = """\
# a comment
apiVersion: v1
items:
  - apiVersion: v1
    kind: Pod
    metadata:
      name: a
      labels: {app: x, "tier": web}
  -
    kind: Service
    spec:
      ports:
      - name: http
        port: 80
      - port: 81
kind: List
"""


@pytest.mark.parametrize(
    ("where", "line", "shown"),
    [
        (("items", 0, "metadata", "labels", "tier"), 8, '"tier"'),
        (("items", 0, "metadata", "name"), 7, "name"),
        (("items", 1, "spec", "ports", 1, "port"), 15, "port"),
        (("items", 1, "spec", "ports", 1), 15, ""),
        (("items", 1, "spec", "ports", 7), 12, "ports"),
        (("items", 1, "spec", "nothing"), 11, "spec"),
        (("items", 1), 10, ""),
        (("kind",), 16, "kind"),
        ((), 2, ""),
    ],
)
def test_a_field_has_its_line(where: tuple[Any, ...], line: int, shown: str) -> None:
    for before, text in ((0, BLOCK), (2, f"x: 1\n---\n{BLOCK}")):
        document = outcomes(text)[-1]
        assert isinstance(document, Document)
        span = span_of(document, where)
        assert span.line == line + before
        if shown:
            assert span.text == shown


def test_a_field_of_json_has_its_line() -> None:
    value = {"items": [{"kind": "Pod", "a": {"b": [1, {"c": 2}]}}] * 2, "kind": "List"}
    text = json.dumps(value, indent=4)
    (document,) = outcomes(text)
    assert isinstance(document, Document)
    lines = text.splitlines()
    span = span_of(document, ("items", 1, "a", "b", 1, "c"))
    assert span.line == len(lines) - [line.strip() for line in reversed(lines)].index('"c": 2')
    assert span.text == '"c"'


def test_an_object_of_a_list_in_one_line_is_read_without_those_before_it() -> None:
    pods = [{"kind": "Pod", "a": "x" * 1000, "b": number} for number in range(3000)]
    text = json.dumps({"kind": "List", "items": pods})
    (document,) = outcomes(text)
    assert isinstance(document, Document)
    start = time.process_time()
    spans = [span_of(document, ("items", number, "b")) for number in range(3000)]
    assert time.process_time() - start < 4
    assert [text[span.start : span.start + 8].rstrip(",}") for span in spans] == [
        f'"b": {number}'[:8] for number in range(3000)
    ]


@pytest.mark.parametrize("indent", [0, 2, 7])
def test_an_object_of_a_list_with_a_brace_in_yaml_has_its_lines(indent: int) -> None:
    blanks = " " * indent
    text = f"kind: List\nitems:\n{blanks}- {{kind: Pod,\n{blanks}  a: 1,\n{blanks}  b: [1,\n{blanks}  2]}}\n"
    text += f"{blanks}- kind: Pod\n{blanks}  a: {{b: 1}}\n"
    (document,) = outcomes(text)
    assert isinstance(document, Document)
    assert [span_of(document, where).line for where in (("items", 0, "b", 1), ("items", 1, "a", "b"))] == [6, 8]


@pytest.mark.parametrize(
    "text",
    [
        '{"items": [{"kind": "Secret", "data": {"p": "hunter2"}}, {"kind": "Pod", "a": 1}]}',
        '{"items": [{"kind": "Pod", "a": 1}, {"kind": "Secret", "data": {"p": "hunter2"}}]}',
        '{"items": [{"kind": "Secret", "data": {\n"p": "hunter2"}}, {"kind": "Pod", "a": 1}]}',
        'items: [{"kind": "Secret", "p": "hunter2"},\n' + " " * 300 + '{"kind": "Pod", "a": 1}]\n',
    ],
)
def test_a_message_about_an_object_shows_no_secret_in_its_line(text: str) -> None:
    (document,) = outcomes(text)
    assert isinstance(document, Document)
    pod = next(it for it in range(2) if document.data["items"][it]["kind"] == "Pod")
    span = span_of(document, ("items", pod, "a"))
    assert "hunter2" not in span.source.text


def test_a_line_is_shown_where_no_secret_can_be_in_it() -> None:
    block = "items:\n- kind: Secret\n  data: {p: hunter2}\n- kind: Pod\n  a: 1\n"
    documents = "items:\n- kind: Pod\n- kind: Pod\n  a: 1\n---\nkind: Secret\n"
    pretty = '{"items": [\n  {"kind": "Secret"},\n  {"kind": "Pod", "a": 1\n  },\n  {"kind": "Pod"}\n]}'
    for text in (
        block,
        f"{block}- kind: Pod\n  b: 1\n",
        pretty,
        documents,
        '{"items": [{"kind": "Pod"}, {"kind": "Pod", "a": 1}]}',
    ):
        document = outcomes(text)[0]
        assert isinstance(document, Document)
        assert span_of(document, ("items", 1, "a")).text in ("a", '"a"')


def test_the_second_document_behind_an_end_has_its_lines() -> None:
    for text in ("a: 1\n...\nb: 2\nc: 3\n", "a: 1\r---\rb: 2\rc: 3\r"):
        first, second = outcomes(text)
        assert isinstance(first, Document)
        assert isinstance(second, Document)
        assert span_of(first, ("a",)).start == 0
        assert span_of(second, ("c",)).start == text.index("c:")
        assert [first.node.value[0][0].value, second.node.value[0][0].value] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "kind: Secret\ndata: {password: hunter2, password: hunter2}\n",
        '{"data": {"password": "hunter2", "password": "hunter2"}, "kind": "Secret"}',
        "kind: List\nitems:\n- {kind: 'Secret', data: [hunter2}\n",
    ],
)
def test_no_line_of_a_secret_is_in_a_message(text: str) -> None:
    (error,) = outcomes(text)
    assert isinstance(error, Diagnostic)
    assert error.span is not None
    assert "hunter2" not in error.span.source.text
    assert "hunter2" not in f"{error.message} {error.cause}"
    harmless = outcomes(text.replace("Secret", "Other"))[0]
    assert isinstance(harmless, Diagnostic)
    assert harmless.span is not None
    assert "hunter2" in harmless.span.source.text


def test_a_file_with_secrets_has_one_blank_text() -> None:
    text = "kind: Secret\na: [\n---\nkind: Secret\nb: [\n"
    spans = [each.span for each in outcomes(text) if isinstance(each, Diagnostic)]
    assert [span.line for span in spans if span is not None] == [3, 6]
    assert len({id(span.source) for span in spans if span is not None}) == 1


def test_not_utf8_has_its_place() -> None:
    with pytest.raises(CommandError, match="not UTF-8"):
        source_of("a.yaml", b"a: \xff")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(["items", "kind", "a", "<<"]), VALUES), min_size=1, max_size=3))
@examples(200)
def test_json_is_read_as_the_reader_of_yaml_reads_it(values: list[Any]) -> None:
    text = "\n---\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    for one in (json.dumps(values[0]), json.dumps(values[0], ensure_ascii=False, indent=2)):
        fast = read_json(one, Budget, lambda item: item)
        if fast is None:
            continue
        try:
            (slow,) = Builder(one, Budget, lambda item: item).documents()
        except yaml.YAMLError:
            continue  # a character that YAML refuses, and JSON takes
        if '"<<"' not in one:  # a merge has no meaning in JSON
            assert fast[0].data == slow.data
        assert [one[start] for start, _ in fast[0].items] == [one[start] for start, _ in slow.items]
    assert len(outcomes(text)) == len(values)


@pytest.mark.parametrize(("path", "form"), [("a.json", "JSON"), ("a.yaml", "YAML"), ("<standard input>", "YAML")])
def test_a_file_is_said_to_be_not_what_its_name_says(path: str, form: str) -> None:
    (broken,) = documents_of(SourceText(path, '{"a": 1 "b": 2}'))
    assert isinstance(broken, Diagnostic)
    assert broken.message == f"`{path}` is not {form}"
