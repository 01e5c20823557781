"""What `admc fmt` makes of lines that are too long, and of what a person has broken."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from dsl.syntax.layout import WIDTH
from tests.dsl.strategies import COMMENTS
from tests.dsl.test_properties import comments, tree
from tests.properties import examples

LONG = [f"service_with_a_long_name_{index}" for index in range(6)]
NAMES = ", ".join(LONG)
WRAPPED = {
    f"service {NAMES} {{ http 80 }}": """\
service service_with_a_long_name_0, service_with_a_long_name_1, service_with_a_long_name_2,
  service_with_a_long_name_3, service_with_a_long_name_4, service_with_a_long_name_5 { http 80 }
""",
    f"call web -> {NAMES}   {{ rate 5/s }} // why": """\
call web -> service_with_a_long_name_0, service_with_a_long_name_1, service_with_a_long_name_2,
  service_with_a_long_name_3, service_with_a_long_name_4, service_with_a_long_name_5 { rate 5/s }  // why
""",
    f"policy p = allow(callers: [{NAMES}]) on * -> web": """\
policy p = allow(
  callers: [service_with_a_long_name_0, service_with_a_long_name_1, service_with_a_long_name_2,
    service_with_a_long_name_3, service_with_a_long_name_4, service_with_a_long_name_5]) on * -> web
""",
    f"call {{{NAMES}}} -> web": """\
call {service_with_a_long_name_0, service_with_a_long_name_1, service_with_a_long_name_2,
  service_with_a_long_name_3, service_with_a_long_name_4, service_with_a_long_name_5} -> web
""",
    'service web { http 8080  labels { app  tier = "%s"  team = "storage" }  replicas 2 }' % ("x" * 60): """\
service web { http 8080
  labels { app  tier = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    team = "storage" }  replicas 2 }
""",
    "@ingress @effect(counts, rejects) @component(some_component) kind own(requests: int, per: duration, "
    'burst: int) for http template "t.yaml"': """\
@ingress @effect(counts, rejects) @component(some_component)
kind own(requests: int, per: duration, burst: int) for http template "t.yaml"
""",
    'policy p = deny() on a -> b when not (path == "/aaaaaaaaaaaaaaaaaaaaaaa" or path == "/bbbbbbbbbbbbbbbbbbbbb" or '
    'path == "/c")': """\
policy p = deny() on a ->
  b when not (path == "/aaaaaaaaaaaaaaaaaaaaaaa" or path == "/bbbbbbbbbbbbbbbbbbbbb"
  or path == "/c")
""",
    f'policy p = deny() on a -> b when path == "{"x" * 120}"': f"""\
policy p = deny() on a ->
  b when path == "{"x" * 120}"
""",
    f"call {'x' * 99} -> b": f"call {'x' * 99} ->\n  b\n",
    "call a -> call, call, // why\n\n  // and\n policy,b": "call a -> call, call,  // why\n  // and\n  policy, b\n",
    "call a->{b,c:80}{rate 5/s}": "call a -> {b, c:80}  { rate 5/s }\n",
    "call {a}->b,{c}": "call {a} -> b, {c}\n",
    "kind k(a:duration(1ms .. by 1ms),b:percent(..by 1%),c:int(1 .. 5)) for http": """\
kind k(a: duration(1ms.. by 1ms), b: percent(.. by 1%), c: int(1..5)) for http
""",
    'service a{labels{app,"x/y" tier="db"}}': 'service a  { labels { app, "x/y"  tier = "db" } }\n',
    'service a{labels{app tier="db"}}': 'service a  { labels { app  tier = "db" } }\n',
    "request r on a->b:80{rate 5/s call c:x{chance 10% times 3 call call}together{call d call e{work 2ms}}async call "
    "together work 1s}": """\
request r on a -> b:80 { rate 5/s  call c:x { chance 10%  times 3  call call }
  together { call d  call e { work 2ms } }  async call together  work 1s }
""",
    f"request r on a -> b {{ {' '.join('call ' + name for name in LONG[:4])} }}": """\
request r on a -> b { call service_with_a_long_name_0  call service_with_a_long_name_1
  call service_with_a_long_name_2  call service_with_a_long_name_3 }
