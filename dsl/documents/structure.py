"""The type of each part of a document."""

from __future__ import annotations

import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import chain
from typing import Annotated, Any

from dsl.documents.types import Json


def alternatives(expected: Any) -> tuple[Any, ...]:
    """The types that a value may have: those of a union, without annotations."""
    if typing.get_origin(expected) is Annotated:
        return alternatives(typing.get_args(expected)[0])
    if isinstance(expected, types.UnionType) or typing.get_origin(expected) is typing.Union:
        return tuple(chain.from_iterable(map(alternatives, typing.get_args(expected))))
    return (expected,)


@cache
def part_of(expected: Any, step: str | int) -> Any:
    """The type of the part at a key or a position of a value; None if the type of the value does not determine it."""
    if expected == Json:
        return Json
    parts = (_part_of_one(alternative, step) for alternative in alternatives(expected))
    return next((part for part in parts if part is not None), None)


def _part_of_one(expected: Any, step: str | int) -> Any:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if isinstance(step, int):
        if origin is tuple and arguments[-1] is not Ellipsis:
            return arguments[step] if step < len(arguments) else None
        return arguments[0] if origin in (tuple, frozenset) else None
    if origin is Mapping:
        return arguments[1]
    return hints_of(expected).get(step) if _is_object(expected) else None


@cache
def names_of(expected: Any) -> Collection[str]:
    """The names of the fields of an object."""
    return next((hints_of(kind).keys() for kind in alternatives(expected) if _is_object(kind)), ())


def _is_object(expected: Any) -> bool:
    return isinstance(expected, type) and is_dataclass(expected)


@cache
def hints_of(expected: type) -> Mapping[str, Any]:
    return typing.get_type_hints(expected, include_extras=True)


def is_complete(expected: type) -> bool:
    return getattr(expected, "__is_complete__", False)
