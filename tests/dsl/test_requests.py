"""Requests: their text, what they resolve to, the rates of their calls, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations_with_replacement, islice
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics
from dsl.program import Program
from dsl.requests import MAX_OUTCOMES, MAX_STEPS, Grouping, Step, StepGroup, outcomes
from dsl.syntax.parser import parse
from dsl.text import SourceText, Span
from tests.dsl.programs import codes, findings, load
from tests.dsl.strategies import programs
from tests.dsl.test_properties import _bare
from tests.properties import examples

HEAD = """app hotel
external internet
service frontend { http 5000 }
service search, profile, user, rate { grpc 8082 }
service geo { grpc 8083  grpc admin 9000 }
service audit { http 80 }
service mongo_rate { tcp 27017 }
call internet -> frontend { rate 800/s }
call frontend -> search, profile, user, audit
call search -> geo:8083, geo:admin, rate
call rate -> mongo_rate
"""
SEARCH = """request search on internet -> frontend {
  rate 480/s
  call search { call geo:admin  call rate { call mongo_rate { chance 10% } } }
  together { call profile { work 2ms }  call user { times 3 } }
  async call audit
}
"""


NOWHERE = Span(SourceText("", ""), 0, 0)


def shape(step: Step) -> Any:
    """A step without its spans."""
    groups = [(group.grouping.value, [shape(inner) for inner in group.steps]) for group in step.groups]
    return step.destination, step.port, step.chance, step.times, step.work, groups


def rates(program: Program) -> dict[str, float | None]:
    return {f"{call.source} {call.destination}:{call.port.number}": call.rate for call in program.calls}


def test_what_a_request_resolves_to() -> None:
    (request,) = load(HEAD + SEARCH).requests
    assert (request.name, request.rate, request.root.source) == ("search", 480, "internet")
    mongo = ("mongo_rate", 27017, Fraction(1, 10), 1, 0, [])
    searched = [("geo", 9000, 1, 1, 0, []), ("rate", 8082, 1, 1, 0, [("sequence", [mongo])])]
    assert shape(request.root) == (
        "frontend",
        5000,
        1,
        1,
        0,
        [
            ("sequence", [("search", 8082, 1, 1, 0, [("sequence", searched)])]),
            ("together", [("profile", 8082, 1, 1, 2_000_000, []), ("user", 8082, 1, 3, 0, [])]),
            ("async", [("audit", 80, 1, 1, 0, [])]),
        ],
    )
    assert request.span.text == "search"
    assert [step.span.text for step, _ in request.steps()][:3] == ["frontend", "search", "geo:admin"]


def test_a_request_without_braces_is_its_call_alone() -> None:
    (request,) = load(HEAD + "request ping on internet -> frontend\n").requests
    assert (request.rate, request.root.groups) == (None, ())


# ---- the order of lines ----


def _text(step: Any, rnd: random.Random) -> str:
    """A step as text, with its items in any order."""
    name, items, inner = step
    parts = [*items, *(_text(each, rnd) for each in inner)]
    rnd.shuffle(parts)
    return f"call {name} {{\n" + "\n".join(parts) + "\n}"


ITEMS = st.lists(st.sampled_from(["chance 10%", "times 2", "work 2ms"]), unique=True)
LEAVES = st.tuples(st.sampled_from(["a", "b", "c"]), ITEMS, st.just([]))
TREES = st.recursive(
    LEAVES, lambda inner: st.tuples(st.sampled_from(["a", "b", "c"]), ITEMS, st.lists(inner, max_size=3)), max_leaves=8
)


@examples(40)
@given(st.lists(TREES, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_steps_means_nothing(trees: list[Any], rnd: random.Random) -> None:
    head = "app x\nexternal out\nservice a, b, c { http 80 }\ncall out -> a\ncall a, b, c -> a, b, c\n"

    def text() -> str:
        steps = [_text(tree, rnd) for tree in trees]
        lines = ["rate 5/s", *steps[1:], *(f"together {{ {step} {step} }}" for step in steps[:2])]
        rnd.shuffle(lines)
        return head + "request r on out -> a {\n" + "\n".join(lines) + "\n}\n"

    one_text, other_text = text(), text()
    if codes(one_text):
        # too many outcomes
        assert codes(one_text) == codes(other_text)
        return
    one, other = load(one_text), load(other_text)
    assert shape(one.requests[0].root) == shape(other.requests[0].root)
    assert rates(one) == rates(other)


# ---- rates ----


def test_calls_without_a_rate_get_that_of_their_requests() -> None:
    found = rates(load(HEAD + SEARCH + "request ping on internet -> frontend { rate 10/s  call user }\n"))
    assert found["internet frontend:5000"] == 800
    assert found["frontend user:8082"] == 480 * 3 + 10
    assert found["rate mongo_rate:27017"] == 48
    assert found["frontend audit:80"] == 480
    assert found["search geo:8083"] is None


def test_a_request_without_a_rate_leaves_its_calls_without_one() -> None:
    found = rates(load(HEAD + SEARCH + "request ping on internet -> frontend { call user }\n"))
    assert found["frontend user:8082"] is None
    assert found["frontend profile:8082"] == 480


def test_requests_of_a_call_may_be_fewer_than_it_declares_but_not_more() -> None:
    text = HEAD.replace("call rate -> mongo_rate", "call rate -> mongo_rate { rate 48/s }") + SEARCH
    assert rates(load(text))["rate mongo_rate:27017"] == 48
    assert rates(load(text.replace("48/s", "90/s")))["rate mongo_rate:27017"] == 90
    (finding,) = findings(text.replace("48/s", "47.5/s"))
    assert finding.code == "ADM118"
    assert "48/s of the call `rate -> mongo_rate`, which declares 47.5/s" in finding.message
    assert finding.span is not None
    assert finding.span.text == "mongo_rate"
    assert finding.related[0].span.line == 11


def test_rates_are_compared_exactly() -> None:
    """50/m is no binary fraction: six of them are 5/s, and no more."""
    requests = "".join(f"request r{index} on internet -> frontend {{ rate 50/m }}\n" for index in range(6))
    text = HEAD.replace("rate 800/s", "rate 300/m") + requests
    assert rates(load(text))["internet frontend:5000"] == 5
    assert codes(text + "request more on internet -> frontend { rate 0.001/h }\n") == ["ADM118"]
    same = HEAD.replace("rate 800/s", "rate 10/m") + "request r on internet -> frontend { rate 10/m }\n"
    assert codes(same) == []


def test_rates_reach_the_hops_level_without_a_profile() -> None:
    """A plan may change with the rates of requests: the ADM moves to the busier side."""
    from solver.place import place

    text = (
        "app x\nservice web, app, api { http 80 }\ncall web -> app\ncall app -> api\n"
        "policy a = access_log() on web -> app\npolicy b = access_log() on app -> api\n"
    )
    plain = place(load(text)).objectives
    rated = place(load(text + "request r on web -> app { rate 100/s  call api { times 3 } }\n")).objectives
    assert plain != rated


# ---- bounds ----


def _nested(depth: int, inner: str = "") -> str:
    head = "app x\nexternal out\nservice a { http 80 }\ncall out -> a\ncall a -> a\n"
    return head + "request r on out -> a {" + " call a {" * depth + inner + " }" * (depth + 1)


def test_calls_nest_as_deep_as_brackets() -> None:
    (request,) = load(_nested(63)).requests
    assert sum(1 for _ in request.steps()) == 64
    assert codes(_nested(64)) == ["ADM006"]


def test_bounds_of_steps_and_calls() -> None:
    assert len(list(load(_nested(0, " call a" * (MAX_STEPS - 1))).requests[0].steps())) == MAX_STEPS
    assert codes(_nested(0, " call a" * MAX_STEPS)) == ["ADM119"]
    assert codes(_nested(62, " call a { times 1000 call a { times 998 } }")) == ["ADM006"]
    assert codes(_nested(1, " times 1000 call a { times 998 }")) == []
    assert codes(_nested(1, " times 1000 call a { times 999 }")) == ["ADM119"]
    deep = "call a { times 1000 " * 60
    assert codes(_nested(0, deep + "}" * 60)) == ["ADM119"]


def test_bound_of_outcomes() -> None:
    chance = " call a { chance 50% }"
    assert codes(_nested(0, chance * 12)) == []
    (finding,) = findings(_nested(0, chance * 13))
    assert finding.code == "ADM120"
    assert finding.span is not None
    assert finding.span.text == "r"
    assert codes(_nested(0, " async" + chance * 12 + " async call a {" + chance * 13 + "}")) == []
    # Of 1,000 repeated calls with two outcomes each there are 1,001 outcomes.
    assert codes(_nested(0, " call a { times 1000" + chance + " }" + chance * 2)) == []
    assert codes(_nested(0, " call a { times 1000" + chance + " }" + chance * 3)) == ["ADM120"]


@examples(60)
@given(TREES)
def test_the_number_of_outcomes(tree: Any) -> None:
    step = _built(tree)
    assert outcomes(step) == _counted(step)


def _built(tree: Any) -> Step:
    name, items, inner = tree
    chance = Fraction(1, 10) if "chance 10%" in items else Fraction(1)
    steps = tuple(_built(each) for each in inner)
    return Step(
        "a", name, 80, NOWHERE, chance, 2 if "times 2" in items else 1, 0, (StepGroup(Grouping.SEQUENCE, steps),)
    )


def _counted(step: Step) -> int:
    """By counting them, up to one more than are allowed."""
    one = min(prod(_counted(inner) for group in step.groups for inner in group.steps), MAX_OUTCOMES + 1)
    found: Iterator[object] = combinations_with_replacement(range(one), step.times)
    absent = [None] if step.chance < 1 else []
    return sum(1 for _ in islice(chain(found, absent), MAX_OUTCOMES + 1))


# ---- mistakes ----


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("request r on internet -> frontent", ["ADM101 frontent"]),
        ("request r on internt -> frontend { call search }", ["ADM101 internt"]),
        ("request r on internet -> search", ["ADM117 search"]),
        ("request r on frontend -> search { call geo }", ["ADM112 geo"]),
        ("request r on frontend -> search { call geo:adm }", ["ADM104 adm"]),
        ("request r on frontend -> search { call rate { call geo:80  call mongo } }", ["ADM104 80", "ADM101 mongo"]),
        (
            "request r on frontend -> search { call rate { call search { call user } } }",
            ["ADM117 search", "ADM117 user"],
        ),
        ("request r on frontend -> search { call serch { call geo } }", ["ADM101 serch", "ADM112 geo"]),
        ("request r on frontend -> search { call serch { call user } }", ["ADM101 serch"]),
        ("request r on frontend -> user { rate 0/s }", ["ADM203 0/s"]),
        ("request r on frontend -> user { rate 5ms }", ["ADM202 5ms"]),
        ("request r on frontend -> user { rate 5/s rate 5/s }", ["ADM109 rate 5/s"]),
        ("request r on frontend -> user { work 0ms }", ["ADM203 0ms"]),
        ("request r on frontend -> user { work 5 }", ["ADM202 5"]),
        ("request r on frontend -> search { call rate { chance 0% } }", ["ADM203 0%"]),
        ("request r on frontend -> search { call rate { chance 100.1% } }", ["ADM203 100.1%"]),
        ("request r on frontend -> search { call rate { chance -1% } }", ["ADM203 -1%"]),
        ("request r on frontend -> search { call rate { chance 0.5 } }", ["ADM202 0.5"]),
        ("request r on frontend -> search { call rate { chance 0.0000001% } }", ["ADM203 0.0000001%"]),
        ("request r on frontend -> search { call rate { times 0 } }", ["ADM203 0"]),
        ("request r on frontend -> search { call rate { times 1001 } }", ["ADM203 1001"]),
        ("request r on frontend -> search { call rate { times 1.5 } }", ["ADM201 1.5"]),
        ("request r on frontend -> search { call rate { times 2 times 2 } }", ["ADM109 times 2"]),
        ("request r on frontend -> search { chance 5% }", ["ADM001 chance"]),
        ("request r on frontend -> search { call rate { rate 5/s } }", ["ADM001 rate"]),
        ("request r on frontend -> search { together { } }", ["ADM001 }"]),
        ("request r on frontend -> search { together { async call rate } }", ["ADM001 async"]),
        ("request r on frontend, search -> user", ["ADM001 ,"]),
        ("request r frontend -> user", ["ADM001 frontend"]),
        ("request r on frontend -> user\nrequest r on frontend -> user", ["ADM105 r"]),
        ("request r on frontend -> user { work 2 ms }", ["ADM001 ms"]),
    ],
)
def test_mistakes(text: str, found: list[str]) -> None:
    assert [_shown(each) for each in findings(HEAD + text)] == found


def _shown(finding: Diagnostic) -> str:
    assert finding.span is not None
    return f"{finding.code} {finding.span.text}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("request r on frontend -> serch", "did you mean `search`?"),
        ("request r on frontend -> search { call rate:admin }", None),
        ("request r on search -> geo:8083 { call rate }", "declare it: `call geo -> rate`"),
        ("request r on frontend -> search { call geo:admn }", "did you mean `admin`?"),
        ("request r on internet -> profile", "declare it: `call internet -> profile`"),
        ("request r on frontend -> user:8082 { cal geo }", "did you mean `call`?"),
        ("request r on frontend -> user { togther { } }", "did you mean `together`?"),
        ("requst r on frontend -> user { call geo }", "did you mean `request`?"),
        ("request r on frontend -> search { call rate { chance 10 % } }", "write `10%` without a space"),
        ("call search { call geo }", "a step stands in the braces of a `request`"),
        ("call search", "a step stands in the braces of a `request`"),
    ],
)
def test_hints(text: str, hint: str | None) -> None:
    (finding, *more) = findings(HEAD + text)
    assert more == []
    if hint is not None:
        assert finding.hint is not None
        assert hint in finding.hint


def test_a_call_on_another_port_is_named() -> None:
    text = HEAD.replace("geo:8083, geo:admin", "geo:admin")
    (finding,) = findings(text + "request r on frontend -> search { call geo:8083 }")
    assert (finding.code, finding.hint) == ("ADM117", "`search` calls `geo:admin`")


def test_a_call_that_may_be_declared_in_a_broken_line_is_not_reported() -> None:
    assert codes(HEAD + "call user -> -> search\nrequest r on frontend -> user { call search }\n") == ["ADM001"]


# ---- the text of broken requests ----


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # not closed: a statement in the next line begins anew
        ("request r on frontend -> search {\n  call rate {\ncall rate -> geo:admn", ["ADM005 {", "ADM104 admn"]),
        ("request r on frontend -> search {\n  call rate\ncall rate, user -> geo:admn", ["ADM005 {", "ADM104 admn"]),
        ("request r on frontend -> search {\n  call rate\ncall {rate, user} -> geo:admn", ["ADM005 {", "ADM104 admn"]),
        ("request r on frontend -> search {\n  call rate\nservice x { htp 80 }", ["ADM005 {", "ADM001 htp"]),
        (
            "request r on frontend -> search {\n  call rate\nrequest s on frontend -> nowhere",
            ["ADM005 {", "ADM101 nowhere"],
        ),
        # closed too early: its remaining steps give one error
        (
            "request r on frontend -> search {\n  call rate }\n  call geo:admin { call rate\n }\n"
            "  async call geo:admin\n}\nservice x { htp 80 }",
            ["ADM001 call geo", "ADM001 htp"],
        ),
        (
            "request r on frontend -> search {\n  call rate } }\n  call geo:admin\n}\nservice x { htp 80 }",
            ["ADM001 }", "ADM001 htp"],
        ),
        # misspelt: its steps are no statements
        (
            "requst r on frontend -> search {\n  call rate\n  call geo:admin { }\n}\nservice x { htp 80 }",
            ["ADM008 requst", "ADM001 htp"],
        ),
        (
            "requst r on frontend -> search {\n  call rate\n}\nrequest s on frontend -> search { call search }",
            ["ADM008 requst", "ADM117 search"],
        ),
        # in the braces of another statement such a line begins a statement
        ("service x { http 80\ncall search\nservice y { htp 80 }", ["ADM005 {", "ADM001 ", "ADM001 htp"]),
        # several errors at once
        (
            "request r on frontend -> search {\n  call rat\n  call geo:admin { chance 0% }\n"
            "  call rate { times 0 }\n}\nrequest s on frontend -> search {\n  call rate\n  cal geo\n}\n",
            ["ADM101 rat", "ADM203 0%", "ADM203 0", "ADM001 cal"],
        ),
    ],
)
def test_a_broken_request_affects_no_other_statement(text: str, found: list[str]) -> None:
    assert [_shown(each) for each in findings(HEAD + text)] == found


@pytest.mark.long
@examples(80)
@given(programs(), st.data())
def test_a_missing_or_needless_brace_affects_no_other_statement(
    program: tuple[list[str], list[str]], data: st.DataObject
) -> None:
    lines = [line for line in (*program[0], *program[1]) if not line.startswith("request")]
    broken = [line for line in program[0] if line.startswith("request") and "{" in line]
    if not broken:
        return
    text = data.draw(st.sampled_from(broken))
    at = data.draw(st.sampled_from([index for index, sign in enumerate(text) if sign in "{}"]))
    damaged = data.draw(st.sampled_from([text[:at] + text[at + 1 :], text[:at] + text[at] + text[at:]]))
    place = data.draw(st.integers(0, len(lines)))
    found = _statements("\n".join([*lines[:place], damaged, *lines[place:]]))
    expected = _statements("\n".join(lines))
    assert [each for each in found if each in expected] == expected


def _statements(text: str) -> list[Any]:
    return [_bare(each) for each in parse(SourceText("policies.adm", text), Diagnostics()).statements]


def test_names_that_are_words_of_the_language() -> None:
    text = (
        "app x\nexternal out\nservice call, request, together, async, work, times, chance, on { http 80 }\n"
        "call out -> request\ncall request -> call, together, async, work, times, chance, on\n"
        "request on on out -> request {\n  call call\n  call together  call async\n  async call work\n"
        "  together { call times { times 2 }  call chance { chance 5% } }\n  call on\n  work 2ms\n}\n"
        "policy p = access_log() on out,\n  request -> call,\n  request\n"
    )
    program = load(text)
    assert len(list(program.requests[0].steps())) == 8
    assert dsl.format_text(text).count("\n") == text.count("\n")
    assert set(program.policies[0].destinations) == {"call", "request"}