""",
    "request r on a->b{ // why\n rate 5/s\ncall call{// deep\ncall c}  // end\n\n}": """\
request r on a -> b {  // why
  rate 5/s
  call call {  // deep
    call c }  // end
}
""",
}


@pytest.mark.parametrize("text", WRAPPED)
def test_long_lines_are_wrapped(text: str) -> None:
    once = dsl.format_text(text)
    assert once == WRAPPED[text]
    assert dsl.format_text(once) == once
    assert tree(once) == tree(text)


def test_no_break_makes_two_statements_of_one() -> None:
    """A name that is a word of the language, before a word that may follow it."""
    for width in range(60, 100):
        text = (
            f'policy p = deny() on {"x" * width}, policy except call -> call, service except b, policy when path == "/"'
        )
        once = dsl.format_text(text)
        assert tree(once) == tree(text)
        assert dsl.format_text(once) == once


def test_a_row_that_alignment_makes_too_long_is_not_moved() -> None:
    short = f'policy p = deny() on a -> b when path == "/{"x" * 50}"'
    text = f"policy name_of_a_policy = rate_limit(requests: 5, per: 1s) on a -> b\n{short}\n"
    assert dsl.format_text(text) == text


PIECES = st.sampled_from(
    [
        "call {0}, {1} -> {2}, {3}:8080, {{{4}}} {{ rate 20/s  size 2KB }}",
        'service {0}, {1} {{ http {2} 80 -> 81  replicas 3  labels {{ {3}, "a.b/c"  x = "y" }}  namespace {4} }}',
        'external {0}, {1} {{ tcp 443  host "{2}"  cidr "10.0.0.0/8" }}',
        'policy {0} = allow(callers: [{1}, {2}], x: {3}:{4}) on {{{0}, {1}}}, * except {2} -> [{3} = "v"], {4} '
        'when not (path == "/{0}" and method != "{1}") or header("{2}") matches "{3}"',
        "@ingress @effect(reads({0}), writes({1})) @component({2}) kind {3}({0}: int(1..5)? = 3, "
        '{1}: [one_of({2}, {4})], {3}: string = "{4}") for http, grpc template "{0}.yaml"',
        "pin {0} at ingress on {1}, {2} -> {3}, {4}",
        "request {0} on {1} -> {2}:{3} {{ rate 5/s  call {4} {{ chance 10%  work 2ms  call {0}:80  call {1} }}  "
        "together {{ call {2}  call {3} {{ times 2 }} }}  async call {4} }}",
    ]
)
WORDS = st.sampled_from(
    ["call", "policy", "service", "app", "except", "when", "labels", "http", "and", "b"]
) | st.integers(1, 120).map(lambda length: "n" * length)


@examples(40)
@given(st.lists(st.tuples(PIECES, st.lists(WORDS, min_size=5, max_size=5)), min_size=1, max_size=4), st.data())
def test_formatting_long_statements(parts: list[tuple[str, list[str]]], data: st.DataObject) -> None:
    text = ""
    for piece, words in parts:
        for part in piece.format(*words).replace(",", ",\0").replace(" -> ", " ->\0 ").split("\0"):
            text += part
            if part.endswith((",", "->")):
                text += data.draw(
                    st.sampled_from(["", "", "", "\n", "\n\n \n"]) | COMMENTS.map(lambda one: f" {one}\n")
                )
        text += data.draw(st.sampled_from(["\n", " // why\n"]))
    try:
        before = tree(text)
    except AssertionError:  # a break before a word of the language and a name
        return
    once = dsl.format_text(text)
    assert dsl.format_text(once) == once
    assert tree(once) == before
    assert comments(once) == comments(text)
    for line in once.splitlines():
        code = line.split("  //")[0]
        assert len(code) <= WIDTH or max(len(word) for word in code.split()) > 40, line


def test_wrapping_is_linear() -> None:
    text = "call a -> " + ", ".join(f"b{index}" for index in range(15_000)) + "\n"
    start = time.process_time()
    once = dsl.format_text(text)
    assert time.process_time() - start < 10
    assert max(len(line) for line in once.splitlines()) <= WIDTH
