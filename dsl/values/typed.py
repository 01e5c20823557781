"""Arguments of policies: conversion of the written values to the types of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.reading import Reader
from dsl.graph.application import Application, the_port
from dsl.program import FileArgument, ParameterType, Value
from dsl.syntax import tree
from dsl.values.contents import FORMATS
from dsl.values.headers import HOP_BY_HOP, header_name
from dsl.values.paths import InvalidPath, check_path
from dsl.values.placeholders import placeholder_in_path
from dsl.vocabulary import other_meshes

if TYPE_CHECKING:
    from dsl.text import Span

SCALARS = (
    "int",
    "float",
    "bool",
    "string",
    "duration",
    "size",
    "percent",
    "header",
    "path",
    "service",
    "caller",
    "file",
)
MAX_STRING = 65_536
MAX_PATH = 4_096
_EXAMPLES = {
    "int": "a whole number such as `10`",
    "float": "a number such as `0.5`",
    "bool": "`true` or `false`",
    "string": 'a string such as `"text"`',
    "duration": "a duration such as `250ms`",
    "size": "a size such as `4KB`",
    "percent": "a percentage such as `10%`",
    "header": 'a header name such as `"x-tier"`',
    "path": 'a path of requests such as `"/old"`',
    "service": "the name of a service",
    "caller": "the name of a service or external",
    "file": 'a path such as `"keys.json"`',
}


T = TypeVar("T")


class Invalid:
    """Marks a value with an error that has been reported, or that the context cannot resolve."""


INVALID: Final = Invalid()


@dataclass(frozen=True)
class Context:
    """The names that values may refer to. Without an application, names of services cannot be resolved yet; without a
    reader, files cannot be."""

    diagnostics: Diagnostics
    reader: Reader | None = None
    application: Application | None = None


def describe(type_: ParameterType) -> str:
    """The values of a type, for a message."""
    if type_.name == "list":
        element = type_.element
        return "a list" if element is None else f"a list `[...]`, each item {describe(element)}"
    if type_.name == "one_of":
        return "one of " + ", ".join(f"`{word}`" for word in type_.items)
    return _EXAMPLES[type_.name]


def convert(value: tree.Value, type_: ParameterType, context: Context) -> Value | Invalid:
    """The value in the program's units (see `dsl.program`), or `INVALID` after an error. It is also `INVALID`, without
    a message, if the context lacks the reader or the application that the value needs."""
    if type_.name == "list":
        return _list(value, type_, context)
    if isinstance(value, tree.Number):
        return _number(value, type_, context)
    if isinstance(value, tree.String):
        return _string(value, type_, context)
    if isinstance(value, tree.Reference):
        return _reference(value, type_, context)
    return _mismatch(value, type_, context, "a list")


def _mismatch(
    value: tree.Value, type_: ParameterType, context: Context, given: str, hint: str | None = None
) -> Invalid:
    shown = value.span.text if len(value.span.text) <= 40 else value.span.text[:37] + "..."
    context.diagnostics.error(
        "ADM201", f"{describe(type_)} is expected, but `{shown}` is {given}", value.span, hint=hint
    )
    return INVALID


def _list(value: tree.Value, type_: ParameterType, context: Context) -> Value | Invalid:
    if not isinstance(value, tree.ListValue):
        return _mismatch(value, type_, context, "a single value", f"write `[{_items(value, type_.element)}]`")
    element = type_.element
    if element is None:
        return INVALID
    items: list[Value] = []
    bad = False
    for item in value.items:
        converted = convert(item, element, context)
        if isinstance(converted, Invalid):
            bad = True
        elif converted in items:
            context.diagnostics.error("ADM206", f"`{item.span.text[:60]}` is in the list twice", item.span)
            bad = True
        else:
            items.append(converted)
    return INVALID if bad else tuple(items)


def _items(value: tree.Value, element: ParameterType | None) -> str:
    """Return the items of a list with this value, for a hint. A string of several words, which other meshes accept
    (`"5xx,reset"`), becomes several items."""
    if element is None or element.name != "one_of":
        return value.span.text
    text = value.value if isinstance(value, tree.String) else value.span.text
    words = [other_meshes.word(part.strip(), element.items) for part in text.split(",")]
    return ", ".join(word for word in words if word is not None) if all(words) else value.span.text


def _number(value: tree.Number, type_: ParameterType, context: Context) -> Value | Invalid:
    name = type_.name
    result: int | float | units.BadNumber
    if name == "int":
        low = units.LARGEST * -1 if type_.low is None else int(type_.low)
        high = units.LARGEST if type_.high is None else int(type_.high)
        result = units.integer(value.text, low, high)
    elif name == "float":
        result = units.decimal(
            value.text,
            -units.LARGEST if type_.low is None else type_.low,
            units.LARGEST if type_.high is None else type_.high,
        )
    elif name == "duration":
        result = units.duration(value.text)
    elif name == "size":
        result = units.size(value.text)
    elif name == "percent":
        result = units.percent(value.text)
    else:
        hint = f'put it in quotes: `"{value.text}"`' if name in ("string", "header", "path") else None
        word = other_meshes.word(value.text, type_.items)
        return _mismatch(value, type_, context, "a number", hint if word is None else f"did you mean `{word}`?")
    if isinstance(result, units.BadNumber):
        context.diagnostics.error(result.code, result.message, value.span, hint=result.hint)
        return INVALID
    return _within(result, result, value, type_, context)


def _within(
    converted: T, measured: float, value: tree.Number | tree.String, type_: ParameterType, context: Context
) -> T | Invalid:
    """The value, if it is in the range that its parameter declares."""
    meant = units.outside(type_.name, measured, type_.low, type_.high, type_.step)
    if meant is None:
        return converted
    shown = value.span.text if len(value.span.text) <= 40 else value.span.text[:37] + "..."
    what = "the parameter takes" if type_.name != "string" else "the parameter takes a string of"
    context.diagnostics.error("ADM203", f"`{shown}` is out of range", value.span, hint=f"{what} {meant}")
    return INVALID


def _string(value: tree.String, type_: ParameterType, context: Context) -> Value | Invalid:
    name = type_.name
    text = value.value
    if name == "string":
        if len(text) > MAX_STRING:
            context.diagnostics.error("ADM203", f"a string has at most {MAX_STRING} characters", value.span)
            return INVALID
        return _within(text, len(text.encode()), value, type_, context)
    if name == "path":
        return _path(value, context)
    if name == "header":
        named = header_name(value, context.diagnostics, HOP_BY_HOP)
        return INVALID if named is None else named
    if name == "one_of":
        return _choice(text, value.span, type_, context)
    if name == "file":
        return _file(value, type_, context)
    hint = None
    if units.without_unit(text) != text or text.isdigit():
        hint = f"write it without quotes: `{text[:40]}`"
    elif name in ("service", "caller", "bool"):
        hint = "write names without quotes"
    return _mismatch(value, type_, context, "a string", hint)


def shown(text: str) -> str:
    """The beginning of a text on one line, for a message."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:60])


