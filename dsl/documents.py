"""Documents: JSON of a fixed shape, read as values of the types that describe it.

    bytes -> [read] -> value | DocumentError        type -> [schema] -> JSON Schema
    text -> [read_exact] -> the same, with decimals as they are written

A type of a document is a class with `@document`, which holds texts, numbers, truth values, enumerations, tuples,
mappings by name and other such types. pydantic does the types and bounds, and is imported only when a document is read.
What it does not do is here: the limits on a document from a stranger, repeated keys, and messages that never quote the
input, since identities and keys are read this way.
"""

from __future__ import annotations

import base64
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum, auto
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar, dataclass_transform

from annotated_types import Ge, Gt, Le, Lt, MinLen, Predicate
from typing_extensions import TypeAliasType

from dsl.collector import no_collection
from dsl.diagnostics.diagnostic import did_you_mean
from dsl.exact_json import MAX_CHARACTERS, JsonError, parse, without_mark
from dsl.json_text import Places, elements, is_list, is_too_dense, may_have_more_keys, members, shown_key, shown_path

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

MAX_PLACES: Final = 18
"""Digits after the point of a decimal, at most."""
Exact = Annotated[Decimal, Lt(10**19)]
"""A decimal as it is written, of a document for `read_exact`: far more digits than any measurement has."""


class Form(NamedTuple):
    """What a text has to be: `Annotated[str, Form("[A-Z]{3}", "must be three capital letters")]`."""

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

        # Not a cause: it may quote the text.
        raise PydanticCustomError("base64_type", "must be in base 64") from None


Bytes = Annotated[bytes, _Base64()]
"""Bytes, as a text in base 64."""


class _NeverNull:
    """Refuses a null in a document."""

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], Any]) -> object:
        return handler(source)["schema"]


Given = Annotated[T | None, _NeverNull()]
"""A field that a document may lack, and is None then, its default; but never null. The keys of a text can be counted
without a walk also where it stands with an empty value. `plain` writes no such document."""

MAX_VERSION: Final = 1 << 31
_MAX_DIGITS: Final = 10
_CONFIG: Final[dict[str, object]] = {
    "extra": "forbid",
    "strict": True,
    "allow_inf_nan": False,
    "hide_input_in_errors": True,
}


@dataclass_transform(frozen_default=True, order_default=True, field_specifiers=(field,))
def document(cls: type[T]) -> type[T]:
    """Makes a class a type of documents: a frozen data class with slots, whose values have an order."""
    cls.__pydantic_config__ = _CONFIG  # type: ignore[attr-defined]
    return dataclass(frozen=True, order=True, slots=True)(cls)


