"""Request matches (`when`): a small boolean algebra over path, method, host and headers."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class Operator(StrEnum):
    EQUALS = "=="
    NOT_EQUALS = "!="
    STARTS_WITH = "starts_with"
    MATCHES = "matches"
    """RE2 regular expression that must match the whole value."""


class Field(NamedTuple):
    """What is compared: `path` (without query), `method`, `host` (`host_of`), or a header by its lower-case name."""

    name: str
    header: str | None = None


_AROUND_HOST = re.compile(r"\.?(?::[^\]:]*)?\Z")


def host_of(authority: str) -> str:
    """The `host` of a request, by the value of its `Host` header: without its port and a final dot, in lower case."""
    return _AROUND_HOST.sub("", authority.lower(), count=1)


class Elements(NamedTuple):
    """How the value of a header is split into elements: at each of `separators`."""

    separators: str = ","
    whole: bool = True
    """Whether the value is also compared as a whole."""


_COOKIES = Elements(";,", whole=False)


def elements_of(header: str) -> Elements:
    """How the value of a header is split.

    An HTTP/2 client may send each cookie on a line of its own, or all on one line with `;` between them. The joined
    lines differ from those of an HTTP/1 client, but each single cookie is the same.
    """
    return _COOKIES if header == "cookie" else Elements()


class Comparison(NamedTuple):
    """One comparison of a field with a value.

    The value of a header is a list: several lines of one header are equivalent to one line with their values joined by
    commas. So `==`, `starts_with` and `matches` hold for a header if its whole value (all lines, joined by `,`) or one
    of its comma-separated elements, with or without the blanks around it, satisfies them. For `cookie`, one of its
    elements between `;` or `,` has to (`elements_of`). `!=` is the negation of `==`. An absent header satisfies none of
    the three, so `!=` holds for it.
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
