"""Properties of all programs."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dsl
from dsl.diagnostics.diagnostic import Diagnostics, ProgramError
from dsl.program import Program
from dsl.requests import Step
from dsl.syntax import fastpath
from dsl.syntax import tree as syntax
from dsl.syntax.parser import parse
from dsl.syntax.scan import next_line
from dsl.text import SourceText, Span
from tests.dsl.programs import findings, load
from tests.dsl.strategies import COMMENTS, NAMES, SOFT, laid_out, programs
from tests.properties import examples


def _bare(node: Any) -> Any:
    """A node without its spans."""
    if isinstance(node, Span):
        return None
    if isinstance(node, tuple):
        return (type(node).__name__, *(_bare(part) for part in node))
    return node


def tree(text: str) -> list[Any]:
    diagnostics = Diagnostics()
    module = parse(SourceText("policies.adm", text), diagnostics)
    assert not diagnostics.items
    return [_bare(statement) for statement in module.statements]


def _content(program: Program) -> Any:
    """A program without spans and digests."""
    return (
        program.app,
        [_fields(service) for service in program.services.values()],
        [_fields(external) for external in program.externals.values()],
        [_bare(call) for call in program.calls],
        [_fields(kind) for kind in program.kinds.values()],
        [_fields(policy) for policy in program.policies],
        [_bare(pin) for pin in program.pins],
        program.objective,
        program.requests and [(one.name, one.rate, _bare_step(one.root)) for one in program.requests],
        [item.path for item in program.inputs],
        sorted((warning.code, warning.message) for warning in program.warnings),
    )


def _bare_step(step: Step) -> Any:
    groups = [(group.grouping, [_bare_step(inner) for inner in group.steps]) for group in step.groups]
    return step.call, step.chance, step.times, step.work, groups


def _fields(thing: Any) -> dict[str, Any]:
    names = [name for name in thing.__dataclass_fields__ if name not in ("span", "note", "narrowing", "kind")]
    return {name: _bare(getattr(thing, name)) for name in names}


# ---- the order of lines ----


@pytest.mark.long
@examples(60)
@given(programs(), st.randoms(use_true_random=False))
def test_only_the_order_of_policies_has_a_meaning(program: tuple[list[str], list[str]], rnd: random.Random) -> None:
    lines, rules = program
    shuffled = lines.copy()
    rnd.shuffle(shuffled)
    places = sorted(rnd.randrange(len(shuffled) + 1) for _ in rules)
    for place, rule in reversed(list(zip(places, rules, strict=True))):
        shuffled.insert(place, rule)
    assert _content(load("\n".join([*lines, *rules]))) == _content(load("\n".join(shuffled)))


@examples(20)
@given(programs())
def test_the_order_of_policies_is_kept(program: tuple[list[str], list[str]]) -> None:
    lines, rules = program
    loaded = load("\n".join([*reversed(rules), *lines]))
    assert [policy.name for policy in loaded.policies] == [f"p{index}" for index in reversed(range(len(rules)))]


@pytest.mark.long
@examples(40)
@given(programs())
def test_a_program_is_canonical(program: tuple[list[str], list[str]]) -> None:
    loaded = load("\n".join([*program[0], *program[1]]))
    keys = [(call.destination, call.source, call.port.number) for call in loaded.calls]
    assert keys == sorted(set(keys))
    assert list(loaded.services) == sorted(loaded.services)
    assert list(loaded.kinds) == sorted(loaded.kinds)
    for policy in loaded.policies:
        assert list(policy.calls) == sorted(set(policy.calls))
        assert list(policy.destinations) == sorted(set(policy.destinations))
        assert policy.places <= policy.kind.places
        assert policy.places
        expected = [
            index
            for index, call in enumerate(loaded.calls)
            if call.source in policy.sources and call.destination in policy.destinations
        ]
        assert list(policy.calls) == expected
        assert list(policy.arguments) == [parameter.name for parameter in policy.kind.parameters]


# ---- the fast path ----

QUANTITIES = st.sampled_from(["1", "20/s", "2KB", "0.5/m", "1.5e", "3%", "7xx/h", "1us", "9/S", "5/", "-3/s"])
BLANKS = st.sampled_from([" ", "", "  ", "\t"])


@st.composite
def plain_statements(draw: st.DrawFn) -> str:
    blank = lambda: draw(BLANKS)  # noqa: E731
    name = lambda: draw(NAMES | SOFT)  # noqa: E731
    if draw(st.booleans()):
        replicas = draw(st.sampled_from(["", " replicas 2", "  replicas 99", "replicas", " capacity 1"]))
        port = draw(st.sampled_from(["8080", "99999999", "80x", "admin 80", "80 -> 81"]))
        protocol = draw(st.sampled_from(["http", "tcp", "grpc", "htp"]))
        text = f"service {name()}{blank()}{{{blank()}{protocol} {port}{replicas}{blank()}}}"
    else:
        rate = draw(st.sampled_from(["", "rate", "size"]))
        size = draw(st.sampled_from(["", "size", "rate"]))
        items = "".join(f"{blank()}{word} {draw(QUANTITIES)}" for word in (rate, size) if word)
        body = draw(st.sampled_from(["", f"{blank()}{{{items}{blank()}}}"]))
        text = f"{blank()}call {name()}{blank()}->{blank()}{name()}{body}"
    return text + draw(st.sampled_from(["", " ", "\r", " // x"]))


@examples(150)
@given(st.lists(plain_statements() | COMMENTS | st.just(""), min_size=1, max_size=6).map("\n".join))
def test_fast_path_and_parser_build_the_same_nodes(text: str) -> None:
    source = SourceText("policies.adm", text)
    fast, slow = Diagnostics(), Diagnostics()
    assert parse(source, fast) == parse(source, slow, fast=False)
    assert fast.items == slow.items


def test_the_fast_path_is_taken() -> None:
    text = (
        "call a -> b { rate 20/s  size 2KB }\nservice a { http 80  replicas 2 }  // why\ncall a->b\n\ncall a -> b, c\n"
    )
    found: list[syntax.Statement | syntax.Broken] = []
    position = fastpath.read(SourceText("policies.adm", text), 0, found)
    assert len(found) == 3
    assert text[position:] == "\ncall a -> b, c\n"


# ---- the formatter ----


def comments(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while True:
        line = next_line(text, position, comments=True)
        if not line.tokens:
            return found
        found.extend(token.text.rstrip() for token in line.tokens if token.type == "COMMENT")
        position = line.next


@examples(60)
@given(laid_out())
def test_formatting(text: str) -> None:
    once = dsl.format_text(text)
    assert dsl.format_text(once) == once
    assert comments(once) == comments(text)
    assert tree(once) == tree(text)
    assert re.search(r"[ \t\r]+$", once, re.MULTILINE) is None
    assert "\n\n\n" not in once
    assert once.endswith("\n")


# ---- arbitrary input ----

_WORDS = (
    "app use topology external service call kind policy pin objective on at for when and or not except labels no "
    "request together async chance times work rate "
    'adm a b c web * mongo_* 5 80 10/s 2KB 1s 10% -1 1..3 "x" "/" "\\" " \' { } ( ) [ ] , : = @ ? -> == != .. // '
    "\n \t \0 é @ingress @egress @effect retry timeout rate_limit(requests:1,per:1s) minimize adms then template"
)
WORDS = st.sampled_from(_WORDS.split(" "))


@examples(150)
@given(st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_program_or_has_diagnostics(text: str) -> None:
    _load_anything(text)


@examples(60)
@given(laid_out(), st.data())
def test_any_damage_is_a_program_or_has_diagnostics(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 8)))
        text = text[:start] + data.draw(WORDS | st.just("") | st.characters()) + text[end:]
    _load_anything(text)


def _load_anything(text: str) -> None:
    for finding in findings(text):
        assert finding.message
        if finding.span is not None:
            assert 0 <= finding.span.start <= finding.span.end <= len(finding.span.source.text)
            assert str(finding.span)
    try:
        formatted = dsl.format_text(text)
    except ProgramError:
        return
    assume(formatted)
    assert dsl.format_text(formatted) == formatted


@examples(60)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.sampled_from(["a", "http", "/", "5/s"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["services", "externals", "calls", "name", "port", "ports", "protocol", "source", "labels"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_topology_is_a_program_or_has_diagnostics(data: object) -> None:
    program = 'app x\ntopology "t.json"\n'
    for finding in findings(program, {"t.json": json.dumps(data).encode()}):
        assert finding.span is not None
        assert str(finding.span)
