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
    """A missing header equals nothing: `==`, `starts_with` and `matches` are false for it and `!=` is true."""

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
