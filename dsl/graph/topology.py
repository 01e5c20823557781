"""Topology files: the services and calls of a large application as JSON.

A topology becomes the same statements as in a program, so that the same checks apply to both.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NoReturn

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.json_type import Json, JsonObject, described
from dsl.program import Protocol
from dsl.syntax import hints, tree
from dsl.syntax.tokens import NAME
from dsl.text import SourceText, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DEPTH = 32
_NAME = re.compile(NAME)
_KEYS = {
    "topology": ("app", "source", "note", "externals", "services", "calls"),
    "service": (
        "name",
        "protocol",
        "port",
        "target",
        "ports",
        "replicas",
        "labels",
        "namespace",
        "capacity",
        "adm",
        "untrusted",
        "host_network",
        "note",  # a remark for readers
    ),
    "external": ("name", "protocol", "port", "ports", "hosts", "cidrs"),
    "port": ("name", "protocol", "port", "target"),
    "call": ("source", "destination", "port", "rate", "size"),
}


class _WrongError(Exception):
    """The topology has an error, with message, place and hint."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


class _Repeated(dict[str, Json]):
    """An object with a key that is given twice."""

    key = ""


def _object(pairs: list[tuple[str, Json]]) -> JsonObject:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    keys = [key for key, _ in pairs]
    repeated = _Repeated(members)
    repeated.key = next(key for key in keys if keys.count(key) > 1)
    return repeated


def _constant(text: str) -> NoReturn:
    raise ValueError(f"`{text}` is not a number")


