"""Whether a request satisfies a match (`when`), by the rules of the language alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dsl.match import HOST, And, Comparison, Match, Not, Operator, Or, compared_hosts, elements_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLANKS = " \t"


class Asked(Protocol):
    """The parts of a request that a match compares."""

    @property
    def method(self) -> str:
        """Such as `GET`."""

    @property
    def path(self) -> str | None:
        """The path with its query; None for a CONNECT."""

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The lines of all headers, with a line `host` if the request has an authority."""


class Example(NamedTuple):
    """A request that satisfies a match, with nothing that the match does not need."""

    method: str
    path: str | None
    headers: tuple[tuple[str, str], ...] = ()


def holds(match: Match | None, request: Asked) -> bool:
    """Whether a request is selected. None selects every request."""
    if match is None:
        return True
    if isinstance(match, And):
        return all(holds(operand, request) for operand in match.operands)
    if isinstance(match, Or):
        return any(holds(operand, request) for operand in match.operands)
    if isinstance(match, Not):
        return not holds(match.operand, request)
    if match.operator is Operator.NOT_EQUALS:
        return not holds(match._replace(operator=Operator.EQUALS), request)
    return any(satisfies(match, value) for value in _values(match, request))


def _values(comparison: Comparison, request: Asked) -> Sequence[str]:
    field = comparison.field
    if field.name == "path":
        return [] if request.path is None else [request.path.partition("?")[0]]
    if field.name == "method":
        return [request.method]
    lines = [value for name, value in request.headers if name.lower() == field.carrier]
    if field.header is None:
        return compared_hosts(lines[0], comparison.operator) if lines else []
    return compared_values(field.header, lines)


def compared_values(header: str, lines: Sequence[str], *, whole: bool = True) -> list[str]:
    """The texts of a header that are compared: its whole value (unless `whole` is False, and never of `cookie`), and
    its elements with and without blanks around them."""
    if not lines:
        return []
    of = elements_of(header)
    value = ",".join(lines)
    elements = re.split(f"[{of.separators}]", value)
    parts = [part for element in elements for part in (element, element.strip(_BLANKS))]
    return [value, *parts] if of.whole and whole else parts


def satisfies(comparison: Comparison, value: str) -> bool:
    """Whether one value satisfies `==`, `starts_with` or `matches`. By the rules of the language, no `matches` is true
    for a host that is an IPv6 address."""
    if comparison.operator is Operator.EQUALS:
        return value == comparison.value
    if comparison.operator is Operator.STARTS_WITH:
        return value.startswith(comparison.value)
    import re2  # the engine of the language's `matches`; loaded only for programs with expressions

    if comparison.field == HOST and ":" in value:
        return False
    expression = f"(?i:{comparison.value})" if comparison.field == HOST else comparison.value
    return re2.fullmatch(_bytes(expression), _bytes(value)) is not None


def _bytes(text: str) -> str:
    """A text as Envoy passes it to RE2, which then reads each byte as a letter."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")
