"""Proves that two matches never hold for the same request.

The proof is sound but not complete: True is a proof, False means that no proof was found. Regular expressions are not
analysed. A header may have several values at once, so only a comparison and its own negation exclude each other there.
A field that a policy writes between the two matches has a different value for each match, so it proves nothing.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dsl.match import And, Comparison, Field, Match, Not, Operator, Or, comparisons
from dsl.program import Element, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.program import Policy

MAX_CONJUNCTIONS = 256


class Literal(NamedTuple):
    """A comparison that has to hold, or must not hold (`positive` is False)."""

    comparison: Comparison
    positive: bool


Conjunction = frozenset[Literal]


def disjoint(one: Match | None, other: Match | None, writers: Iterable[Policy] = ()) -> bool:
    """Whether it is proven that no request satisfies both. None matches every request.

    `writers` may change a request between the two, so each match may see another value of the fields that they write.
    """
    if one is not None and other is not None:
        changed = list(filter(None, map(written_by, writers)))
        if any(written.anything for written in changed):
            return False
        one = _renamed(one, changed) if changed else one
    given = tuple(match for match in (one, other) if match is not None)
    if not given:
        return False
    ways = conjunctions(And(given))
    return ways is not None and all(map(_impossible, ways))


class Written(NamedTuple):
    """The fields of a match that a policy may write."""

    anything: bool
    every_header: bool
    fields: frozenset[Field]

    def __bool__(self) -> bool:
        return self.anything or self.every_header or bool(self.fields)

    def has(self, field: Field) -> bool:
        written = field if field.carrier is None else Field("header", field.carrier)
        return self.anything or (self.every_header and field.carrier is not None) or written in self.fields


def written_by(policy: Policy) -> Written:
    """The fields that a policy may write: all fields, if its kind declares no effects."""
    if policy.effects is None:
        return Written(True, True, frozenset())
    every_header = False
    fields: set[Field] = set()
    for effect in policy.effects:
        if effect.verb is not Verb.WRITES or effect.element is None:
            continue
        if effect.element is not Element.HEADER:
            fields.add(Field(effect.element.value))
        elif effect.names is None:
            every_header = True
        else:
            fields.update(Field("header", name) for name in effect.names)
    return Written(False, every_header, frozenset(fields))


def writes_to(policy: Policy, match: Match | None) -> bool:
    """Whether a policy may write a field that a match compares."""
    written = written_by(policy)
    return any(written.has(comparison.field) for comparison in comparisons(match))


def _renamed(match: Match, written: Sequence[Written]) -> Match:
    """The match with every written field renamed, so that it shares no field with another match."""
    if isinstance(match, Comparison):
        if any(writes.has(match.field) for writes in written):
            return match._replace(field=Field(f"{match.field.name} before", match.field.header))
        return match
    if isinstance(match, Not):
        return Not(_renamed(match.operand, written))
    return type(match)(tuple(_renamed(operand, written) for operand in match.operands))


def conjunctions(match: Match) -> list[Conjunction] | None:
    """The ways in which a match can hold, each a set of literals; None if there are too many of them."""
    return _normal(match, True)


def _normal(match: Match, positive: bool) -> list[Conjunction] | None:
    """The disjunctive normal form, or None if it grows too large. Products leave out contradictory conjunctions."""
    if isinstance(match, Comparison):
        return [frozenset((Literal(match, positive),))]
    if isinstance(match, Not):
        return _normal(match.operand, not positive)
    parts: list[list[Conjunction]] = []
    for operand in match.operands:
        part = _normal(operand, positive)
        if part is None:
            return None
        parts.append(part)
    if isinstance(match, Or) is positive:
        whole = list(dict.fromkeys(chain.from_iterable(parts)))
        return whole if len(whole) <= MAX_CONJUNCTIONS else None
    product: list[Conjunction] = [frozenset()]
    for part in parts:
        product = list(dict.fromkeys(left | right for left in product for right in part))
        product = [conjunction for conjunction in product if not _impossible(conjunction)]
        if len(product) > MAX_CONJUNCTIONS:
            return None
    return product


def _impossible(conjunction: Conjunction) -> bool:
    """Whether no value of some field satisfies all its literals."""
    fields: dict[Field, list[Literal]] = {}
    for literal in conjunction:
        fields.setdefault(literal.comparison.field, []).append(literal)
    return any(_contradicts(literals) for literals in fields.values())


def _contradicts(literals: list[Literal]) -> bool:
    if literals[0].comparison.field.header is not None:
        asserted = {canonical(literal) for literal in literals}
        return any((operator, value, not holds) in asserted for operator, value, holds in asserted)
    equal: set[str] = set()
    unequal: set[str] = set()
    prefixes: set[str] = set()
    other_prefixes: set[str] = set()
    for (_, operator, value), positive in literals:
        if operator is Operator.STARTS_WITH:
            (prefixes if positive else other_prefixes).add(value)
        elif operator is not Operator.MATCHES:
            (equal if (operator is Operator.EQUALS) is positive else unequal).add(value)
        elif Comparison(literals[0].comparison.field, operator, value) in {
            literal.comparison for literal in literals if literal.positive is not positive
        }:
            return True
    if len(equal) > 1 or equal & unequal:
        return True
    # Values that are required, in full or as a prefix.
    beginnings = equal | prefixes
    if any(start.startswith(tuple(other_prefixes)) for start in beginnings):
        return True
    for value in equal:
        if not all(value.startswith(prefix) for prefix in prefixes):
            return True
    longest = max(prefixes, key=len, default="")
    return not all(longest.startswith(prefix) for prefix in prefixes)


def canonical(literal: Literal) -> tuple[Operator, str, bool]:
    """A literal as (operator, value, asserted), with `!=` as the negation of `==`."""
    (_, operator, value), positive = literal
    if operator is Operator.NOT_EQUALS:
        return Operator.EQUALS, value, not positive
    return operator, value, positive
