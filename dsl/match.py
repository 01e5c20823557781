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


class Elements(NamedTuple):
    """What a header's value is a list of: what stands between any of these characters."""

    separators: str = ","
    whole: bool = True
    """Whether the value is also compared as a whole."""


_COOKIES = Elements(";,", whole=False)


def elements_of(header: str) -> Elements:
    """How the value of a header is taken apart.

    HTTP/2 sends each cookie on a line of its own or all on one with `;`, as it likes, and what is joined again differs
    from what an HTTP/1 client sends on two lines. Each cookie by itself is the same in all of them.
    """
    return _COOKIES if header == "cookie" else Elements()


class Comparison(NamedTuple):
    """A header's value is a list: several lines of one header mean the same as one, with their values between commas.

    So `==`, `starts_with` and `matches` hold for a header if its whole value (all lines, joined by `,`) or one of its
    comma-separated elements, with or without the blanks around it, satisfies them; for `cookie`, if one of its elements
    between `;` or `,` does (`elements_of`). `!=` is the negation of `==`. A missing header satisfies none of the three,
    and so `!=` is true for it.
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