def read_topology(source: SourceText, diagnostics: Diagnostics) -> list[tree.Statement] | None:
    """The statements of a topology file, or None after an error. Only the first error of a file is reported.

    Findings show lines of the file only if it has the fields of a topology, since other JSON may contain secrets. The
    message itself may quote an unknown key, or the beginning of a value of the wrong type.
    """
    try:
        data = json.loads(source.text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        at = min(error.pos, len(source.text))
        message = f"`{source.path}` is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        diagnostics.error("ADM506", message, Span(source.blank(), at, min(at + 1, len(source.text))))
        return None
    except RecursionError:
        diagnostics.error("ADM506", f"`{source.path}` is nested too deeply", Span(source.blank(), 0, 0))
        return None
    except ValueError as error:
        message = str(error) if str(error).startswith("`") else "a number in it has too many digits"
        diagnostics.error("ADM506", f"`{source.path}` is not valid JSON: {message}", Span(source.blank(), 0, 0))
        return None
    statements: list[tree.Statement] = []
    reader = _Topology(source, diagnostics)
    before = diagnostics.errors
    try:
        statements.extend(reader.statements(data))
    except _WrongError as wrong:
        diagnostics.error("ADM507", wrong.message, wrong.span, hint=wrong.hint)
    return statements if diagnostics.errors == before else None


class _Places:
    """Finds the places of a key's values, in the order of the file."""

    def __init__(self, source: SourceText, array: str, key: str | None = None) -> None:
        self.source = source
        heading = re.search(rf'"{array}"\s*:\s*\[', source.text)
        self.array = Span(source, heading.start(), heading.end()) if heading else Span(source, 0, 0)
        # Externals may be plain strings: without a key, the place is the next string with that value.
        start = "" if key is None else rf'"{key}"\s*:\s*'
        self._next = re.compile(rf'{start}"((?:[^"\\]|\\.)*)"').finditer(source.text, self.array.end)

    def next(self, value: str) -> Span:
        for string in self._next:
            if string[1] == value:
                return Span(self.source, *string.span(1))
        return self.array


class _Topology:
    def __init__(self, source: SourceText, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics

    def statements(self, data: Json) -> Iterator[tree.Statement]:
        services, externals, calls = self._top(data)
        places = _Places(self.source, "externals")
        for item in externals:
            yield self._external({"name": item} if isinstance(item, str) else item, places)
        places = _Places(self.source, "services", "name")
        for item in services:
            yield self._service(item, places)
        sources = _Places(self.source, "calls", "source")
        destinations = _Places(self.source, "calls", "destination")
        for item in calls:
            yield self._call(item, sources, destinations)

    # ---- shapes ----

    def _top(self, data: Json) -> tuple[Sequence[Json], Sequence[Json], Sequence[Json]]:
        try:
            top = self._fields(data, "topology", Span(self.source, 0, 0))
            return self._array(top, "services"), self._array(top, "externals"), self._array(top, "calls")
        except _WrongError as wrong:
            wrong.span = wrong.span._replace(source=self.source.blank())
            raise

    def _fields(self, data: Json, what: str, span: Span) -> JsonObject:
        article = "an" if what == "external" else "a"
        if not isinstance(data, dict):
            shown = "" if what == "topology" else f", not {described(data)}"
            raise _WrongError(f"{article} {what} is an object `{{...}}`{shown}", span)
        if isinstance(data, _Repeated):
            raise _WrongError(f"`{data.key[:60]}` is given twice in one object", span)
        known = _KEYS[what]
        for key in data:
            if key not in known:
                hint = self.diagnostics.did_you_mean(key, known) or "known are " + ", ".join(
                    f"`{name}`" for name in known
                )
                raise _WrongError(f"{article} {what} has no `{key[:60]}`", span, hint)
        return data

    def _array(self, data: JsonObject, key: str) -> Sequence[Json]:
        value = data.get(key, [])
        if not isinstance(value, list):
            raise _WrongError(f"`{key}` is a list, not {described(value)}", _Places(self.source, key).array)
        return value

    def _name(self, data: JsonObject, key: str, places: _Places) -> tree.Word:
        value = data.get(key)
        if not isinstance(value, str):
            shown = "is missing" if value is None else f"is {described(value)}, not a name"
            raise _WrongError(f"`{key}` {shown}", places.array)
        span = places.next(value)
        if not _NAME.fullmatch(value):
            raise _WrongError(
                f"`{value[:60]}` is not a name", span, "a name has letters, digits and `_`, and `-` between them"
            )
        return tree.Word(value, span)

    # ---- statements ----

    def _service(self, item: Json, places: _Places) -> tree.Service:
        data = self._fields(item, "service", places.array)
        word = self._name(data, "name", places)
        span = word.span
        items: list[tree.BodyItem] = list(self._ports(data, span))
        items.extend(
            tree.Attribute(key, self._number(data, key, span), span) for key in ("replicas", "capacity") if key in data
        )
        if "namespace" in data:
            items.append(tree.Attribute("namespace", tree.Word(self._text(data, "namespace", span), span), span))
        if "labels" in data:
            items.append(self._labels(data["labels"], span))
        for key, flag, when in (
            ("adm", "no adm", False),
            ("untrusted", "untrusted", True),
            ("host_network", "host_network", True),
        ):
            if key in data:
                if not isinstance(data[key], bool):
                    raise _WrongError(f"`{key}` is `true` or `false`, not {described(data[key])}", span)
                if data[key] is when:
                    items.append(tree.Flag(flag, span))
        return tree.Service((word,), tuple(items), span)

    def _external(self, item: Json, places: _Places) -> tree.External:
        data = self._fields(item, "external", places.array)
        word = self._name(data, "name", places)
        items: list[tree.BodyItem] = list(self._ports(data, word.span))
        for key in ("hosts", "cidrs"):
            for value in self._array(data, key):
                if not isinstance(value, str):
                    raise _WrongError(f"`{key}` lists strings, not {described(value)}", word.span)
                items.append(tree.Attribute(key[:-1], tree.String(value, word.span), word.span))
        return tree.External((word,), tuple(items), word.span)

    def _ports(self, data: JsonObject, span: Span) -> Iterator[tree.PortItem]:
        if "ports" in data:
            if "port" in data or "protocol" in data:
                raise _WrongError("`ports` and a single `port` contradict each other", span, "keep one of them")
            for item in self._array(data, "ports"):
                yield self._port(self._fields(item, "port", span), span)
        elif "port" in data or "protocol" in data:
            yield self._port({key: data[key] for key in ("protocol", "port", "target") if key in data}, span)

    def _port(self, data: JsonObject, span: Span) -> tree.PortItem:
        protocol = self._text(data, "protocol", span)
        known = [value.value for value in Protocol]
        if protocol not in known:
            hint = (
                hints.protocol(protocol)
                or self.diagnostics.did_you_mean(protocol, known)
                or "protocols are `tcp`, `http` and `grpc`"
            )
            raise _WrongError(f"there is no protocol `{protocol[:60]}`", span, hint)
        name = None
        if data.get("name") is not None:
            name = tree.Word(self._text(data, "name", span), span)
            if not _NAME.fullmatch(name.text):
                raise _WrongError(f"`{name.text[:60]}` is not a name", span)
        target = self._number(data, "target", span) if "target" in data else None
        return tree.PortItem(tree.Word(protocol, span), name, self._number(data, "port", span), target, span)

    def _labels(self, data: Json, span: Span) -> tree.Labels:
        if not isinstance(data, dict) or isinstance(data, _Repeated):
            raise _WrongError("`labels` is an object of strings, each key once", span)
        labels: list[tree.Label] = []
        for key, value in data.items():
            if not isinstance(value, str):
                hint = None if value is not None else "if the value is the name of the service, write that name"
                raise _WrongError(f"label `{key[:60]}` is a string, not {described(value)}", span, hint)
            labels.append(tree.Label(key, value, span))
        return tree.Labels(tuple(labels), span)

    def _call(self, item: Json, sources: _Places, destinations: _Places) -> tree.Call:
        data = self._fields(item, "call", sources.array)
        source = self._name(data, "source", sources)
        destination = self._name(data, "destination", destinations)
        span = destination.span
        port: tree.Word | tree.Number | None = None
        given = data.get("port")
        if isinstance(given, str):
            port = tree.Word(given, span)
        elif "port" in data:
            port = self._number(data, "port", span)
        items: list[tree.Attribute] = []
        for key, unit in (("rate", "/s"), ("size", "B")):
            if key in data:
                items.append(tree.Attribute(key, self._quantity(data, key, unit, span), span))
        return tree.Call((source,), (tree.Reference(destination, port, span),), tuple(items), span)

    # ---- scalars ----

    def _text(self, data: JsonObject, key: str, span: Span) -> str:
        value = data.get(key)
        if not isinstance(value, str):
            shown = "is missing" if value is None else f"is a string, not {described(value)}"
            raise _WrongError(f"`{key}` {shown}", span)
        return value

    def _number(self, data: JsonObject, key: str, span: Span) -> tree.Number:
        value = data.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            shown = "is missing" if value is None else f"is a number, not {described(value)}"
            raise _WrongError(f"`{key}` {shown}", span)
        return tree.Number(_digits(value), span)

    def _quantity(self, data: JsonObject, key: str, unit: str, span: Span) -> tree.Number:
        """A rate or a size: a plain number (requests a second, bytes), or a string with a unit."""
        value = data[key]
        if isinstance(value, str):
            return tree.Number(value, span)
        return tree.Number(self._number(data, key, span).text + unit, span)


def _digits(value: int | float) -> str:
    """A number as the language writes it: below 10^20 without an exponent, and with 12 digits after the point at
    most."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e20:
        return str(int(value))
    return f"{value:.12f}".rstrip("0").rstrip(".") if abs(value) < 1e20 else repr(value)
