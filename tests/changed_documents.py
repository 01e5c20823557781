"""Documents of JSON with one mistake each, which a reader has to refuse."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any


def mutants(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The document with one field left out, one added, and one of a type that no field has."""
    for path in paths(document):
        for change in ("drop", "add", "type"):
            changed = copy.deepcopy(document)
            at: Any = changed
            for step in path[:-1]:
                at = at[step]
            if change == "drop" and isinstance(path[-1], str):
                del at[path[-1]]
            elif change == "add" and isinstance(path[-1], str):
                at["another"] = 1
            elif change == "type":
                at[path[-1]] = {"no": "such type"}
            else:
                continue
            yield changed


def paths(value: object, before: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if before:
        yield before
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, (*before, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:1]):
            yield from paths(inner, (*before, index))
