"""A request as it is at one place of its way, as far as a test says it.

A comparison of a `when` with it is true, false, or open (None).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dsl.match import Comparison, Field, Operator, elements_of

_BLANKS = " \t"


class Lines(NamedTuple):
    """What is known of a path, a method or a header: the values of its lines."""

    values: tuple[str, ...] = ()
    open: bool = False
    """There may be further lines, or another value."""
    version: int = 0
    """Two open values of one field are the same if they have the same version."""
    changed_by: str | None = None
    """The policy that may have changed it, if the test alone does not leave it open."""


_OPEN = Lines(open=True)


@dataclass(frozen=True, slots=True)
class RequestState:
    """`now` and `deadlines` are microseconds since the request was sent; a deadline has the name of its policy."""

    path: Lines = _OPEN
    method: Lines = _OPEN
    headers: Mapping[str, Lines] = field(default_factory=dict)
    others: Lines = _OPEN
    """Every other header."""
    now: float = 0
    deadlines: tuple[tuple[float, str], ...] = ()

    def lines(self, of: Field) -> Lines:
        if of.header is not None:
            return self.header(of.header)
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
    if any(_satisfies(comparison, value) for value in _compared(comparison.field, lines)):
        return True
    return None if lines.open else False


def _compared(of: Field, lines: Lines) -> list[str]:
    """The values that are surely compared. The whole value of a header is not known while further lines are open."""
    if of.header is None:
        return [value.partition("?")[0] if of.name == "path" else value for value in lines.values]
    if not lines.values:
        return []
    split = elements_of(of.header)
    whole = ",".join(lines.values)
    elements = re.split(f"[{split.separators}]", whole)
    found = [part for element in elements for part in (element, element.strip(_BLANKS))]
    return [whole, *found] if split.whole and not lines.open else found


def _satisfies(comparison: Comparison, value: str) -> bool:
    if comparison.operator is Operator.EQUALS:
        return value == comparison.value
    if comparison.operator is Operator.STARTS_WITH:
        return value.startswith(comparison.value)
    import re2  # the engine of the language's `matches`; loaded only for programs with expressions

    return re2.fullmatch(_bytes(comparison.value), _bytes(value)) is not None


def _bytes(text: str) -> str:
    """Text as Envoy has RE2 read it: each byte is a letter of its own."""
    return text.encode().decode("latin-1")
