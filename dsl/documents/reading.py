"""Reads documents: bytes or text to values of a type."""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from dsl.collector import no_collection
from dsl.documents.errors import DocumentError, Fault, VersionError, Violation, error_of
from dsl.documents.exact_json import MAX_CHARACTERS, JsonError, parse, without_mark
from dsl.documents.extra_keys import extra_keys
from dsl.documents.json_text import Places, has_more_keys, is_list, is_too_dense
from dsl.documents.key_count import number_of_keys
from dsl.documents.structure import names_of, part_of
from dsl.documents.validator import validator_of
from dsl.documents.violations import violation_of

T = TypeVar("T")

MAX_VERSION: Final = 1 << 31
_MAX_DIGITS: Final = 10
_MANY: Final = 100
"""Most extra keys that one error reports."""


@no_collection()
def read(expected: type[T], content: bytes) -> T:
    """The value of a document. Raises `VersionError` for a document of another version, else `DocumentError`.

    A type with versions has a field `schema_version`, a `Literal` of the one that is read.
    """
    if is_too_dense(content):
        raise DocumentError("it has more values than a document of its size can have")
    if is_list(content):
        # An error of the validator would keep a copy of the whole list.
        raise DocumentError("it is not a JSON object")
    return _validated(expected, content, lambda validator: validator.validate_json(content))


def read_exact(expected: type[T], text: str) -> T:
    """The value of a document that a person may have written, with decimals as they are written.

    The parser of pydantic would turn decimals into floats. Raises as `read` does; every violation has its place.
    """
    try:
        parsed = parse(text)
    except JsonError as error:
        violation = Violation((), error.message, Fault.SYNTAX, error.range)
        raise DocumentError(error.message, (violation,)) from None
    return _validated(expected, without_mark(text).encode(), lambda validator: validator.validate_python(parsed))


def kind_of(content: bytes, kinds: Collection[type]) -> type | None:
    """The type whose document this is, by the first key that only one of the types has. None if no key decides it, or
    if it is not JSON: reading it says what is wrong."""
    if is_too_dense(content):
        return None
    from pydantic_core import from_json

    try:
        parsed = from_json(content)
    except ValueError:
        return None
    keys = parsed if isinstance(parsed, dict) else ()
    owners = ([kind for kind in kinds if key in names_of(kind)] for key in keys)
    return next((having[0] for having in owners if len(having) == 1), None)


def _validated(expected: type[T], content: bytes, validate: Callable[[Any], T]) -> T:
    kind: Any = expected
    validator = validator_of(kind)
    from pydantic_core import ValidationError

    try:
        value = validate(validator)
    except ValidationError as error:
        # The error itself must not be kept, not even as a cause: a `ValidationError` quotes the input.
        errors = error.errors(include_url=False, include_input=False)
    else:
        if has_more_keys(content, number_of_keys(kind)(value)):
            _refuse_extra_keys(content, kind)
        return value
    raise _explained(content, errors, kind)


def _explained(content: bytes, errors: list[Any], expected: Any) -> DocumentError:
    """The error that a user can act on: if the version is another one, that explains all other violations."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return DocumentError(f"byte {error.start} is not UTF-8")
    if errors[0]["type"] == "json_invalid":
        return DocumentError(_not_json(errors[0]["ctx"]["error"]))
    places = Places(text)
    version = _version(expected) if places.text[places.root] == "{" else None
    if version is not None and (wrong := _wrong_version(places, version, names_of(expected))) is not None:
        return wrong
    extra = extra_keys(places, places.root, expected, ()) if len(text) <= MAX_CHARACTERS else iter(())
    violations = tuple(islice(extra, _MANY))
    # An unknown key may be a misspelt key that the document lacks: one violation is enough.
    named = {(violation.path, Fault.ABSENT) for violation in violations}
    others = (violation_of(places, error, expected) for error in _without_consequences(errors))
    more = (violation for violation in others if (violation.path, violation.fault) not in named)
    return error_of(places, tuple(dict.fromkeys((*violations, *more))))


def _without_consequences(errors: list[Any]) -> Iterator[Any]:
    """The errors without those that follow from others: a list with a wrong entry also counts as too short."""
    around = {error["loc"][:length] for error in errors for length in range(len(error["loc"]))}
    return (error for error in errors if error["type"] != "too_short" or error["loc"] not in around)


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
    if "schema_version" not in names_of(expected):
        return None
    version: int = typing.get_args(part_of(expected, "schema_version"))[0]
    return version


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


def _refuse_extra_keys(content: bytes, expected: Any) -> None:
    """Raises `DocumentError` for keys of a valid document that are unknown, or that an object has twice."""
    places = Places(content.decode("utf-8"))
    violations = tuple(islice(extra_keys(places, places.root, expected, ()), _MANY))
    if violations:
        raise error_of(places, violations)
