"""Where a policy is enforced changes no answer, but for the undeclared callers that a NetworkPolicy refuses."""

from __future__ import annotations

from random import Random
from typing import Final

from hypothesis import event, given
from hypothesis import strategies as st

from admc.review.program_tests.resolve import resolve_tests
from admc.review.program_tests.verdict import Failed, Passed, Result, Subject, judge, subject_of
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.syntax.parser import parse
from dsl.text import SourceText
from solver.place import place
from solver.placement import PlacementError
from tests.dsl.programs import load
from tests.properties import examples

HEAD: Final = "app shop\nservice web, other, more { http 80 }\nservice api { http 80 }\ncall web -> api\n"
KINDS: Final = (
    *("allow(callers: [web])", "allow(callers: [web, other])", 'deny() when path == "/a"'),
    *('deny() when header("x") == "1"', "rate_limit(requests: 5, per: 1s)", "access_log()"),
    *('request_count() when path starts_with "/a"', 'set_request_header(name: "x", value: "1")'),
    *('rewrite_path(prefix: "/b", to: "/a")', 'fault_abort(status: 503) when header("x") == "1"'),
)
SOURCES: Final = ("*", "*", "web", "* except more", "{web, more}")
REQUESTS: Final = ('path "/a"', 'path "/b"  header("x") "1"', 'path "/c"  no header("x")')


@st.composite
def policies(draw: st.DrawFn) -> tuple[str, ...]:
    """One to three policies on the calls to `api`, without their sides."""
    chance = Random(draw(st.integers(0, 2**32)))  # noqa: S311 - no secret
    lines = ["call other -> api\n"] if chance.random() < 0.4 else [""]
    for number in range(chance.randint(1, 3)):
        kind, _, match = chance.choice(KINDS).partition(" when ")
        when = f" when {match}" if match else ""
        lines.append(f"policy p{number} = {kind} on {chance.choice(SOURCES)} -> api{when}\n")
    return tuple(lines)


def placed(lines: tuple[str, ...], side: str) -> Subject | None:
    call, *declared = lines
    program = load(HEAD + call + "".join(f"{side}\n{line}" for line in declared))
    try:
        return subject_of(program, place(program))
    except PlacementError:
        return None


def result(about: Subject, expectation: str) -> Result:
    diagnostics = Diagnostics()
    text = SourceText("a.test.adm", f"test it = {expectation}\n")
    (test,) = resolve_tests(parse(text, diagnostics), about.program, diagnostics)
    return judge(test, about)


@examples(40)
@given(policies())
def test_answers_are_the_same_at_both_sides(lines: tuple[str, ...]) -> None:
    ingress, egress = placed(lines, "@ingress"), placed(lines, "@egress")
    if ingress is None or egress is None:
        event("only one side is possible")
        return
    names = [f"p{number}" for number in range(len(lines) - 1)]
    outcomes = (
        "is refused",
        "is admitted",
        *(f"{verb} {name}" for verb in ("is refused by", "meets") for name in names),
    )
    for source in ("web", "other", "more"):
        declared = any(call.source == source for call in egress.program.calls)
        for request in REQUESTS:
            for outcome in outcomes:
                expectation = f"{source} -> api {{ {request} }} {outcome}"
                one, other = result(ingress, expectation), result(egress, expectation)
                if declared or not egress.placement.closed:
                    # At ingress, what named sources send without declaring it is open.
                    assert {type(one), type(other)} != {Passed, Failed}, expectation
                elif "refused" in outcome:
                    event("refused by a NetworkPolicy")
                    assert isinstance(other, Passed) or not isinstance(one, Passed), expectation
