"""Request matches (`when`): a small boolean algebra over path, method, host and headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Operator(StrEnum):
    EQUALS = "=="
    NOT_EQUALS = "!="
    STARTS_WITH = "starts_with"
    MATCHES = "matches"
    """RE2 regular expression that must match the whole value."""


class Field(NamedTuple):
    """What is compared: `path` (without query), `method`, `host` (`compared_hosts`), or a header by its name in lower
    case."""

    name: str
    header: str | None = None

    @property
    def carrier(self) -> str | None:
        """The header of a request that has the value: also of `host`, which is a part of it. None for all others."""
        return "host" if self.name == "host" else self.header


_PORT = re.compile(r":[^:\]]*\Z")


def compared_hosts(authority: str, operator: Operator) -> tuple[str, ...]:
    """What is compared as the `host` of a request with this `Host` header: without its port, in lower case.

    A final dot is left out; `starts_with` and `matches` are tried with it, too. An IPv6 address has its brackets.
    """
    name = _PORT.sub("", authority.lower())
    host = name.removesuffix(".")
    return (host,) if host == name or operator in (Operator.EQUALS, Operator.NOT_EQUALS) else (host, name)


HOST = Field("host")


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


@dataclass(frozen=True, slots=True)
class Not:
    operand: Match


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Match, ...]


Match = Comparison | Not | And | Or


def comparisons(match: Match | None) -> Iterator[Comparison]:
    """Every comparison inside a match, in the order of its text."""
    if isinstance(match, Comparison):
        yield match
    elif match is not None:
        for operand in (match.operand,) if isinstance(match, Not) else match.operands:
            yield from comparisons(operand)
