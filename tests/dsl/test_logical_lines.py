"""Where a statement continues in the next line, and the errors where it does not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.diagnostics.diagnostic import Diagnostics, Severity
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.text import SourceText
from tests.dsl.programs import findings, load
from tests.dsl.strategies import COMMENTS, NAMES, SOFT
from tests.properties import examples

HEAD = "app x\nservice a, b, c, call, policy, service { http 80 }\n"


def calls(text: str) -> list[tuple[str, str]]:
    return [(call.source, call.destination) for call in load(HEAD + text).calls]


GOES_ON = {
    "after a comma": "call a -> b,\n  c\n",
    "after an arrow": "call a ->\n  b, c\n",
    "a comment at the end of the line": "call a -> b, // first\n  c\n",
    "comments and blank lines between": "call a -> b,\n\n  // one\n\t\n// two, three ->\n  c\n",
    "CRLF": "call a -> b,\r\n\r\n  c\r\n",
    "no line end after it": "call a -> b,\n  c",
    "a byte order mark in between": "call a -> b,\n\ufeff  c\n",
    "everywhere": "call\ta ->\n b,\n c\n",
    "a set over lines": "call a -> {b,\n  c}\n",
    "a set after a comma": "call a -> b,\n  {c}\n",
    "a set": "call {a} -> {b, c,}\n",
    "a body after it": "call a -> b,\n c {\n rate 5/s\n}\n",
}


@pytest.mark.parametrize("text", GOES_ON.values(), ids=GOES_ON)
def test_a_statement_continues_after_a_comma_and_an_arrow(text: str) -> None:
    assert calls(text) == [("a", "b"), ("a", "c")]


WORDS = {
    "call a -> b,\n  policy, c": ["b", "c", "policy"],
    "call a -> b,\n  policy": ["b", "policy"],
    "call a ->\n  service": ["service"],
    "call a ->\n  call, service { rate 5/s }": ["call", "service"],
    "call a -> b,\n  call:80": ["b", "call"],
    "call a -> b, // call a -> c\n  service // service c\n": ["b", "service"],
    "call a -> b\ncall a -> policy": ["b", "policy"],
}


@pytest.mark.parametrize("text", WORDS)
def test_keywords_continue_a_statement_as_names(text: str) -> None:
    assert sorted(name for _, name in calls(text)) == WORDS[text]


def test_every_list_continues() -> None:
    program = load(
        """app x
external inside,
  outside
service a,
  service { http 80 }
call inside,
  outside -> a
@ingress
kind own() for http,
  grpc template "own.yaml"
policy p = request_count() on inside,
  outside ->
  a
pin p at ingress on inside ->
  a
objective minimize sidecars,
  then adms
