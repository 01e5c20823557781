"""The type of a parsed JSON document, and how messages show a value of it."""

from __future__ import annotations

from typing import Final, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"

SHOWN: Final = 40
"""Most characters of a value in a message."""


def described(value: object, written: str | None = None) -> str:
    """What stands at a place. `written` is a number as the file has it.

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
