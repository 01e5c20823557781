"""Arguments as they could stand in a program."""

from __future__ import annotations

from admc.plan.model import ArgumentRow
from dsl.text import quoted
from dsl.units import written

_BARE = frozenset(("one_of", "service", "caller"))
_NUMBERS = frozenset(("int", "float", "duration", "size", "percent"))
_MOST_ITEMS = 20
_MOST_CHARACTERS = 200


def argument_text(argument: ArgumentRow) -> str | None:
    """None for an argument that is left out."""
    return None if argument.value is None else _text(argument.type, argument.value)


def names_text(names: tuple[str, ...]) -> str:
    """A list of names or addresses; the rest of a long one is counted."""
    return _listed(list(names))


def _text(kind: str, value: object) -> str:
    if isinstance(value, tuple):
        return _listed([_text(kind[1:-1], item) for item in value])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        if kind in _NUMBERS - {"int", "float"} and value >= 0:
            return written(kind, value)
        return str(value)
    text = str(value)
    if kind in _BARE:
        return text
    return quoted(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}...")


def _listed(items: list[str]) -> str:
    if len(items) > _MOST_ITEMS:
        items = [*items[:_MOST_ITEMS], f"{len(items) - _MOST_ITEMS} more"]
    return f"[{', '.join(items)}]"
