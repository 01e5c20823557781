"""Documents: JSON of a fixed shape, read as values of the types that describe it.

    bytes -> [read] -> value | DocumentError        type -> [schema] -> JSON Schema

A type of a document is a class with `@document`, which holds texts, numbers, truth values, enumerations, tuples,
mappings by name and other such types. pydantic does the types and bounds, and is imported only when a document is read.
What it does not do is here: the limits on a document from a stranger, repeated keys, and messages that never quote the
input, since identities and keys are read this way.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar, dataclass_transform

from annotated_types import Ge, Gt, Le, Lt, MinLen, Predicate
from typing_extensions import TypeAliasType

from dsl.collector import no_collection
from dsl.json_text import Places, elements, is_list, is_too_dense, may_have_more_keys, members, shown_path

if TYPE_CHECKING:
    from dsl.json_text import Path

T = TypeVar("T")
Counter = Callable[[Any], int]


class _Absent:
    """Takes the place of a value that an object lacks; no type allows it."""


_ABSENT: Final = _Absent()
_BEYOND: Final = 1 << 127
"""No sum of costs or rates comes near to it."""
Count = Annotated[int, Ge(0), Lt(_BEYOND)]
"""A whole number, not negative."""
Signed = Annotated[int, Gt(-_BEYOND), Lt(_BEYOND)]
"""A whole number that may be negative."""
Amount = Annotated[float, Ge(0), Lt(float(_BEYOND))]
"""A number, not negative."""
_Number = Annotated[float, Gt(float(-_BEYOND)), Lt(float(_BEYOND))]
_Nested = TypeAliasType("_Nested", "str | bool | Signed | _Number | tuple[_Nested, ...] | None")


def _is_shallow(value: object, depth: int = 8) -> bool:
    return not isinstance(value, tuple) or (depth > 0 and all(_is_shallow(part, depth - 1) for part in value))


Plain = Annotated[_Nested, Predicate(_is_shallow)]
"""A text, a truth value, a number, null, or a list of these: an argument of a policy."""

# What no bound of `annotated_types` says. pydantic asks each of these for its part of a schema.


class Pattern(NamedTuple):
    """A text that an expression matches. pydantic's expressions are those of Rust."""

    expression: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return {**handler(source), "pattern": self.expression}


class OneOf(NamedTuple):
    """A text that is one of some words, where they are no enumeration of the code."""

    words: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return {"type": "literal", "expected": list(self.words)}


@dataclass(frozen=True, eq=False)
class Published:
    """What only the JSON Schema says: a check of meaning follows, or none is needed to read the document."""

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
Digest = Annotated[str, Pattern("^[0-9a-f]{64}$")]
"""SHA-256, in hexadecimal digits."""
LineNumber = Annotated[int, Ge(1), Lt(_BEYOND)]
PortNumber = Annotated[int, Ge(1), Le(65_535)]
Filled = MinLen(1)
"""Of a list that has entries."""
Distinct = (Predicate(_is_distinct), Published({"uniqueItems": True}))
"""Of a list with different entries: `Annotated[tuple[Side, ...], *Distinct]`."""

MAX_VERSION: Final = 1 << 31
_MAX_DIGITS: Final = 10
_CONFIG: Final[dict[str, object]] = {
    "extra": "forbid",
    "strict": True,
    "allow_inf_nan": False,
    "hide_input_in_errors": True,
}


@dataclass_transform(frozen_default=True, order_default=True)
def document(cls: type[T]) -> type[T]:
    """Makes a class a type of documents: a frozen data class with slots, whose values have an order."""
    cls.__pydantic_config__ = _CONFIG  # type: ignore[attr-defined]
    return dataclass(frozen=True, order=True, slots=True)(cls)


class Violation(NamedTuple):
    """One value that does not fit its type."""

    path: Path
    message: str
    """What is wrong, as the end of a sentence that begins with the place: `must be a whole number`."""

    @property
    def where(self) -> str:
        return shown_path(self.path)


