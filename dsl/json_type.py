"""The type of a parsed JSON document, how messages show a value of it, and objects in which each key stands once."""

from __future__ import annotations

from typing import Final, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"

SHOWN: Final = 40
"""Most characters of a value in a message."""


def described(value: object, written: str | None = None) -> str:
    """A value of a document, as messages show it. `written` is the text of a number in the file.

    >>> described("8KB"), described(True), described([1]), described(1000.0, "1e3")
    ('`"8KB"`', '`true`', 'a list', '`1e3`')
    """
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value[:SHOWN]}"`'
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else f"`{(written or str(value))[:SHOWN]}`"


class RepeatedKeyError(Exception):
    """An object has a key twice; the text of the error is the key."""


def without_repeats(pairs: list[tuple[str, Json]]) -> JsonObject:
    """An object of these members, as `object_pairs_hook` of `json.loads`, which keeps the last of two equal keys.

    Raises `RepeatedKeyError`.
    """
    members: JsonObject = {}
    for key, value in pairs:
        if key in members:
            raise RepeatedKeyError(key)
        members[key] = value
    return members
