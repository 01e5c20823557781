"""Keys that do not belong into an object: unknown ones, and those that it has twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl.diagnostics.diagnostic import did_you_mean
from dsl.documents.errors import Fault, Violation
from dsl.documents.json_text import elements, members, shown_key
from dsl.documents.structure import names_of, part_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dsl.documents.json_text import Path, Places


def extra_keys(places: Places, at: int, expected: Any, path: Path) -> Iterator[Violation]:
    text = places.text
    if text[at] == "[":
        for index, place in enumerate(elements(text, at)):
            part = part_of(expected, index)
            if part is not None:
                yield from extra_keys(places, place, part, (*path, index))
    elif text[at] == "{" and (names_of(expected) or part_of(expected, "") is not None):
        keys: set[str] = set()
        for key, start, place in members(text, at):
            part = part_of(expected, key)
            if part is None:
                message, hint = f"has an unknown field `{shown_key(key)}`", hint_of(key, names_of(expected))
                yield Violation(path, message, Fault.SHAPE, places.range(start), hint)
            elif key in keys:
                yield Violation(path, f"has `{shown_key(key)}` twice", Fault.SHAPE, places.range(start))
            else:
                keys.add(key)
                yield from extra_keys(places, place, part, (*path, key))


def hint_of(name: str, known: Collection[str]) -> str | None:
    return did_you_mean(name, known) or ("known are " + ", ".join(f"`{choice}`" for choice in known) if known else None)