class DocumentError(Exception):
    """Bytes are no document of a type. `violations` are empty where they are no JSON at all."""

    def __init__(self, message: str, violations: tuple[Violation, ...] = ()) -> None:
        self.message = message
        self.violations = violations
        super().__init__(message)


class VersionError(DocumentError):
    """A document has another schema version than the one that is read."""

    def __init__(self, message: str, *, newer: bool) -> None:
        self.newer = newer
        super().__init__(message)


# ---- reading ----


@no_collection()
def read(expected: type[T], content: bytes) -> T:
    """The value of a document. Raises `VersionError` where it is of another version, and `DocumentError` for all else.

    A type with versions has a field `schema_version`, a `Literal` of the one that is read.
    """
    if is_too_dense(content):
        raise DocumentError("it has more values than a document of its size can have")
    if is_list(content):
        # Else the error has a copy of it.
        raise DocumentError("it is not a JSON object")
    kind: Any = expected
    validator = _validator(kind)
    from pydantic_core import ValidationError

    try:
        value: T = validator.validate_json(content)
    except ValidationError as error:
        # Not the error itself, and not as a cause: a `ValidationError` quotes the input.
        errors = error.errors(include_url=False, include_input=False)
    else:
        if may_have_more_keys(content, _keys(kind)(value)):
            _refuse_extra_keys(content, kind)
        return value
    raise _explained(content, errors, kind)


def _explained(content: bytes, errors: list[Any], expected: Any) -> DocumentError:
    """The error that a user can act on: another version explains whatever else does not fit."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return DocumentError(f"byte {error.start} is not UTF-8")
    if errors[0]["type"] == "json_invalid":
        return DocumentError(_not_json(errors[0]["ctx"]["error"]))
    places = Places(text)
    version = _version(expected)
    if version is not None and (wrong := _wrong_version(places, version, _hints(expected))) is not None:
        return wrong
    return _error(places, tuple(dict.fromkeys(_violation(places, error, expected) for error in errors)))


def _error(places: Places, violations: tuple[Violation, ...]) -> DocumentError:
    first = violations[0]
    line = places.line(places.of(first.path))
    return DocumentError(f"`{first.where or 'the document'}` {first.message} (line {line})", violations)


def _not_json(message: str) -> str:
    """The parser's message in words of ours."""
    what, _, place = message.rpartition(" at line ")
    line = place.partition(" ")[0]
    if "recursion" in what:
        return f"it is nested too deeply (line {line})"
    if "surrogate" in what or "hex escape" in what:
        return f"a text in it has half of a character (line {line})"
    if "number" in what:
        return f"it has a number that JSON does not allow (line {line})"
    return f"line {line} is not JSON; the file may be cut short"


def _version(expected: type) -> int | None:
    """The version of a type's documents, if they have versions."""
    stated = typing.get_type_hints(expected).get("schema_version")
    return None if stated is None else typing.get_args(stated)[0]


def _wrong_version(places: Places, version: int, names: Collection[str]) -> DocumentError | None:
    place = places.within(places.root, "schema_version", names)
    stated = "" if place is None else places.value(place)
    if len(stated) > _MAX_DIGITS or not stated.isdecimal() or not 0 < int(stated) < MAX_VERSION:
        return DocumentError("it has no `schema_version`")
    if int(stated) == version:
        return None
    reads = f"and this admc reads {version}"
    return VersionError(f"it has schema version {stated}, {reads}", newer=int(stated) > version)


# ---- messages ----


_MESSAGES: Final = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "none_required": "must be null",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must be an object",
    "dataclass_type": "must be an object",
    "string_too_short": "is empty",
    "string_pattern_mismatch": "has another form",
}
_BOUNDS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _violation(places: Places, error: Any, expected: Any) -> Violation:
    """An error of pydantic in words of ours."""
    path: list[str | int] = []
    at = places.root
    for step in error["loc"]:
        part = _part(expected, step)
        if part is None:
            return Violation(tuple(path), "must be a number, a string, true, false, null or a list of these")
        inner = places.within(at, step, _names_of(expected))
        if inner is None:
            return Violation(tuple(path), f"lacks `{step}`" if isinstance(step, str) else f"lacks its entry {step + 1}")
        path.append(step)
        at, expected = inner, part
    return Violation(tuple(path), _message(error))


