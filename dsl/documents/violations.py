"""Errors of pydantic in words of ours, with their places."""

from __future__ import annotations

import typing
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from dsl.documents.errors import Fault, Violation
from dsl.documents.extra_keys import hint_of
from dsl.documents.structure import alternatives, names_of, part_of
from dsl.documents.types import BEYOND

if TYPE_CHECKING:
    from collections.abc import Collection

    from dsl.documents.json_text import Path, Places


_MESSAGES: Final = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "none_required": "must be null",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must be an object",
    "dataclass_type": "must be an object",
    "string_too_short": "is empty",
    "is_instance_of": "must be a number",
    "string_unicode": "has half of a character",
    "too_short": "has no entries",
    "base64_type": "must be in base 64",
}
_FIRST_OF_NUMBER: Final = "-0123456789n"
"""`null` stands for a number that is missing."""
_NUMBERS: Final = frozenset(("int_type", "float_type", "finite_number", "is_instance_of"))
_LENGTHS: Final = {"too_long": "entries", "string_too_long": "characters"}
_BOUNDS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


_KEY: Final = "[key]"
"""The last step to a key of a mapping that does not fit."""


def violation_of(places: Places, error: Any, expected: Any) -> Violation:
    """An error of pydantic in words of ours."""
    path: list[str | int] = []
    at = places.root
    for step in error["loc"]:
        part = part_of(expected, step)
        if part is None and step == _KEY:
            return Violation(tuple(path), _message(error), Fault.SHAPE, places.range(places.key(tuple(path))))
        if part is None:
            message = "must be a number, a string, true, false, null or a list of these"
            return Violation(tuple(path), message, Fault.SHAPE, places.range(at))
        inner = places.within(at, step, names_of(expected))
        if inner is None:
            return _lacks(places, tuple(path), f"`{step}`" if isinstance(step, str) else f"its entry {step + 1}", at)
        path.append(step)
        at, expected = inner, part
    place = at
    if error["type"] == "too_long" and places.text[at] == "[":
        place = places.within(at, error["ctx"]["max_length"]) or at
    fault = _fault(error["type"], places.text[at], expected)
    hint = hint_of(places.value(at).strip('"'), _choices(expected)) if fault is Fault.NAME else None
    return Violation(tuple(path), _message(error), fault, places.range(place), hint)


def _lacks(places: Places, path: Path, subject: str, at: int) -> Violation:
    return Violation(path, f"lacks {subject}", Fault.ABSENT, (at, at + 1))


def _fault(kind: str, first: str, expected: Any) -> Fault:
    """`first` is the first character of the value."""
    if kind in ("enum", "literal_error"):
        return Fault.NAME if first == '"' else Fault.SHAPE
    is_number = kind in _NUMBERS or kind in _BOUNDS or kind == "value_error"
    return Fault.NUMBER if is_number and first in _FIRST_OF_NUMBER else Fault.SHAPE


def _message(error: Any) -> str:
    kind: str = error["type"]
    context = error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "predicate_failed":
        return "has an entry twice" if "distinct" in error["msg"] else "has too many lists inside each other"
    if kind in _LENGTHS:
        return f"has more than {context['max_length']} {_LENGTHS[kind]}"
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected'].replace(chr(39), '`').replace(', ', ' or ')}"
    if kind in _BOUNDS:
        name, phrase = _BOUNDS[kind]
        bound = context[name]
        far = isinstance(bound, int | float) and abs(bound) >= BEYOND
        return "is out of range" if far else f"must be {phrase} {bound}"
    return _MESSAGES.get(kind) or str(error["msg"]).lower()


def _choices(expected: Any) -> Collection[str]:
    """The texts that a value may be, if they are few."""
    for alternative in alternatives(expected):
        if typing.get_origin(alternative) is typing.Literal:
            return typing.get_args(alternative)
        if isinstance(alternative, type) and issubclass(alternative, Enum):
            return [member.value for member in alternative]
    return ()
