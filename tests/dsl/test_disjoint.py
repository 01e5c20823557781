"""Two matches are disjoint only if no request satisfies both."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.checks.disjoint import disjoint
from dsl.match import And, Comparison, Field, Match, Not, Operator, Or
from tests.properties import examples

PATH = Field("path")
TIER = Field("header", "x-tier")
VALUES = ("/", "/a", "/a/b", "/b")
MATCHES = st.recursive(
    st.builds(
        Comparison,
        st.sampled_from([PATH, TIER]),
        st.sampled_from(list(Operator)),
        st.sampled_from(VALUES),
    ),
    lambda inner: (
        inner.map(Not)
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts)))
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts)))
    ),
    max_leaves=6,
)


def holds(match: Match, request: Mapping[Field, str | None]) -> bool:
    """An independent evaluation of a match."""
    if isinstance(match, Not):
        return not holds(match.operand, request)
    if isinstance(match, And):
        return all(holds(operand, request) for operand in match.operands)
    if isinstance(match, Or):
        return any(holds(operand, request) for operand in match.operands)
    if match.operator is Operator.NOT_EQUALS:
        return not holds(Comparison(match.field, Operator.EQUALS, match.value), request)
    value = request[match.field]
    if value is None:
        return False
    values = [value]
    if match.field.header is not None:
        values += [element.strip() for element in value.split(",")]
    return any(satisfies(match.operator, match.value, item) for item in values)


def satisfies(operator: Operator, wanted: str, value: str) -> bool:
    if operator is Operator.EQUALS:
        return value == wanted
    if operator is Operator.STARTS_WITH:
        return value.startswith(wanted)
    return re.fullmatch(wanted, value) is not None


TIERS = ("/", "/a", "/a/b", "/b", "/a/x", "z", None, "/a, /b", "z,/a/b", "/a,/b,/", "/a/b ,/a", "z, /")
REQUESTS = [{PATH: path, TIER: tier} for path, tier in itertools.product((*VALUES, "/a/x", "/c"), TIERS)]


@examples(200)
@given(MATCHES, MATCHES)
def test_disjoint_matches_never_hold_together(one: Match, other: Match) -> None:
    if disjoint(one, other):
        assert not any(holds(one, request) and holds(other, request) for request in REQUESTS)


def equals(value: str, field: Field = PATH) -> Comparison:
    return Comparison(field, Operator.EQUALS, value)


def starts(value: str, field: Field = PATH) -> Comparison:
    return Comparison(field, Operator.STARTS_WITH, value)


@pytest.mark.parametrize(
    ("one", "other", "proven"),
    [
        (None, None, False),
        (equals("/a"), None, False),
        (equals("/a"), equals("/b"), True),
        (equals("/a"), equals("/a"), False),
        (equals("/a"), equals("/b", TIER), False),
        (equals("/a"), Comparison(PATH, Operator.NOT_EQUALS, "/a"), True),
        (equals("/a"), Not(equals("/a")), True),
        (equals("/abc"), starts("/a"), False),
        (equals("/b"), starts("/a"), True),
        (starts("/a"), starts("/b"), True),
        (starts("/a"), starts("/ab"), False),
        (starts("/ab"), Not(starts("/a")), True),
        (starts("/a"), Not(starts("/ab")), False),
        (Or((equals("/a"), equals("/b"))), equals("/c"), True),
        (Or((equals("/a"), equals("/b"))), Or((equals("/b"), equals("/c"))), False),
        (And((equals("/a"), equals("x", TIER))), And((equals("/b"), equals("x", TIER))), True),
        # A header may have both values, as elements of a list.
        (equals("x", TIER), equals("y", TIER), False),
        (equals("x", TIER), starts("y", TIER), False),
        (equals("x", TIER), Comparison(TIER, Operator.NOT_EQUALS, "y"), False),
        (equals("x", TIER), Comparison(TIER, Operator.NOT_EQUALS, "x"), True),
        (equals("x", TIER), Not(equals("x", TIER)), True),
        (starts("x", TIER), Not(starts("x", TIER)), True),
        (Comparison(PATH, Operator.MATCHES, "/a"), Comparison(PATH, Operator.MATCHES, "/b"), False),
        (Comparison(PATH, Operator.MATCHES, "/a"), Not(Comparison(PATH, Operator.MATCHES, "/a")), True),
        # A missing header satisfies both of these.
        (Not(equals("x", TIER)), Not(starts("", TIER)), False),
    ],
)
def test_proofs(one: Match | None, other: Match | None, *, proven: bool) -> None:
    assert disjoint(one, other) is proven
    assert disjoint(other, one) is proven


def test_a_match_that_grows_too_large_is_not_proven() -> None:
    wide = And(tuple(Or((equals(f"/{i}", Field("header", f"a{i}")), starts("/x"))) for i in range(40)))
    assert disjoint(wide, equals("/b")) in (True, False)
    many = Or(tuple(equals(f"/{i}") for i in range(300)))
    assert not disjoint(many, equals("/b"))