def _message(error: Any) -> str:
    kind: str = error["type"]
    context = error.get("ctx", {})
    if kind == "predicate_failed":
        return "has an entry twice" if "distinct" in error["msg"] else "has too many lists inside each other"
    if kind == "too_long":
        return f"has more than {context['max_length']} entries"
    if kind == "too_short":
        return "has no entries"
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected'].replace(chr(39), '`').replace(', ', ' or ')}"
    if kind in _BOUNDS:
        name, phrase = _BOUNDS[kind]
        bound = context[name]
        far = isinstance(bound, int | float) and abs(bound) >= _BEYOND
        return "is out of range" if far else f"must be {phrase} {bound}"
    return _MESSAGES.get(kind) or str(error["msg"]).lower()


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


# ---- keys that do not belong there ----


def _refuse_extra_keys(content: bytes, expected: Any) -> None:
    """Raises `DocumentError` for the first key of a valid document that is unknown, or that its object has twice."""
    text = content.decode("utf-8")
    places = Places(text)
    violation = _extra_key(text, places.root, expected, ())
    if violation is not None:
        raise _error(places, (violation,))


def _extra_key(text: str, at: int, expected: Any, path: Path) -> Violation | None:
    if text[at] == "[":
        for index, place in enumerate(elements(text, at)):
            part = _part(expected, index)
            if part is not None and (violation := _extra_key(text, place, part, (*path, index))) is not None:
                return violation
    elif text[at] == "{":
        keys: set[str] = set()
        for key, place in members(text, at):
            part = _part(expected, key)
            if part is None:
                return Violation(path, f"has an unknown field `{_short(key)}`")
            if key in keys:
                return Violation(path, f"has `{_short(key)}` twice")
            keys.add(key)
            if (violation := _extra_key(text, place, part, (*path, key))) is not None:
                return violation
    return None


@cache
def _part(expected: Any, step: str | int) -> Any:
    """The type of what stands at a key or a position of a value; None if no document's type says it."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return _part(arguments[0], step)
    if isinstance(expected, types.UnionType) or origin is typing.Union:
        parts = (_part(each, step) for each in arguments)
        return next((part for part in parts if part is not None), None)
    if isinstance(step, int):
        if origin is tuple and arguments[-1] is not Ellipsis:
            return arguments[step] if step < len(arguments) else None
        return arguments[0] if origin in (tuple, frozenset) else None
    if origin is Mapping:
        return arguments[1]
    return _hints(expected).get(step) if isinstance(expected, type) and is_dataclass(expected) else None


@cache
def _names_of(expected: Any) -> Collection[str]:
    """The names of the fields of an object."""
    if isinstance(expected, types.UnionType):
        return next(filter(None, map(_names_of, typing.get_args(expected))), ())
    return _hints(expected).keys() if isinstance(expected, type) and is_dataclass(expected) else ()


@cache
def _hints(expected: type) -> Mapping[str, Any]:
    return typing.get_type_hints(expected, include_extras=True)


# ---- pydantic ----


@cache
def _validator(expected: Any) -> Any:
    """A validator of a type, of which each object and each list has few errors, whatever it holds.

    A document of nonsense would have millions of them, and each keeps a copy of the value that is wrong. So a list ends
    at its first error; a key that is missing is a wrong default; and keys that are unknown are looked for afterwards.
    """
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    schema = TypeAdapter(expected).core_schema
    return SchemaValidator(_with_few_errors(schema))


def _with_few_errors(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_few_errors(part) for part in schema]
    if isinstance(schema, tuple):
        return tuple(_with_few_errors(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    copy = {name: _with_few_errors(part) if name != "metadata" else part for name, part in schema.items()}
    kind = copy.get("type")
    if kind in ("tuple", "list", "frozenset", "set", "dict"):
        copy["fail_fast"] = True
    elif kind == "dataclass":
        copy["config"] = {**copy.get("config", {}), "extra_fields_behavior": "ignore"}
    elif kind == "dataclass-field" and copy["schema"]["type"] != "default":
        copy["schema"] = {"type": "default", "schema": copy["schema"], "default": _ABSENT, "validate_default": True}
    return copy


def schema(expected: type) -> dict[str, object]:
    """The JSON Schema of a type, with what its docstrings say."""
    from pydantic import TypeAdapter

    # Reading the source text of each class is only for this: it would be half of the time of a small command.
    _CONFIG["use_attribute_docstrings"] = True
    try:
        published: dict[str, object] = TypeAdapter(expected).json_schema()
    finally:
        del _CONFIG["use_attribute_docstrings"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_readable(published)}


def _readable(schema: Any, *, names: bool = False) -> Any:
    """Without the titles that pydantic makes of names, and the bounds that no number comes near to."""
    if isinstance(schema, list):
        return [_readable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _readable(part, names=name in ("properties", "$defs") and not names)
        for name, part in schema.items()
        if names or not (name == "title" or (isinstance(part, int | float) and abs(part) >= _BEYOND))
    }


# ---- keys ----


@cache
def _keys(expected: Any) -> Counter:
    """A function that says how many keys the document of a value has at least: all, but for optional ones that are
    there with their default. More keys may be repeated ones."""
    fixed, varying = _counted(expected)
    return lambda value: fixed + (varying(value) if varying is not None else 0)


def _counted(expected: object) -> tuple[int, Counter | None]:
    """The number of keys in every value of a type, and what counts those beyond it."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return _counted(arguments[0])
    if isinstance(expected, types.UnionType) or origin is typing.Union:
        parts = [part for part in arguments if part is not type(None)]
        if any(_counted(part) != (0, None) for part in parts):
            (part,) = parts
            inner = _keys(part)
            return 0, lambda value: 0 if value is None else inner(value)
        return 0, None
    if origin in (tuple, frozenset):
        return 0, _of_list(arguments[0])
    if origin is Mapping:
        inner = _keys(arguments[1])
        return 0, lambda value: len(value) + sum(map(inner, value.values()))
    if isinstance(expected, type) and is_dataclass(expected):
        return _of_object(expected)
    return 0, None


def _of_list(element: object) -> Counter | None:
    fixed, varying = _counted(element)
    if varying is None:
        return (lambda value: len(value) * fixed) if fixed else None
    inner = _keys(element)
    return lambda value: sum(map(inner, value))


def _of_object(expected: type) -> tuple[int, Counter | None]:
    total = 0
    counters: list[Counter] = []
    hints = _hints(expected)
    for part in fields(expected):
        fixed, varying = _counted(hints[part.name])
        get = attrgetter(part.name)
        if part.default is not MISSING:
            counters.append(_optional(get, part.default, _keys(hints[part.name])))
            continue
        total += 1 + fixed
        if varying is not None:
            counters.append(_composed(get, varying))
    return total, (lambda value: sum(counter(value) for counter in counters)) if counters else None


def _optional(get: Callable[[Any], Any], default: object, inner: Counter) -> Counter:
    return lambda value: 0 if get(value) == default else 1 + inner(get(value))


def _composed(get: Callable[[Any], Any], inner: Counter) -> Counter:
    return lambda value: inner(get(value))


# ---- writing ----


def fields_of(value: object) -> Iterator[tuple[str, Any]]:
    """The fields of a document's object with their values, in the order of its class."""
    kind: Any = value.__class__
    return ((name, getattr(value, name)) for name in _names(kind))


def plain(value: object) -> object:
    """A value of a document's types as what `json` writes; fields stand in the order of their class."""
    if isinstance(value, Enum):
        return value.value
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
