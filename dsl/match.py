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
    """RE2 regular expression that must match the whole of a text that is compared (of a header: the value or an
    element)."""


class Field(NamedTuple):
    """The part of a request that is compared: `path` (without query), `method`, `host` (`compared_hosts`), or a header
    by its name in lower case."""

    name: str
    header: str | None = None

    @property
    def carrier(self) -> str | None:
        """The header of a request that carries the value; the host is a part of the header `host`. None for the path
        and the method."""
        return "host" if self.name == "host" else self.header


_PORT = re.compile(r":[^:\]]*\Z")


def compared_hosts(authority: str, operator: Operator) -> tuple[str, ...]:
    """The texts that a comparison with `host` tries for a request with this `Host` header, without port, in lower case.

    example.org.:80     == and !=                  example.org
    example.org.:80     starts_with and matches    example.org, example.org.
    [::1]:80            all                        [::1]
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

    An HTTP/2 client may send each cookie on a line of its own, or all cookies on one line with `;` between them. Such
    lines, joined by `,`, differ from the line of an HTTP/1 client, but each single cookie is the same. So `cookie` is
    split at `;` too, and never compared as a whole.
    """
    return _COOKIES if header == "cookie" else Elements()


class Comparison(NamedTuple):
    """One comparison of a field with a value.

    The value of a header is a list: several lines of one header are equivalent to one line with their values joined by
    commas. `==`, `starts_with` and `matches` hold for a header if one of these texts satisfies them:

        the whole value: all lines, joined by `,` (not for `cookie`)
        an element between two `,` (for `cookie` also `;`, see `elements_of`), with or without the blanks around it

    `!=` is the negation of `==`. An absent header satisfies none of the three operators above, so `!=` holds for it.
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
