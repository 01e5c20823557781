"""Decides whether two matches (`when`) can hold for one request. Rule R6 orders two policies only if one request can
satisfy both matches.

The answer "no" is a proof. If nothing is proven, the answer is "yes", and the verifier demands the order: matches may
take too many steps to examine (`MAX_STEPS`), and a regular expression is never evaluated, only compared by its text.
"""

from __future__ import annotations

from typing import NamedTuple

from dsl.match import And, Comparison, Field, Match, Not, Operator, Or

MAX_STEPS = 10_000
"""Most parts of matches to examine for a refutation."""


class _Literal(NamedTuple):
    """A comparison with `==`, `starts_with` or `matches`, asserted or denied."""

    field: Field
    operator: Operator
    value: str
    holds: bool
    owner: int
    """The match that sees the value: 0 for the first, or for both if they see the same value; 1 for the second."""


def can_both_hold(first: Match | None, second: Match | None, changing: frozenset[Field | None]) -> bool:
    """False only if no request satisfies both.

    `changing` are the fields that one of the two policies writes (a header field without a name: every header; None:
    every field). The two matches may see different values of these fields.
    """
    if first is None or second is None or None in changing:
        return True
    open_branches: list[tuple[tuple[tuple[Match, bool, int], ...], tuple[_Literal, ...]]] = [
        (((first, True, 0), (second, True, 1)), ())
    ]
    steps = 0
    while open_branches:
        goals, literals = open_branches.pop()
        while goals:
            steps += 1
            if steps > MAX_STEPS:
                return True
            (match, wanted, owner), goals = goals[0], goals[1:]
            if isinstance(match, Not):
                goals = ((match.operand, not wanted, owner), *goals)
            elif isinstance(match, Comparison):
                literal = _literal(match, wanted, owner if _changes(match.field, changing) else 0)
                if any(_contradict(literal, other) for other in (*literals, literal)):
                    break
                literals = (*literals, literal)
            elif isinstance(match, And) is wanted:
                goals = (*((operand, wanted, owner) for operand in match.operands), *goals)
            else:
                open_branches.extend((((operand, wanted, owner), *goals), literals) for operand in match.operands)
                break
        else:
            return True
    return False


def fields(match: Match | None) -> frozenset[Field]:
    """Everything that a match compares."""
    fields: set[Field] = set()
    left = [] if match is None else [match]
    while left:
        item = left.pop()
        if isinstance(item, Comparison):
            # `host` is the value of a header under another name.
            fields.add(Field("header", "host") if item.field.name == "host" else item.field)
        elif isinstance(item, Not):
            left.append(item.operand)
        elif isinstance(item, And | Or):
            left.extend(item.operands)
    return frozenset(fields)


def _changes(field: Field, changing: frozenset[Field | None]) -> bool:
    if field.name == "host":
        field = Field("header", "host")
    return field in changing or (field.header is not None and Field(field.name) in changing)


def _literal(comparison: Comparison, wanted: bool, owner: int) -> _Literal:
    if comparison.operator is Operator.NOT_EQUALS:
        return _Literal(comparison.field, Operator.EQUALS, comparison.value, not wanted, owner)
    return _Literal(comparison.field, comparison.operator, comparison.value, wanted, owner)


def _contradict(one: _Literal, other: _Literal) -> bool:
    """Whether it is proven that no request satisfies both literals. The caller also passes a literal together with
    itself, because one literal alone can be impossible: a denied `starts_with ""`."""
    if (one.field, one.owner) != (other.field, other.owner):
        return False
    if one.field.header is not None:
        # The field may have several elements, which satisfy one literal each. If it is missing, every denial holds.
        return (one.operator, one.value) == (other.operator, other.value) and one.holds != other.holds
    if not one.holds:
        one, other = other, one
    if not one.holds:
        # Every request has a path and a method.
        return any(denied.operator is Operator.STARTS_WITH and not denied.value for denied in (one, other))
    if one.operator == other.operator and one.value == other.value:
        return one.holds != other.holds
    if other.holds:
        return not _compatible(one, other) or not _compatible(other, one)
    if other.operator is Operator.STARTS_WITH:
        # A value that is known in full, or by a longer prefix, has a known prefix.
        known = "" if one.operator is Operator.MATCHES else one.value
        return known.startswith(other.value)
    return False


def _compatible(one: _Literal, other: _Literal) -> bool:
    """Whether two asserted literals can both hold."""
    if one.operator is Operator.EQUALS:
        if other.operator is Operator.EQUALS:
            return one.value == other.value
        if other.operator is Operator.STARTS_WITH:
            return one.value.startswith(other.value)
    if one.operator is Operator.STARTS_WITH and other.operator is Operator.STARTS_WITH:
        return one.value.startswith(other.value) or other.value.startswith(one.value)
    return True