"""
    )
    assert sorted(program.services) == ["a", "service"]
    assert sorted(program.policies[0].sources) == ["inside", "outside"]
    assert [metric.value for metric in program.objective] == ["sidecars", "adms"]


BEGINS = [
    "app y",
    'use "k.adm"',
    'topology "t.json"',
    "external d",
    "service d { http 80 }",
    "call b -> c",
    "call {b, c} -> a",
    "call { b } -> c",
    "\ufeffservice d",
    "\tservice\td",
    'kind k() for http template "own.yaml"',
    "policy p = deny() on b -> c",
    "policy except = deny() on b -> c",
    "@ingress",
    "pin p at ingress",
    "objective minimize adms",
    "profile meshinsight",
    "profile meshinsight // built in",
    'profile "node.json"',
]


@pytest.mark.parametrize("broken", ["call a -> b,", "call a ->", "call a -> b, // one\n\n// two"])
@pytest.mark.parametrize("following", BEGINS)
def test_an_error_affects_only_its_statement(broken: str, following: str) -> None:
    alone = Diagnostics()
    expected = parse(SourceText("policies.adm", following + "\n"), alone)
    diagnostics = Diagnostics()
    module = parse(SourceText("policies.adm", f"{broken}\n{following}\n"), diagnostics)
    first = diagnostics.items[0]
    assert first.code == "ADM001"
    assert first.span is not None
    assert first.span.line == 1
    assert "the next line begins a statement" in (first.hint or "")
    assert [item.message for item in diagnostics.items[1:]] == [item.message for item in alone.items]
    assert isinstance(module.statements[0], tree.Broken)
    assert [type(one) for one in module.statements[1:]] == [type(one) for one in expected.statements]


def test_a_misspelt_statement_is_not_read_as_part_of_the_one_before() -> None:
    found = findings(HEAD + "call a -> b,\nsrvice d { http 80 }\ncall a -> d\n")
    assert [(item.code, item.span.line if item.span else 0) for item in found] == [("ADM001", 3), ("ADM008", 4)]
    assert found[1].hint == "did you mean `service`?"
    (found,) = (findings(HEAD + "call a -> b,\n  user profile\n"),)
    assert [(item.code, item.span.line if item.span else 0) for item in found] == [("ADM001", 4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("call a -> b c", "expected `,` or `:` or `{` or `}` or the end of the line"),
        ("policy p = deny() on a -> [app]", "expected `=`"),
        ("service d { labels { app = } }", 'expected a string `"..."`'),
    ],
)
def test_expected_words_are_those_that_are_allowed(text: str, expected: str) -> None:
    (found,) = findings(HEAD + text)
    assert found.cause == expected


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n  \n", "\n// nothing more", " // nothing more\n"])
def test_a_file_that_ends_after_a_comma(end: str) -> None:
    (found,) = findings(HEAD + "call a -> b," + end)
    assert found.code == "ADM001"
    assert str(found.span).endswith(":3:13")
    assert "the file ends here: complete the statement, or remove the `,`" in (found.hint or "")


ELSEWHERE = {
    "call a\n  -> b": (3, "->"),
    "policy p = deny()\n  on a -> b": (3, "on"),
    "policy p =\n  deny() on a -> b": (3, "deny"),
    "policy p = deny() on a\n  -> b": (3, "->"),
    "call a -> b\n  { rate 5/s }": (4, "{"),
    "call a -> b\n  , c": (4, ","),
    'policy p = deny() on a -> b\n  when path == "/"': (4, "when"),
    "policy p = deny() on * -> b\n  except a": (4, "except"),
}


@pytest.mark.parametrize("text", ELSEWHERE)
def test_a_statement_broken_at_another_place_is_one_error(text: str) -> None:
    line, word = ELSEWHERE[text]
    said = findings(HEAD + text + "\ncall a -> b, call\n" * (line == 3))
    (found,) = [item for item in said if item.severity is Severity.ERROR]
    assert found.span is not None
    assert found.span.line == line
    assert f"`{word}`" in found.message + (found.hint or "")
    assert "a statement continues in the next line only inside brackets, or after a `,` or `->`" in (found.hint or "")


@pytest.mark.parametrize(
    "text", ["call {a, b,} -> {c:80, call}", "call a, {b} -> {c}, call", "call {\n a\n,b} -> c, {\n// why\ncall}"]
)
def test_sets_of_callers_and_callees(text: str) -> None:
    assert calls(text) == [("a", "c"), ("b", "c"), ("a", "call"), ("b", "call")]


@pytest.mark.parametrize(
    "text", ["call {} -> a", "call a -> {}", "call a -> {b} c", "call a -> {b, {c}}", "call {a:80} -> b"]
)
def test_invalid_sets(text: str) -> None:
    assert [found.code for found in findings(HEAD + text)] == ["ADM001"]


@examples(50)
@given(st.lists(NAMES | SOFT, min_size=3, max_size=6, unique=True), st.data())
def test_breaks_after_commas_and_arrows_change_nothing(names: list[str], data: st.DataObject) -> None:
    """Unless a keyword and a name follow them."""
    between = st.sampled_from(["\n", "\r\n", "\n\n  ", " \n\t"]) | COMMENTS.map(lambda text: f" {text}\n")
    text = f"app x\nservice {', '.join(names)} {{ http 80 }}\ncall {names[0]} -> {', '.join(names[1:])}\n"
    broken = ""
    for part in text.replace("->", "->\0").replace(",", ",\0").split("\0"):
        broken += part + (data.draw(between | st.just("")) if part.endswith((",", ">")) else "")
    assert [call[:2] for call in load(broken).calls] == [call[:2] for call in load(text).calls]


@examples(50)
@given(st.integers(0, 5), st.sampled_from(["call a -> b,", "call a ->", "service d,", "objective minimize adms,"]))
def test_a_broken_line_leaves_the_findings_of_all_others(place: int, broken: str) -> None:
    lines = [
        "app x",
        "service a, b, c { http 80 }",
        "call a -> nowhere",
        "call b -> c",
        "policy p = retri() on a -> b",
        "policy q = access_log(format: 5) on b -> c",
    ]

    def said(text: str) -> list[tuple[str, str]]:
        return sorted((item.code, item.span.text if item.span else "") for item in findings(text))

    with_it = said("\n".join([*lines[:place], broken, *lines[place:]]))
    expected = [*said("\n".join(lines)), ("ADM001", "")]
    assert with_it == sorted(expected)


@pytest.mark.long
def test_look_ahead_takes_constant_time_for_each_line() -> None:
    cases = {
        "blank lines": "call a -> b," + "\n" * 150_000 + "  c\n",
        "comments": "call a -> b,\n" + "// why\n" * 80_000 + "  c\n",
        "labels": "service d { http 80  labels {\n" + "app x,\n" * 25_000 + "} }\n",
        "names": "call a -> b" + ",\n  b" * 25_000 + "\n",
    }
    for name, text in cases.items():
        start = time.process_time()
        parse(SourceText("policies.adm", HEAD + text), Diagnostics())
        assert time.process_time() - start < 8, name
