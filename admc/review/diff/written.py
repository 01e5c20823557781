"""Writes values of a plan as a program has them: `60s`, `4KB`, `[search, geo]`, `"/user"`, `20/s`."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from dsl.text import quoted
from dsl.units import written

if TYPE_CHECKING:
    from admc.compile.plan.model import ArgumentRow, PortRow

_TEXTS: Final = ("string", "header", "path", "file")
_UNITS: Final = ("duration", "size", "percent")
_MOST_ITEMS: Final = 20
_MOST_CHARACTERS: Final = 200
"""A longer value is cut, and a longer list counted: a list of callers may have thousands."""
_DIGEST: Final = 12
"""The characters of a digest that a reader sees."""


def argument_text(row: ArgumentRow) -> str | None:
    """The text of an argument; None if the policy leaves the argument out. The text of a file has its digest."""
    value: object = row.value
    if value is None:
        return None
    text = value_text(row.type, value)
    return text if row.sha256 is None else f"{text} (sha256 {row.sha256[:_DIGEST]})"


def value_text(type_: str, value: object) -> str:
    if isinstance(value, tuple):
        inner = type_.removeprefix("[").removesuffix("]")
        items = [value_text(inner, item) for item in value[:_MOST_ITEMS]]
        if len(value) > _MOST_ITEMS:
            items.append(f"{len(value) - _MOST_ITEMS} more")
        return f"[{', '.join(items)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return written(type_, value) if type_ in _UNITS else number_text(value)
    text = str(value)
    text = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
    return quoted(text) if type_ in _TEXTS else text


def number_text(value: float) -> str:
    """A number without an exponent, and a whole number without a fraction."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def rate_text(value: float | None) -> str | None:
    return None if value is None else f"{number_text(value)}/s"


def size_text(value: int | None) -> str | None:
    return None if value is None else written("size", value)


def port_text(port: PortRow) -> str:
    name = "" if port.name is None else f" {port.name}"
    target = "" if port.target == port.number else f" -> {port.target}"
    return f"{port.protocol.value}{name} {port.number}{target}"