def _path(value: tree.String, context: Context) -> Value | Invalid:
    text = value.value
    wrong = check_path(text)
    if wrong is None and len(text) <= MAX_PATH:
        filled = placeholder_in_path(text)
        if filled is None:
            return text
        context.diagnostics.error("ADM222", filled.message, value.span, cause=filled.cause, hint=filled.hint)
        return INVALID
    message = f"`{shown(text)}` is not a path of requests"
    if wrong is None:
        message, wrong = f"a path has at most {MAX_PATH} characters here", InvalidPath("", "write a shorter one")
    context.diagnostics.error("ADM213", message, value.span, cause=wrong.cause or None, hint=wrong.hint)
    return INVALID


def _file(value: tree.String, type_: ParameterType, context: Context) -> Value | Invalid:
    if context.reader is None:
        return INVALID
    path = context.reader.resolve(value.value, value.span)
    if path is None:
        return INVALID
    content = context.reader.content(path, value.span)
    if content is None:
        return INVALID
    for format_ in type_.items:
        what, check = FORMATS[format_]
        problem = check(content)
        if problem is not None:
            context.diagnostics.error(
                problem.code, f"`{path}` cannot be used as {what}: {problem.message}", value.span, hint=problem.hint
            )
            return INVALID
    return FileArgument(path, content)


def _choice(word: str, span: Span, type_: ParameterType, context: Context) -> Value | Invalid:
    if word in type_.items:
        return word
    meant = other_meshes.word(word[:60], type_.items)
    context.diagnostics.error(
        "ADM209",
        f"`{word[:60]}` is not one of the words of this parameter",
        span,
        cause=describe(type_) + " is expected",
        hint=context.diagnostics.did_you_mean(word, type_.items) if meant is None else f"did you mean `{meant}`?",
    )
    return INVALID


def _reference(value: tree.Reference, type_: ParameterType, context: Context) -> Value | Invalid:
    name = type_.name
    word = value.name.text
    if value.port is not None and name != "service":
        return _mismatch(value, type_, context, "a name with a port")
    if name == "bool" and word in ("true", "false"):
        return word == "true"
    if name == "one_of":
        return _choice(word, value.span, type_, context)
    if name in ("service", "caller"):
        return _callee(value, context) if name == "service" else _caller(value, context)
    hint = f'put it in quotes: `"{word}"`' if name in ("string", "header", "path", "file") else None
    if name == "bool":
        hint = context.diagnostics.did_you_mean(word, ("true", "false"))
    return _mismatch(value, type_, context, "a name", hint)


def _caller(value: tree.Reference, context: Context) -> Value | Invalid:
    application = context.application
    if application is None or not application.known(value.name, context.diagnostics):
        return INVALID
    return value.name.text


def _callee(value: tree.Reference, context: Context) -> Value | Invalid:
    application = context.application
    if application is None or not application.known(value.name, context.diagnostics):
        return INVALID
    port = the_port(application, value, context.diagnostics)
    if port is None:
        return INVALID
    return value.name.text if value.port is None else f"{value.name.text}:{port.number}"
