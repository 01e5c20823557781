"""Writes documents: values of a type as the dictionaries and lists that `json` writes."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any


def fields_of(value: object) -> Iterator[tuple[str, Any]]:
    """The fields of a document's object with their values, in the order of its class."""
    kind: Any = value.__class__
    return ((name, getattr(value, name)) for name in _names(kind))


def plain(value: object) -> object:
    """A value of a document as dictionaries, lists, texts and numbers; fields stand in the order of their class."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    if isinstance(value, frozenset):
        return [plain(part) for part in sorted(value)]
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if is_dataclass(value):
        # A plan has a million of these, most of which are no containers.
        return {
            name: part if part is None or isinstance(part, str | int) else plain(part)
            for name, part in fields_of(value)
        }
    return value


@cache
def _names(expected: Any) -> tuple[str, ...]:
    return tuple(part.name for part in fields(expected))
