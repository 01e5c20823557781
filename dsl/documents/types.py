"""Types of documents: a class with `@document`, and the types of its fields.

Modules that use them do not import pydantic, which asks a type for its part of a schema.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Final, NamedTuple, TypeVar, dataclass_transform

from annotated_types import Ge, Gt, Le, Lt, MinLen, Predicate
from typing_extensions import TypeAliasType

T = TypeVar("T")


BEYOND: Final = 1 << 127
"""No sum of costs or rates comes near to it."""
Count = Annotated[int, Ge(0), Lt(BEYOND)]
"""A whole number, not negative."""
Signed = Annotated[int, Gt(-BEYOND), Lt(BEYOND)]
"""A whole number that may be negative."""
Amount = Annotated[float, Ge(0), Lt(float(BEYOND))]
"""A number, not negative."""
_Number = Annotated[float, Gt(float(-BEYOND)), Lt(float(BEYOND))]
_Nested = TypeAliasType("_Nested", "str | bool | Signed | _Number | tuple[_Nested, ...] | None")


def _is_shallow(value: object, depth: int = 8) -> bool:
    return not isinstance(value, tuple) or (depth > 0 and all(_is_shallow(part, depth - 1) for part in value))


Plain = Annotated[_Nested, Predicate(_is_shallow)]
"""A text, a truth value, a number, null, or a list of these: an argument of a policy."""

_AnyJson = TypeAliasType(
    "_AnyJson", "str | bool | Signed | _Number | tuple[_AnyJson, ...] | Mapping[str, _AnyJson] | None"
)


def _is_shallow_json(value: object, depth: int = 32) -> bool:
    parts = value if isinstance(value, tuple) else tuple(value.values()) if isinstance(value, Mapping) else ()
    return not parts or (depth > 0 and all(_is_shallow_json(part, depth - 1) for part in parts))


Json = Annotated[_AnyJson, Predicate(_is_shallow_json)]
"""Any value of JSON: a part of another program's configuration, which admc shows and does not judge."""

# Bounds that `annotated_types` lacks. pydantic asks each of these for its part of a schema.


class Form(NamedTuple):
    """The form that a text has to have: `Annotated[str, Form("[A-Z]{3}", "must be three capital letters")]`."""

    pattern: str
    message: str

    def check(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(self.message)
        return text

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], Any]) -> dict[str, Any]:
        return {
            "type": "function-after",
            "function": {"type": "no-info", "function": self.check},
            "schema": handler(source),
        }

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Any]) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$"}


class OneOf(NamedTuple):
    """A text that is one of some words, if no enumeration of the code has these words."""

    words: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return {"type": "literal", "expected": list(self.words)}


@dataclass(frozen=True, eq=False)
class Published:
    """A rule that stands in the JSON Schema only: a later check enforces it, or reading does not depend on it."""

    keywords: Mapping[str, object]

    def __get_pydantic_json_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        published = handler(source)
        for name, value in self.keywords.items():
            inner = published.get(name)
            published[name] = {**inner, **value} if isinstance(inner, dict) and isinstance(value, dict) else value
        return published


def _is_distinct(value: Any) -> bool:
    return len(set(value)) == len(value)


Name = Annotated[str, MinLen(1)]
Digest = Annotated[str, Form("[0-9a-f]{64}", "must be 64 hexadecimal digits in lower case")]
"""SHA-256, in hexadecimal digits."""
LineNumber = Annotated[int, Ge(1), Lt(BEYOND)]
PortNumber = Annotated[int, Ge(1), Le(65_535)]
Filled = MinLen(1)
"""The rule that a list has entries."""
Distinct = (Predicate(_is_distinct), Published({"uniqueItems": True}))
"""The rule that all entries of a list differ: `Annotated[tuple[Side, ...], *Distinct]`."""

MAX_PLACES: Final = 18
"""Digits after the point of a decimal, at most."""
Exact = Annotated[Decimal, Lt(10**19)]
"""A decimal as it is written, of a document for `read_exact`: far more digits than any measurement has."""


class _Base64:
    """Reads bytes of a text in base 64, in the alphabet that `plain` writes."""

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> object:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(_decoded, core_schema.str_schema())


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        from pydantic_core import PydanticCustomError

        # Without the original error as a cause, since that may quote the text.
        raise PydanticCustomError("base64_type", "must be in base 64") from None


Bytes = Annotated[bytes, _Base64()]
"""Bytes, as a text in base 64."""


class _NeverNull:
    """Refuses a null in a document."""

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], Any]) -> object:
        return handler(source)["schema"]


Given = Annotated[T | None, _NeverNull()]
"""A field that a document may lack, and that is then None. A null is refused, so a document that is read has the key
exactly if the field is not None, and keys can be counted without a walk. `plain` would write a null: writers of such
documents leave out the key themselves."""

CONFIG: Final[dict[str, object]] = {
    "extra": "forbid",
    "strict": True,
    "allow_inf_nan": False,
    "hide_input_in_errors": True,
}


@dataclass_transform(frozen_default=True, order_default=True, field_specifiers=(field,))
def document(cls: type[T]) -> type[T]:
    """Makes a class a type of documents: a frozen data class with slots, whose values have an order."""
    cls.__pydantic_config__ = CONFIG  # type: ignore[attr-defined]
    return dataclass(frozen=True, order=True, slots=True)(cls)


@dataclass_transform(frozen_default=True, order_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Makes a class a type of documents that have to have all of its fields. Defaults are for code only."""
    cls.__is_complete__ = True  # type: ignore[attr-defined]
    return document(cls)
