"""The state of a request between two policies, as far as the test gives it.

Comparison, Lines -> True, False, or None (open)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dsl.match import HOST, Comparison, Field, Operator, compared_hosts
from dsl.selecting import compared_values, satisfies


class Lines(NamedTuple):
    """The known values of a path, a method or the lines of a header."""

    values: tuple[str, ...] = ()
    open: bool = False
    """There may be further lines, or the value is unknown."""
    version: int = 0
    """Two open values of one field are equal if they have the same version."""
    changed_by: str | None = None
    """The policy that may have changed the value; None if the test itself leaves it open."""


_OPEN = Lines(open=True)


@dataclass(frozen=True, slots=True)
class RequestState:
    """A request. `now` and `deadlines` are microseconds since it was sent; a deadline has the name of its policy."""

    path: Lines = _OPEN
    method: Lines = _OPEN
    headers: Mapping[str, Lines] = field(default_factory=dict)
    others: Lines = _OPEN
    """All headers that `headers` does not have."""
    now: float = 0
    deadlines: tuple[tuple[float, str], ...] = ()

    def lines(self, of: Field) -> Lines:
        if of.header is not None:
            return self.header(of.header)
        if of.name == "host":
            return self.header("host")
        return self.path if of.name == "path" else self.method

    def header(self, name: str) -> Lines:
        return self.headers.get(name, self.others)

    def with_header(self, name: str, lines: Lines) -> RequestState:
        return replace(self, headers={**self.headers, name: lines})


def compare(comparison: Comparison, lines: Lines) -> bool | None:
    """Whether a comparison holds; None if that is open."""
    if comparison.operator is Operator.NOT_EQUALS:
        equal = compare(comparison._replace(operator=Operator.EQUALS), lines)
        return None if equal is None else not equal
    if any(satisfies(comparison, value) for value in _compared(comparison, lines)):
        return True
    return None if lines.open else False


def _compared(comparison: Comparison, lines: Lines) -> list[str]:
    """The values that the comparison certainly sees. While a header is open, its joined value is not known."""
    of = comparison.field
    if of == HOST:
        return [host for value in lines.values for host in compared_hosts(value, comparison.operator)]
    if of.header is None:
        return [value.partition("?")[0] if of.name == "path" else value for value in lines.values]
    return compared_values(of.header, lines.values, whole=not lines.open)