@dataclass_transform(frozen_default=True, order_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """A type of documents that have each of its fields. A default is for code only: what lacks a field is refused."""
    cls.__is_complete__ = True  # type: ignore[attr-defined]
    return document(cls)


class Fault(Enum):
    """What is wrong with a value."""

    SYNTAX = auto()
    """It is no JSON, or has a key twice, in a document for `read_exact`."""
    ABSENT = auto()
    """It lacks a key or an entry."""
    SHAPE = auto()
    """It is of another kind than its type, or has a key that is unknown or there twice."""
    NUMBER = auto()
    """It is not a number that its type allows."""
    NAME = auto()
    """It is none of the texts that its type allows."""


class Violation(NamedTuple):
    """One value that does not fit its type."""

    path: Path
    message: str
    """What is wrong, as the end of a sentence that begins with the place: `must be a whole number`."""
    fault: Fault
    range: tuple[int, int]
    """Where in the text it stands: the first character, and the one after the last."""
    hint: str | None = None

    def __str__(self) -> str:
        where = shown_path(self.path) or "the document"
        return self.message if self.fault is Fault.SYNTAX else f"`{where}` {self.message}"


class DocumentError(Exception):
    """Bytes are no document of a type. `violations` are empty where `read` finds that they are no JSON at all."""

    def __init__(self, message: str, violations: tuple[Violation, ...] = ()) -> None:
        self.message = message
        self.violations = violations
        self.hint = violations[0].hint if violations else None
        super().__init__(message)


class VersionError(DocumentError):
    """A document has another schema version than the one that is read."""

    def __init__(self, message: str, violation: Violation, version: int, *, newer: bool) -> None:
        self.version = version
        self.newer = newer
        super().__init__(message, (violation,))


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
    return _validated(expected, content, lambda validator: validator.validate_json(content))


def read_exact(expected: type[T], text: str) -> T:
    """The value of a document that a person may have written, with decimals as they are written.

    pydantic's own parser makes floats of them. Raises as `read` does; every violation has its place.
    """
    try:
        parsed = parse(text)
    except JsonError as error:
        violation = Violation((), error.message, Fault.SYNTAX, error.range)
        raise DocumentError(error.message, (violation,)) from None
    return _validated(expected, without_mark(text).encode(), lambda validator: validator.validate_python(parsed))


def _validated(expected: type[T], content: bytes, validate: Callable[[Any], T]) -> T:
    kind: Any = expected
    validator = _validator(kind)
    from pydantic_core import ValidationError

    try:
        value = validate(validator)
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
    version = _version(expected) if places.text[places.root] == "{" else None
    if version is not None and (wrong := _wrong_version(places, version, _hints(expected))) is not None:
        return wrong
    extra = _extra_keys(places, places.root, expected, ()) if len(text) <= MAX_CHARACTERS else iter(())
    violations = tuple(islice(extra, _MANY))
    # A key that is lacking may be the unknown one, with its right name.
    named = {(violation.path, Fault.ABSENT) for violation in violations}
    others = (_violation(places, error, expected) for error in _without_consequences(errors))
    more = (violation for violation in others if (violation.path, violation.fault) not in named)
    return _error(places, tuple(dict.fromkeys((*violations, *more))))


def _without_consequences(errors: list[Any]) -> Iterator[Any]:
    """A list is not too short only because an entry of it is wrong."""
    around = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}
    return (error for error in errors if error["type"] != "too_short" or error["loc"] not in around)


def _error(places: Places, violations: tuple[Violation, ...]) -> DocumentError:
    first = violations[0]
    line = places.line(first.range[0])
    return DocumentError(f"{first} (line {line})", violations)


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
    if not is_dataclass(expected):
        return None
    stated = typing.get_type_hints(expected).get("schema_version")
    return None if stated is None else typing.get_args(stated)[0]


def _wrong_version(places: Places, version: int, names: Collection[str]) -> DocumentError | None:
    place = places.within(places.root, "schema_version", names)
    if place is None:
        return None
    stated = places.value(place)
    if len(stated) > _MAX_DIGITS or not stated.isdecimal() or not 0 < int(stated) < MAX_VERSION:
        message = "must be a whole number from 1"
        violation = Violation(("schema_version",), message, Fault.SHAPE, places.range(place))
        return DocumentError("it has no `schema_version`", (violation,))
    if int(stated) == version:
        return None
    reads = f"and this admc reads {version}"
    violation = Violation(("schema_version",), f"is {stated}, {reads}", Fault.SHAPE, places.range(place))
    message = f"it has schema version {stated}, {reads}"
    return VersionError(message, violation, int(stated), newer=int(stated) > version)


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
    "is_instance_of": "must be a number",
    "string_unicode": "has half of a character",
    "too_short": "has no entries",
    "base64_type": "must be in base 64",
}
_FIRST_OF_NUMBER: Final = "-0123456789n"
"""`null` stands for a number that is missing."""
_NUMBERS: Final = frozenset(("int_type", "float_type", "finite_number", "is_instance_of"))
_LENGTHS: Final = {"too_long": "entries", "string_too_long": "characters"}
_BOUNDS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


