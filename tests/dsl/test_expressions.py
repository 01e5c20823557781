"""What is found out about an expression, compared with RE2 itself."""

from __future__ import annotations

import re2
from hypothesis import given
from hypothesis import strategies as st

from dsl.expressions.automata import Condition, Words, expression, shortest
from dsl.expressions.syntax import UndecidedError, alternatives
from tests.properties import examples

_ATOMS = st.sampled_from(
    (
        *(
            "a",
            "b",
            "/",
            "[ab]",
            "[^a/]",
            "[^]a]",
            r"\d",
            r"\W",
            r"\S",
            ".",
            "(?i:a)",
            "(a|/b)",
            "(?:b|)",
            "[[:alpha:]]",
        ),
        *("[[:^digit:]]", r"\x61", r"\x{2f}", r"\141", r"\Qa.b\E", r"\Q?\E", "^", "$", r"\A", r"\z", "(?s:.)", "(?i)"),
        *("[a-c/-]", r"\?", "{", "b{,2}", "(?P<n>a)", "(?<m>b)", r"\t", r"[\d-]", "(?i-s:a.)"),
    )
)
_SUFFIXES = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])
_PATTERNS = st.lists(st.tuples(_ATOMS, _SUFFIXES).map("".join) | st.just("|"), max_size=5).map("".join)
_TEXTS = st.text("ab/AxX.?{,2\n\tc-1", max_size=5)


def _matches(pattern: str, text: str) -> bool | None:
    """By RE2; None if it refuses the expression."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).fullmatch(text) is not None
    except re2.error:
        return None


@given(_PATTERNS, st.lists(_TEXTS, min_size=1, max_size=10))
@examples(300)
def test_an_expression_matches_what_re2_matches(pattern: str, texts: list[str]) -> None:
    if _matches(pattern, "") is None:
        return
    try:
        found = expression(pattern)
    except UndecidedError:
        return
    for text in texts:
        assert found.matches(text) is _matches(pattern, text)
    short = shortest([Condition(found)])
    if short is None:
        assert not any(_matches(pattern, text) for text in texts)
    else:
        assert _matches(pattern, short)


def test_a_text_in_one_language_and_not_in_others() -> None:
    paths = Condition(expression("/[a-z/]*"))
    assert shortest([paths, Condition(Words(["/", "/a"]), wanted=False)]) == "/b"
    assert (
        shortest([paths, Condition(expression("/a.*")), Condition(Words(["/a"], prefixes=True), wanted=False)]) is None
    )
    assert shortest([paths, Condition(expression(".*b"))], "/long/a") == "/long/ab"
    assert shortest([Condition(expression("a.*")), Condition(expression(".*b"), wanted=False)]) == "a"


def test_alternatives_that_stand_in_no_group() -> None:
    assert alternatives("/a|b(c|d)|[|]") == ("/a", "b(c|d)", "[|]")
    assert alternatives("/a(b|c)") == ()
    assert alternatives("(?i)/a|/b") == ()


def test_what_is_not_analysed() -> None:
    for pattern in (r"\bx", r"\pL", "(?m)^a", "é", "(?i)*"):
        try:
            expression(pattern)
        except UndecidedError:
            continue
        raise AssertionError(pattern)
