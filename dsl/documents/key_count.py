"""Counts the keys that the document of a value has.

A parser takes the last of two equal keys, and pydantic ignores unknown keys. In both cases the text has more keys than
the document of the resulting value.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Annotated, Any

from dsl.documents.structure import hints_of, is_complete
from dsl.documents.types import Json

Counter = Callable[[Any], int]


@cache
def number_of_keys(expected: Any) -> Counter:
    """A function from a value to the least number of keys in its document: all keys but those of optional fields with
    their default. If a document has more keys, some may be repeated or unknown."""
    fixed, varying = _counted(expected)
    if varying is not None and fixed == 0:
        return varying
    return lambda value: fixed + (varying(value) if varying is not None else 0)


def _counted(expected: object) -> tuple[int, Counter | None]:
    """The number of keys that each value of a type has, and a function that counts the further keys of one value."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if expected == Json:
        return 0, _of_any
    if origin is Annotated:
        return _counted(arguments[0])
    if isinstance(expected, types.UnionType) or origin is typing.Union:
        parts = [part for part in arguments if part is not type(None)]
        if any(_counted(part) != (0, None) for part in parts):
            (part,) = parts
            inner = number_of_keys(part)
            return 0, lambda value: 0 if value is None else inner(value)
        return 0, None
    if origin in (tuple, frozenset):
        return 0, _of_list(arguments[0])
    if origin is Mapping:
        inner = number_of_keys(arguments[1])
        return 0, lambda value: len(value) + sum(map(inner, value.values()))
    if isinstance(expected, type) and is_dataclass(expected):
        return _of_object(expected)
    return 0, None


def _of_any(value: object) -> int:
    if isinstance(value, Mapping):
        return len(value) + sum(map(_of_any, value.values()))
    return sum(map(_of_any, value)) if isinstance(value, tuple) else 0


def _of_list(element: object) -> Counter | None:
    fixed, varying = _counted(element)
    if varying is None:
        return (lambda value: len(value) * fixed) if fixed else None
    inner = number_of_keys(element)
    return lambda value: sum(map(inner, value))


def _of_object(expected: type) -> tuple[int, Counter | None]:
    total = 0
    counters: list[Counter] = []
    absent: list[str] = []
    hints = hints_of(expected)
    for part in fields(expected):
        fixed, varying = _counted(hints[part.name])
        get = attrgetter(part.name)
        if part.default is None and varying is None and not is_complete(expected):
            absent.append(part.name)
            continue
        if part.default is not MISSING and not is_complete(expected):
            counters.append(_optional(get, part.default, number_of_keys(hints[part.name])))
            continue
        total += 1 + fixed
        if varying is not None:
            counters.append(_composed(get, varying))
    if absent:
        counters.append(_present(*absent))
    if len(counters) < 2:
        return total, next(iter(counters), None)
    return total, lambda value: sum(counter(value) for counter in counters)


def _present(*names: str) -> Counter:
    """A function that counts the fields that are not None. An endpoints file has ten thousand objects with such fields
    alone, so it has to be fast."""
    if len(names) == 1:
        get_one = attrgetter(*names)
        return lambda value: get_one(value) is not None
    get_all = attrgetter(*names)
    number = len(names)
    return lambda value: number - get_all(value).count(None)


def _optional(get: Callable[[Any], Any], default: object, inner: Counter) -> Counter:
    return lambda value: 0 if get(value) == default else 1 + inner(get(value))


def _composed(get: Callable[[Any], Any], inner: Counter) -> Counter:
    return lambda value: inner(get(value))
