"""The expression by which Envoy compares a host, against the rules of the language."""

from __future__ import annotations

import re2
from hypothesis import given
from hypothesis import strategies as st

from dsl.match import HOST, Comparison, Operator
from dsl.selecting import Example, holds
from emitters.envoy.matching.predicates import host_expression
from tests.properties import examples

_AUTHORITIES = st.text("aA.:8[]", max_size=6)
_LITERALS = st.text("a.8", min_size=1, max_size=5) | st.sampled_from(["[::8]", "[a]", "a:8", "[::8]:8", "a.:"])
_EXPRESSIONS = st.sampled_from(["a", "A.*", "[^.]+[.]a", ".*", "a[.].*", "a:8", r"\Qa.\E", "[^a]*", "a|8", ".+[.]"])


@given(st.sampled_from([Operator.EQUALS, Operator.STARTS_WITH]), _LITERALS, _AUTHORITIES)
@examples(500)
def test_a_literal(operator: Operator, value: str, authority: str) -> None:
    expected = holds(Comparison(HOST, operator, value), Example("GET", "/", (("host", authority),)))
    if value in ("a:8", "[::8]:8", "a.:"):
        expected = False  # no host has it, and programs with it get an error or a warning
    assert (re2.fullmatch(host_expression(operator, value), authority) is not None) is expected


@given(_EXPRESSIONS, _AUTHORITIES)
@examples(500)
def test_an_expression(value: str, authority: str) -> None:
    expected = holds(Comparison(HOST, Operator.MATCHES, value), Example("GET", "/", (("host", authority),)))
    assert (re2.fullmatch(host_expression(Operator.MATCHES, value), authority) is not None) is expected
