"""The components of built-in kinds, and the form that the values of arguments have in a profile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from dsl import units
from dsl.program import FileArgument, Kind, ParameterType, Value

_NUMBERS: Final[Mapping[str, Callable[[str], float | units.BadNumber]]] = {
    "int": units.integer,
    "float": units.decimal,
    "duration": units.duration,
    "size": units.size,
    "percent": units.percent,
}
"""Readers of numbers, by the name of a parameter's type."""


@cache
def _by_component() -> Mapping[str, Mapping[str, Kind]]:
    from dsl.kinds import prelude

    by_component: dict[str, dict[str, Kind]] = {}
    for name, declared in sorted(prelude.kinds().items()):
        if declared.kind.component is not None:
            by_component.setdefault(declared.kind.component, {})[name] = declared.kind
    return by_component


def known_components() -> tuple[str, ...]:
    """Components of the built-in kinds, by name."""
    return tuple(sorted(_by_component()))


def kinds_of_component(component: str) -> Mapping[str, Kind]:
    """The built-in kinds with a component; empty for a component of the user's own."""
    return _by_component().get(component, {})


def written(value: Value) -> str:
    """An argument as text: a word, a number or a string as it is, a file as `sha256:DIGEST`.

    >>> written(True), written(0.5), written(("a", "b"))
    ('true', '0.5', '[a, b]')
    """
    if isinstance(value, FileArgument):
        return f"sha256:{hashlib.sha256(value.content).hexdigest()}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not isinstance(value, FileArgument):
        return f"[{', '.join(written(element) for element in value)}]"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return "none" if value is None else str(value)


def read_argument(text: str, of: ParameterType) -> str | units.BadNumber:
    """The text of `written` for an argument in the syntax of a program: `10000` for `10ms`. A number without a unit is
    in microseconds, bytes or per cent.

    >>> duration, percent = ParameterType("duration"), ParameterType("percent")
    >>> read_argument("10ms", duration), read_argument("10000", duration), read_argument("12.50%", percent)
    ('10000', '10000', '12.5')
    """
    reader = _NUMBERS.get(of.name)
    if reader is None:
        return text
    plain = of.name in units.NAMES and units.without_unit(text) == text
    value = units.decimal(text, low=0) if plain else reader(text)
    return value if isinstance(value, units.BadNumber) else written(value)
