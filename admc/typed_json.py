"""Reads JSON into typed rows. The JSON may be hostile, cut short or of another version.

Each checker is made once, from the type itself, so that the two cannot differ. A type may be a named tuple, a data
class, a string, bytes (in base 64), a whole number, a truth value, an enumeration, a tuple, a set or a mapping (by
name) of one type, a tuple of a fixed length, or any of these or null. `plain` is the way back.
"""

from __future__ import annotations

import base64
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, NewType, TypeVar


class JsonTypeError(Exception):
    """A value does not fit the type. `where` is its path in the document, empty for the document itself."""

    def __init__(self, where: str, what: str) -> None:
        self.where = where
        self.what = what
        super().__init__(what)


# A checker returns a value of the type that it was made for. Only `parse` has that type in its signature: a field may
# have a type without a class, such as `str | None`.
Checker = Callable[[object, str], Any]
Row = TypeVar("Row")

Signed = NewType("Signed", int)
"""A whole number that may be negative; a plain `int` may not."""
Plain = NewType("Plain", object)
"""A truth value, a finite number, a string, null, or a tuple of these: an argument of a policy."""
_BEYOND: Final = 1 << 127
"""No sum of costs or rates comes near to it."""
_MAX_PLAIN_DEPTH: Final = 8


def parse(expected: type[Row], document: object) -> Row:
    """A JSON document as a value of the type. Raises `JsonTypeError`."""
    kind: object = expected
    row: Row = checker(kind)(document, "")
    return row


def plain(value: object) -> object:
    """A value of such a type as a JSON document."""
    if isinstance(value, tuple):
        names: tuple[str, ...] | None = getattr(value, "_fields", None)
        if names is None:
            return [plain(item) for item in value]
        # A plan has a million of these: most items are no containers.
        pairs = zip(names, value, strict=True)
        return {name: item if item is None or isinstance(item, str | int) else plain(item) for name, item in pairs}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, frozenset):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


@cache
def checker(expected: object) -> Checker:
    """A function that turns plain JSON into a value of the type, or raises `JsonTypeError` with the path."""
    if expected is str:
        return _scalar(str, "must be a string")
    if expected is bytes:
        return _bytes
    if expected is int:
        return _whole
    if expected is Signed:
        return _signed
    if expected is float:
        return _number
    if expected is Plain:
        return _plain
    if expected is bool:
        return _scalar(bool, "must be true or false")
    if expected is None or expected is type(None):
        return _scalar(type(None), "must be null")
    if isinstance(expected, types.UnionType):
        return _optional(expected)
    if typing.get_origin(expected) is tuple:
        items = typing.get_args(expected)
        return _rows(items[0]) if items[-1] is Ellipsis else _fixed(items)
    if typing.get_origin(expected) is frozenset:
        check = _rows(typing.get_args(expected)[0])
        return lambda value, where: frozenset(check(value, where))
    if typing.get_origin(expected) is Mapping:
        return _by_name(typing.get_args(expected)[1])
    if isinstance(expected, type) and issubclass(expected, Enum):
        return _word(expected)
    if isinstance(expected, type):
        return _object(expected)
    raise TypeError(f"no checker for {expected!r}")  # a field with a new kind of type


def _scalar(expected: type, what: str) -> Checker:
    def check(value: object, where: str) -> object:
        if type(value) is not expected:
            raise JsonTypeError(where, what)
        return value

    return check


def _whole(value: object, where: str) -> object:
    if type(value) is not int or not 0 <= value < _BEYOND:
        raise JsonTypeError(where, "must be a whole number")
    return value


def _signed(value: object, where: str) -> object:
    if type(value) is not int or not -_BEYOND < value < _BEYOND:
        raise JsonTypeError(where, "must be a whole number")
    return value


def _number(value: object, where: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _BEYOND:
        raise JsonTypeError(where, "must be a number")
    return float(value)


def _plain(value: object, where: str, depth: int = 0) -> object:
    if isinstance(value, list) and depth < _MAX_PLAIN_DEPTH:
        return tuple(_plain(item, f"{where}[{at}]", depth + 1) for at, item in enumerate(value))
    if value is None or isinstance(value, str | bool) or (isinstance(value, int | float) and abs(value) < _BEYOND):
        return value
    raise JsonTypeError(where, "must be a number, a string, true, false, null or a list of these")


def _bytes(value: object, where: str) -> object:
    try:
        return base64.b64decode(_scalar(str, "must be a string")(value, where), validate=True)
    except ValueError as error:
        raise JsonTypeError(where, "must be in base 64") from error


def _optional(union: types.UnionType) -> Checker:
    (inner,) = (part for part in typing.get_args(union) if part is not type(None))
    check = checker(inner)
    return lambda value, where: None if value is None else check(value, where)


def _rows(item: object) -> Checker:
    check = checker(item)

    def check_all(value: object, where: str) -> object:
        if not isinstance(value, list):
            raise JsonTypeError(where, "must be a list")
        try:
            return tuple(check(row, "") for row in value)
        except JsonTypeError:
            # Paths of rows take time to build, so they are built only for the error message.
            for index, row in enumerate(value):
                check(row, f"{where}[{index}]")
            raise

    return check_all


def _fixed(items: tuple[object, ...]) -> Checker:
    checks = [checker(item) for item in items]

    def check_all(value: object, where: str) -> object:
        if not isinstance(value, list) or len(value) != len(checks):
            raise JsonTypeError(where, f"must be a list of {len(checks)}")
        return tuple(check(row, f"{where}[{at}]") for at, (check, row) in enumerate(zip(checks, value, strict=True)))

    return check_all


def _by_name(item: object) -> Checker:
    check = checker(item)

    def check_all(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise JsonTypeError(where, "must be an object")
        return {name: check(row, f"{where}.{name}") for name, row in value.items()}

    return check_all


def _word(expected: type[Enum]) -> Checker:
    known = {member.value: member for member in expected}
    said = " or ".join(f"`{word}`" for word in known)

    def check(value: object, where: str) -> object:
        member = known.get(value) if isinstance(value, str) else None
        if member is None:
            raise JsonTypeError(where, f"must be {said}")
        return member

    return check


def _object(expected: type) -> Checker:
    checkers = {name: checker(hint) for name, hint in typing.get_type_hints(expected).items()}

    def check(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise JsonTypeError(where, "must be an object")
        if value.keys() != checkers.keys():
            missing = sorted(checkers.keys() - value.keys())
            unknown = sorted(value.keys() - checkers.keys())
            what = f"lacks `{missing[0]}`" if missing else f"has an unknown field `{unknown[0]}`"
            raise JsonTypeError(where, what)
        prefix = f"{where}." if where else ""
        return expected(**{name: check_field(value[name], prefix + name) for name, check_field in checkers.items()})

    return check
