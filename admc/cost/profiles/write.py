"""Writes a profile as JSON, with exact decimals. Equal profiles have equal texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from admc.cost.profiles.profile import Profile
from dsl.documents import plain

_WIDTH: Final = 110
_INDENT: Final = "  "


def to_json(profile: Profile) -> str:
    return json_text(plain(profile))


def json_text(value: object) -> str:
    """The text of any JSON value, with exact decimals."""
    return _text(value, 0) + "\n"


def _text(value: object, depth: int) -> str:
    """JSON on one line if it is short, otherwise with a line for each entry."""
    line = _line(value)
    if len(line) + depth * len(_INDENT) <= _WIDTH or not isinstance(value, Mapping | list) or not value:
        return line
    inside = _INDENT * (depth + 1)
    if isinstance(value, Mapping):
        entries = [f"{inside}{json.dumps(key)}: {_text(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(entries) + "\n" + _INDENT * depth + "}"
    return "[\n" + ",\n".join(inside + _text(item, depth + 1) for item in value) + "\n" + _INDENT * depth + "]"


def _line(value: object) -> str:
    if isinstance(value, Decimal):
        return number(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)}: {_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_line(item) for item in value) + "]"
    return json.dumps(value)


def number(value: Decimal) -> str:
    """A decimal without an exponent and without zeros at its end.

    >>> number(Decimal("1.50")), number(Decimal("3E+4")), number(Decimal("-0.0"))
    ('1.5', '30000', '0')
    """
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text
