"""Compares objects with the schemas of their kinds, in words that name the field.

An object that does not fit its schema is not compared with the rules: an API server does the same.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Error

from admc.istio.schemas.identity import Identity
from admc.istio.schemas.violation import Violation, shown
from admc.manifests.documents import at
from dsl.diagnostics.diagnostic import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.manifests.documents import Where

    Schema = dict[str, Any]

_MOST: Final = 20
"""The most violations of one object that are named."""
_TYPES: Final = {
    "array": "a list",
    "boolean": "`true` or `false`",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "a text",
}
_BOUNDS: Final = {
    Error.Minimum: "must be at least {}",
    Error.Maximum: "must be at most {}",
    Error.MinItems: "has fewer entries than {}",
    Error.MaxItems: "has more entries than {}",
    Error.MinLength: "has fewer characters than {}",
    Error.MaxLength: "has more characters than {}",
    Error.MinProperties: "has fewer keys than {}",
    Error.MaxProperties: "has more keys than {}",
}
_MOST_NAMES: Final = 12
_HEADERS: Final = "headers", "it is `set`, `add` and `remove` in `headers.request` and `headers.response` now"
REMOVED: Final[dict[str, tuple[str, str]]] = {
    "workloadLabels": ("workloadSelector", "it is `workloadSelector.labels` now"),
    "filters": ("configPatches", "`configPatches` took its place"),
    "appendHeaders": _HEADERS,
    "appendRequestHeaders": _HEADERS,
    "appendResponseHeaders": _HEADERS,
    "removeRequestHeaders": _HEADERS,
    "removeResponseHeaders": _HEADERS,
    "websocketUpgrade": ("corsPolicy", "proxies upgrade to WebSocket without a setting"),
}
"""Fields that Istio once had -> a field beside which it was, and what took its place."""


def violations(data: Any, schema: Schema, code: str) -> list[Violation]:
    """What a schema refuses in an object, without its rules."""
    made: dict[Where, Violation] = {}
    data = without_nulls(data, schema)
    for error in validator(Identity(schema)).iter_errors(data):
        for violation in _violations(error, data, schema, code):
            # A value of another type is none of the names that are allowed, either: one cause is one violation.
            made.setdefault(violation.where, violation)
        if len(made) >= _MOST:
            break
    return list(made.values())[:_MOST]


def without_nulls(data: Any, schema: Any) -> Any:
    """An object without fields that are null and may not be: an API server drops these, too."""
    if not isinstance(schema, dict):
        return data
    if isinstance(data, list):
        items = schema.get("items")
        return [without_nulls(value, items) for value in data]
    if not isinstance(data, dict):
        return data
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    made = {}
    for name, value in data.items():
        inner = properties.get(name, others)
        if value is not None or not isinstance(inner, dict) or _may_be_null(inner):
            made[name] = without_nulls(value, inner)
    return made


def _may_be_null(schema: Schema) -> bool:
    types = schema.get("type")
    return types is None or "null" in types


@cache
def validator(key: Identity) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(key.schema, formats={"byte": _is_base64}, validate_formats=True)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def _violations(error: jsonschema_rs.ValidationError, data: Any, schema: Schema, code: str) -> Iterator[Violation]:
    where = _place(error.instance_path, data)
    kind = error.kind
    if isinstance(kind, Error.AdditionalProperties):
        for name in kind.unexpected:
            yield _unknown(name, where, _schema_at(schema, error.schema_path[:-1]), code)
    elif isinstance(kind, Error.Required):
        yield Violation(code, where, f"`{shown((*where, kind.property))}` is missing")
    elif isinstance(kind, Error.Type):
        yield _of_another_type(kind.types, where, at(data, where), code)
    elif isinstance(kind, Error.Enum):
        options = [option for option in kind.options if isinstance(option, str)]
        value = at(data, where)
        hint = did_you_mean(value, options) if isinstance(value, str) else None
        listed = ", ".join(f"`{option}`" for option in options)
        yield Violation(code, where, f"`{shown(where)}` must be one of {listed}", None, hint)
    elif isinstance(kind, Error.OneOfNotValid | Error.OneOfMultipleValid | Error.AnyOf | Error.Not):
        yield _of_alternatives(kind, where, _schema_at(schema, error.schema_path), code)
    else:
        yield Violation(code, where, f"`{shown(where) or 'the object'}` {_in_words(kind)}")


def _place(path: list[str | int], data: Any) -> Where:
    """The path to a value, where a key of digits is a key, and no position."""
    where: list[str | int] = []
    for part in path:
        step = str(part) if isinstance(data, dict) else part
        where.append(step)
        data = at(data, (step,))
    return tuple(where)


def _unknown(name: str, where: Where, schema: Schema, code: str) -> Violation:
    known = sorted(schema.get("properties", {}))
    beside, instead = REMOVED.get(name, ("", ""))
    hint = f"Istio has given it up: {instead}" if beside in known else did_you_mean(name, known)
    if hint is None and 0 < len(known) <= _MOST_NAMES:
        hint = f"known are {', '.join(f'`{other}`' for other in known)}"
    around = f"`{shown(where)}`" if where else "the object"
    cause = "an API server stores the resource without it, and it means something else then"
    return Violation(code, (*where, name), f"{around} has no field `{name[:100]}`", cause, hint)


def _of_another_type(types: list[str], where: Where, value: Any, code: str) -> Violation:
    wanted = " or ".join(_TYPES[name] for name in types if name != "null")
    hint = None
    if "string" in types and isinstance(value, bool | int | float):
        what = "a truth value (so are `on`, `off`, `yes` and `no`)" if isinstance(value, bool) else "a number"
        hint = f"YAML reads it as {what}: write it in quotes"
    elif {"boolean", "integer", "number"} & set(types) and isinstance(value, str):
        hint = "it is a text: write it without quotes, if it has some"
    return Violation(code, where, f"`{shown(where) or 'the object'}` must be {wanted}", None, hint)


def _of_alternatives(kind: object, where: Where, schema: Any, code: str) -> Violation:
    names = list(dict.fromkeys(_required(schema)))
    listed = ", ".join(f"`{name}`" for name in names)
    subject = f"`{shown(where) or 'the object'}`"
    if not names:
        return Violation(code, where, f"{subject} has none of the forms that it may have")
    if isinstance(kind, Error.OneOfMultipleValid | Error.Not):
        return Violation(code, where, f"{subject} may have only one of {listed}")
    if isinstance(kind, Error.OneOfNotValid):
        return Violation(code, where, f"{subject} must have exactly one of {listed}")
    return Violation(code, where, f"{subject} must have one of {listed}")


def _required(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("required", ())
        for part in schema.values():
            yield from _required(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _required(part)


def _in_words(kind: object) -> str:
    for error, words in _BOUNDS.items():
        if isinstance(kind, error):
            return words.format(getattr(kind, "limit", ""))
    if isinstance(kind, Error.Pattern):
        return f"does not match `{kind.pattern}`"
    if isinstance(kind, Error.UniqueItems):
        return "has an entry twice"
    return f"breaks the rule `{getattr(kind, 'name', 'unknown')}` of its schema"


def _schema_at(schema: Any, path: list[str | int]) -> Any:
    for part in path:
        schema = schema[part]
    return schema
