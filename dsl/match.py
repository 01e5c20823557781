"""Request matches (`when`): a small boolean algebra over path, method and headers."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Operator(StrEnum):
    EQUALS = "=="
    NOT_EQUALS = "!="
    STARTS_WITH = "starts_with"
    MATCHES = "matches"
    """RE2 regular expression that must match the whole value."""


class Field(NamedTuple):
    """What is compared: `path` (without query), `method`, or a header by its lower-case name."""

    name: str
    header: str | None = None


class Comparison(NamedTuple):
    """A header's value is a list: several lines of one header mean the same as one, with their values between commas.

    So `==`, `starts_with` and `matches` hold for a header if its whole value (all lines, joined by `,`) or one of its
    comma-separated elements, with or without the blanks around it, satisfies them. `!=` is the negation of `==`. A
    missing header satisfies none of the three, and so `!=` is true for it.
    """

    field: Field
    operator: Operator
    value: str


class Not(NamedTuple):
    operand: Match


class And(NamedTuple):
    operands: tuple[Match, ...]


class Or(NamedTuple):
    operands: tuple[Match, ...]


Match = Comparison | Not | And | Or