_KEY: Final = "[key]"
"""The last step to a key of a mapping that does not fit."""
_MANY: Final = 100
"""Violations of one kind that are looked for."""


def _violation(places: Places, error: Any, expected: Any) -> Violation:
    """An error of pydantic in words of ours."""
    path: list[str | int] = []
    at = places.root
    for step in error["loc"]:
        part = _part(expected, step)
        if part is None and step == _KEY:
            return Violation(tuple(path), _message(error), Fault.SHAPE, places.range(places.key(tuple(path))))
        if part is None:
            message = "must be a number, a string, true, false, null or a list of these"
            return Violation(tuple(path), message, Fault.SHAPE, places.range(at))
        inner = places.within(at, step, _names_of(expected))
        if inner is None:
            return _lacks(places, tuple(path), f"`{step}`" if isinstance(step, str) else f"its entry {step + 1}", at)
        path.append(step)
        at, expected = inner, part
    place = at
    if error["type"] == "too_long" and places.text[at] == "[":
        place = places.within(at, error["ctx"]["max_length"]) or at
    fault = _fault(error["type"], places.text[at], expected)
    hint = _hint(places.value(at).strip('"'), _choices(expected)) if fault is Fault.NAME else None
    return Violation(tuple(path), _message(error), fault, places.range(place), hint)


def _lacks(places: Places, path: Path, subject: str, at: int) -> Violation:
    return Violation(path, f"lacks {subject}", Fault.ABSENT, (at, at + 1))


def _fault(kind: str, first: str, expected: Any) -> Fault:
    """`first` is the first character of the value."""
    if kind in ("enum", "literal_error"):
        return Fault.NAME if first == '"' else Fault.SHAPE
    is_number = kind in _NUMBERS or kind in _BOUNDS or kind == "value_error"
    return Fault.NUMBER if is_number and first in _FIRST_OF_NUMBER else Fault.SHAPE


def _message(error: Any) -> str:
    kind: str = error["type"]
    context = error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "predicate_failed":
        return "has an entry twice" if "distinct" in error["msg"] else "has too many lists inside each other"
    if kind in _LENGTHS:
        return f"has more than {context['max_length']} {_LENGTHS[kind]}"
    if kind in ("enum", "literal_error"):
        return f"must be {context['expected'].replace(chr(39), '`').replace(', ', ' or ')}"
    if kind in _BOUNDS:
        name, phrase = _BOUNDS[kind]
        bound = context[name]
        far = isinstance(bound, int | float) and abs(bound) >= _BEYOND
        return "is out of range" if far else f"must be {phrase} {bound}"
    return _MESSAGES.get(kind) or str(error["msg"]).lower()


def _hint(name: str, known: Collection[str]) -> str | None:
    return did_you_mean(name, known) or ("known are " + ", ".join(f"`{choice}`" for choice in known) if known else None)


def _choices(expected: Any) -> Collection[str]:
    """The texts that a value may be, if they are few."""
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if isinstance(expected, types.UnionType) or origin is typing.Union:
        return next(filter(None, map(_choices, arguments)), ())
    if origin is typing.Literal:
        return arguments
    return [member.value for member in expected] if isinstance(expected, type) and issubclass(expected, Enum) else ()


# ---- keys that do not belong there ----


def _refuse_extra_keys(content: bytes, expected: Any) -> None:
    """Raises `DocumentError` for keys of a valid document that are unknown, or that their object has twice."""
    places = Places(content.decode("utf-8"))
    violations = tuple(islice(_extra_keys(places, places.root, expected, ()), _MANY))
    if violations:
        raise _error(places, violations)


