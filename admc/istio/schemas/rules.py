"""The rules in CEL of custom resources, which an API server evaluates after the schema.

Values have their defaults then, as in an API server. A rule about changes is not in the data file.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from admc.istio.schemas.identity import Identity
from admc.istio.schemas.violation import Violation, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.manifests.documents import Where

    Schema = dict[str, Any]

RULES: Final = "x-kubernetes-validations"
_RESERVED: Final = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
"""Names of fields that a rule writes with `__` around them."""
_REMEMBERED: Final = 1 << 14
MAX_EFFORT: Final = 2_000_000
"""Of one run; a unit takes some 0.1 ms."""
_ALL: Final = re.compile(r"\bself\b(?!\.\w+\b(?!\())")
"""The value itself, or a function of it, such as `self.all(...)`."""
_FIELD: Final = re.compile(r"\bself\.(\w+)")
_ASKED: Final = re.compile(r"\bhas\(self\.(\w+)\)")
_ITERATION: Final = re.compile(r"self\.(?:all|exists|exists_one|filter|map)\(")
_TOO_MUCH: Final = "the lists of these resources are too long and too many: the time for rules is used up"
_LESS: Final = "read fewer resources at a time"
_SHORT: Final = 1_000
"""Characters of a value whose result is remembered."""


class Effort:
    """How much may still be evaluated: a rule that compares all entries of a list takes their number squared."""

    def __init__(self, left: int = MAX_EFFORT) -> None:
        self.left = left

    def spend(self, rule: str, data: Any) -> bool:
        """Whether enough is left."""
        entries = len(data) if isinstance(data, dict | list) else 1
        self.left -= max(entries, 1) ** max(len(_ITERATION.findall(rule)), 1) if entries > 1 else 1
        return self.left >= 0


def broken_rules(data: Any, schema: Schema, effort: Effort) -> Iterator[Violation]:
    """The rules that an object breaks. It has to fit its schema, and to have its defaults."""
    yield from _broken(data, schema, (), effort)


def _broken(data: Any, schema: Schema, where: Where, effort: Effort) -> Iterator[Violation]:
    if data is None or not has_rules(schema):
        return
    for rule in schema.get(RULES, ()):
        if not effort.spend(rule["rule"], data):
            yield Violation("ADM913", where, f"`{shown(where)}`: its rules are not evaluated", _TOO_MUCH, _LESS)
            return
        problem = _problem(rule["rule"], data, schema)
        if problem is not None:
            yield Violation("ADM913", where, _message(rule, where), problem or None)
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    if isinstance(data, dict):
        for name, value in data.items():
            inner = properties.get(name, others)
            if isinstance(inner, dict):
                yield from _broken(value, inner, (*where, name), effort)
    elif isinstance(data, list) and isinstance(schema.get("items"), dict):
        for index, value in enumerate(data):
            yield from _broken(value, schema["items"], (*where, index), effort)


def _message(rule: dict[str, str], where: Where) -> str:
    words = rule.get("message") or f"the rule `{rule['rule']}` does not hold"
    is_word = words[1:2].islower()
    return f"`{shown(where)}`: {words[0].lower() if is_word else words[0]}{words[1:].rstrip('.')}"


def _problem(rule: str, data: Any, schema: Schema) -> str | None:
    """None if a rule holds; why it cannot be evaluated; empty if it is false."""
    text = json.dumps(_read_by(rule, _escaped(data, schema)))
    return _of_text(rule, text) if len(text) <= _SHORT else _evaluated(rule, text)


def _read_by(rule: str, data: Any) -> Any:
    """The part of a value that a rule reads. Many resources differ in names and labels alone, which few rules read."""
    fields = _fields_read(rule)
    if fields is None or not isinstance(data, dict):
        return data
    whole, present = fields
    made = {name: data[name] for name in whole if name in data}
    # Of a field that is asked for by `has` alone, the value does not count, but that it is there, and not null.
    return {**made, **{name: data[name] is not None or None for name in present if name in data}}


@cache
def _fields_read(rule: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The fields that a rule reads, and those of which it asks only whether they are there. None if it reads all."""
    if _ALL.search(rule):
        return None
    read, asked = Counter(_FIELD.findall(rule)), Counter(_ASKED.findall(rule))
    whole = tuple(sorted(name for name, number in read.items() if number > asked[name]))
    return whole, tuple(sorted(read.keys() - set(whole)))


