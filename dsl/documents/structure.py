"""What stands where in a document of a type."""

from __future__ import annotations

import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any


@cache
def part_of(expected: Any, step: str | int) -> Any:
    """The type of what stands at a key or a position of a value; None if no document's type says it."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return part_of(arguments[0], step)
    if isinstance(expected, types.UnionType) or origin is typing.Union:
        parts = (part_of(each, step) for each in arguments)
        return next((part for part in parts if part is not None), None)
    if isinstance(step, int):
        if origin is tuple and arguments[-1] is not Ellipsis:
            return arguments[step] if step < len(arguments) else None
        return arguments[0] if origin in (tuple, frozenset) else None
    if origin is Mapping:
        return arguments[1]
    return hints_of(expected).get(step) if isinstance(expected, type) and is_dataclass(expected) else None


@cache
def names_of(expected: Any) -> Collection[str]:
    """The names of the fields of an object."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return names_of(arguments[0])
    if isinstance(expected, types.UnionType) or origin is typing.Union:
        return next(filter(None, map(names_of, arguments)), ())
    return hints_of(expected).keys() if isinstance(expected, type) and is_dataclass(expected) else ()


@cache
def hints_of(expected: type) -> Mapping[str, Any]:
    return typing.get_type_hints(expected, include_extras=True)


def is_complete(expected: type) -> bool:
    return getattr(expected, "_is_complete__", False)