def _extra_keys(places: Places, at: int, expected: Any, path: Path) -> Iterator[Violation]:
    text = places.text
    if text[at] == "[":
        for index, place in enumerate(elements(text, at)):
            part = _part(expected, index)
            if part is not None:
                yield from _extra_keys(places, place, part, (*path, index))
    elif text[at] == "{" and (_names_of(expected) or _part(expected, "") is not None):
        keys: set[str] = set()
        for key, start, place in members(text, at):
            part = _part(expected, key)
            if part is None:
                message, hint = f"has an unknown field `{shown_key(key)}`", _hint(key, _names_of(expected))
                yield Violation(path, message, Fault.SHAPE, places.range(start), hint)
            elif key in keys:
                yield Violation(path, f"has `{shown_key(key)}` twice", Fault.SHAPE, places.range(start))
            else:
                keys.add(key)
                yield from _extra_keys(places, place, part, (*path, key))


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
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return _names_of(arguments[0])
    if isinstance(expected, types.UnionType) or origin is typing.Union:
        return next(filter(None, map(_names_of, arguments)), ())
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
    elif kind in ("str", "int", "float", "bool", "decimal"):
        copy["strict"] = True
        if kind == "decimal":
            function = {"type": "no-info", "function": _decimal}
            copy = {"type": "function-before", "function": function, "schema": copy}
    elif kind == "literal" and any(isinstance(choice, int) for choice in copy["expected"]):
        # `true` is equal to 1.
        copy = {"type": "chain", "steps": [{"type": "int", "strict": True}, copy]}
    elif kind == "dataclass":
        # Not strict: parsed JSON has lists for tuples and texts for enumerations.
        copy["config"] = {**copy.get("config", {}), "extra_fields_behavior": "ignore", "strict": False}
        arguments = copy["schema"]
        for part in arguments["fields"]:
            if part["schema"]["type"] != "default":
                part["schema"] = _required(part["schema"])
            elif _is_complete(copy["cls"]):
                part["schema"] = _required(part["schema"]["schema"])
    return copy


def _required(schema: Any) -> Any:
    return {"type": "default", "schema": schema, "default": _ABSENT, "validate_default": True}


def _is_complete(expected: type) -> bool:
    return getattr(expected, "__is_complete__", False)


def _decimal(value: object) -> object:
    """Raises `ValueError` for a number whose size or number of digits no document needs."""
    number = Decimal(value) if type(value) is int else value
    if isinstance(number, Decimal):
        exponent = number.as_tuple().exponent
        if number.adjusted() > MAX_PLACES:
            raise ValueError("is out of range")
        if isinstance(exponent, int) and exponent < -MAX_PLACES:
            raise ValueError(f"has more than {MAX_PLACES} digits after the point")
    return number


def schema(expected: type) -> dict[str, object]:
    """The JSON Schema of a type, with what its docstrings say."""
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def decimal_schema(self, schema: Any) -> dict[str, Any]:
            # No text.
            return self.float_schema(schema)

        def dict_schema(self, schema: Any) -> dict[str, Any]:
            published = super().dict_schema(schema)
            return {**published, "additionalProperties": False} if "patternProperties" in published else published

    # Reading the source text of each class is only for this: it would be half of the time of a small command.
    _CONFIG["use_attribute_docstrings"] = True
    try:
        published: dict[str, object] = TypeAdapter(expected).json_schema(schema_generator=Generator)
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
    if varying is not None and fixed == 0:
        return varying
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
    absent: list[str] = []
    hints = _hints(expected)
    for part in fields(expected):
        fixed, varying = _counted(hints[part.name])
        get = attrgetter(part.name)
        if part.default is None and varying is None and not _is_complete(expected):
            absent.append(part.name)
            continue
        if part.default is not MISSING and not _is_complete(expected):
            counters.append(_optional(get, part.default, _keys(hints[part.name])))
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
    """How many of these fields are not None: an endpoints file has ten thousand objects with nothing else."""
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


# ---- writing ----


def fields_of(value: object) -> Iterator[tuple[str, Any]]:
    """The fields of a document's object with their values, in the order of its class."""
    kind: Any = value.__class__
    return ((name, getattr(value, name)) for name in _names(kind))


def plain(value: object) -> object:
    """A value of a document's types as what `json` writes; fields stand in the order of their class."""
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