@lru_cache(maxsize=_REMEMBERED)
def _of_text(rule: str, text: str) -> str | None:
    """Many resources have the same timeouts, ports, parents and filters, and a rule takes milliseconds."""
    return _evaluated(rule, text)


def _evaluated(rule: str, text: str) -> str | None:
    try:
        holds = program(rule).evaluate({"self": json_to_cel(json.loads(text))})
    except CELEvalError as error:
        return f"the rule cannot be evaluated: {_first_line(error)}"
    return None if holds else ""


def _first_line(error: CELEvalError) -> str:
    return str(error.args[0]).splitlines()[0][:200] if error.args else "no reason is given"


def has_rules(schema: Schema) -> bool:
    """Whether a schema, or one in it, has rules."""
    return _has_rules(Identity(schema))


@cache
def _has_rules(key: Identity) -> bool:
    schema = key.schema
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return bool(schema.get(RULES)) or any(isinstance(part, dict) and has_rules(part) for part in inner)


def with_defaults(data: Any, schema: Schema) -> Any:
    """An object with the defaults of its schema, which rules count on."""
    if isinstance(data, dict):
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        made = {}
        for name, value in data.items():
            inner = properties.get(name, others)
            made[name] = with_defaults(value, inner) if isinstance(inner, dict) else value
        for name, inner in properties.items():
            if name not in made and "default" in inner:
                made[name] = with_defaults(inner["default"], inner)
        return made
    if isinstance(data, list) and isinstance(schema.get("items"), dict):
        return [with_defaults(value, schema["items"]) for value in data]
    return data


def _escaped(data: Any, schema: Schema) -> Any:
    """The names of fields as rules write them; the keys of a map stay."""
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    if isinstance(data, dict):
        return {
            f"__{name}__" if name in _RESERVED and name in properties else name: _escaped(
                value, inner if isinstance(inner := properties.get(name, others), dict) else {}
            )
            for name, value in data.items()
        }
    if isinstance(data, list):
        inner = schema.get("items")
        return [_escaped(value, inner if isinstance(inner, dict) else {}) for value in data]
    return data


@cache
def program(rule: str) -> Any:
    """A compiled rule."""
    environment = celpy.Environment()
    return environment.program(environment.compile(rule), functions=_FUNCTIONS)


# What an API server has beyond the standard library of CEL, as far as the rules use it.


def _is_url(text: celtypes.StringType) -> celtypes.BoolType:
    return celtypes.BoolType(_absolute(str(text)))


def _absolute(text: str) -> bool:
    """Whether Go parses it as the URI of a request: absolute, or a path from the root."""
    if not text or any(ord(letter) < ord(" ") or ord(letter) == 0x7F for letter in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme and (parts.netloc or parts.path.startswith("/")))


def _url(text: celtypes.StringType) -> celtypes.StringType:
    if not _absolute(str(text)):
        raise ValueError("it is no URL")
    return text


def _scheme(url: celtypes.StringType) -> celtypes.StringType:
    return celtypes.StringType(urlsplit(str(url)).scheme)


def _is_ip(text: celtypes.StringType) -> celtypes.BoolType:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return celtypes.BoolType(False)
    return celtypes.BoolType(True)


def _substring(text: celtypes.StringType, start: Any, end: Any = None) -> celtypes.StringType:
    last = len(text) if end is None else int(end)
    if not 0 <= int(start) <= last <= len(text):
        raise IndexError("it is outside of the text")
    return celtypes.StringType(str(text)[int(start) : last])


def _split(text: celtypes.StringType, separator: celtypes.StringType) -> celtypes.ListType:
    return celtypes.ListType([celtypes.StringType(part) for part in str(text).split(str(separator))])


_FUNCTIONS: Final[dict[str, Any]] = {
    "isURL": _is_url,
    "url": _url,
    "getScheme": _scheme,
    "isIP": _is_ip,
    "substring": _substring,
    "split": _split,
}
