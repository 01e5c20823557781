"""A match that is proven impossible holds for no request, and each example satisfies its match."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsl.checks.possible import answer, impossible
from dsl.match import And, Comparison, Field, Match, Not, Operator, Or
from dsl.program import Protocol
from dsl.selecting import Example, holds
from tests.properties import examples

_PATHS = ("/", "/a", "/a/b", "/b", "/a/", "//", "/A/b")
_METHODS = ("GET", "POST", "OPTIONS", "CONNECT", "PURGE")
_HEADERS = ("a", "b", "a,b", "a, b", "ab", "")


def _comparisons(field: Field, values: tuple[str, ...], expressions: tuple[str, ...]) -> st.SearchStrategy[Match]:
    return st.builds(
        Comparison, st.just(field), st.sampled_from(["==", "!=", "starts_with"]).map(Operator), st.sampled_from(values)
    ) | st.builds(Comparison, st.just(field), st.just(Operator.MATCHES), st.sampled_from(expressions))


_MATCHES = st.recursive(
    _comparisons(Field("path"), _PATHS, ("/.*", "/a/?", "a", "(?i)/a.*", "/[^a].*", ".*/b", "/+"))
    | _comparisons(Field("method"), _METHODS, ("GET|POST", ".*T", "(?i)get"))
    | _comparisons(Field("host"), ("a.b", "a", "b"), ("a.*", "A", "[^a].*"))
    | _comparisons(Field("header", "x"), ("a", "b", "a,b"), ("a.*", ".*b", "[^a]*")),
    lambda inner: (
        inner.map(Not)
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts)))
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts)))
    ),
    max_leaves=6,
)
_LINES = st.lists(st.sampled_from(_HEADERS).map(lambda value: ("x", value)), max_size=2)
_HOSTS = st.lists(
    st.sampled_from(["a", "A:80", "a.", "a.b.:1", "b", "[::1]:8"]).map(lambda value: ("host", value)), max_size=1
)
_REQUESTS = st.builds(
    lambda method, path, lines, hosts: Example(method, path, (*lines, *hosts)),
    st.sampled_from(_METHODS),
    st.sampled_from([*_PATHS, "/a?b", "/x"]),
    _LINES,
    _HOSTS,
)


@given(_MATCHES, st.lists(_REQUESTS, min_size=20, max_size=20))
@examples(400)
def test_what_is_impossible_holds_for_no_request(match: Match, requests: list[Example]) -> None:
    if impossible(match, (Protocol.HTTP,)):
        assert not any(holds(match, request) for request in requests)
    for example in answer(match, Protocol.HTTP).examples:
        assert holds(match, example)


@given(_MATCHES)
@examples(200)
def test_most_possible_matches_have_an_example(match: Match) -> None:
    """Without a header of several values, each possible match has one."""
    found = answer(match, Protocol.HTTP)
    if "x" not in {field.header for field in _fields(match)} and found.possible:
        assert found.examples


def _fields(match: Match) -> set[Field]:
    if isinstance(match, Comparison):
        return {match.field}
    if isinstance(match, Not):
        return _fields(match.operand)
    return set().union(*map(_fields, match.operands))


def test_an_or_of_what_is_impossible_together_is_possible() -> None:
    path = Field("path")
    operands = (Comparison(path, Operator.EQUALS, "/a"), Not(Comparison(path, Operator.STARTS_WITH, "/")))
    assert answer(Or(operands), Protocol.HTTP).possible
    assert not answer(And(operands), Protocol.HTTP).possible
    assert not answer(Not(Or(tuple(map(Not, operands)))), Protocol.HTTP).possible


def test_many_comparisons_take_no_long_time() -> None:
    path = Field("path")
    unequal = tuple(Comparison(path, Operator.NOT_EQUALS, f"/p{index}" * 20) for index in range(900))
    assert answer(And((*unequal, Comparison(path, Operator.STARTS_WITH, "/p1"))), Protocol.HTTP).examples
    large = tuple(Comparison(path, Operator.MATCHES, f"/(a|b)*a(a|b){{{index}}}") for index in range(10, 20))
    assert answer(And(large), Protocol.HTTP).possible
