"""JSON with a place for each value, so that an error in a profile points at its line.

The reader is strict: no key twice, no `NaN` or `Infinity`, numbers as exact decimals, and limits on length, depth and
the number of values, since a profile may come from a stranger.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from dsl.text import SourceText, Span

MAX_CHARACTERS: Final = 4_000_000
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 100_000
MAX_DIGITS: Final = 40
MAX_EXPONENT: Final = 9999
"""Decimals have a largest exponent, too; a figure of a profile is far below this one."""
BYTE_ORDER_MARK: Final = "\ufeff"
"""Some editors begin a file with it."""
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE](?P<exponent>[+-]?[0-9]+))?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_WORD: Final = re.compile(r"-?[A-Za-z_][A-Za-z_0-9]*")
_CONSTANTS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None}


class JsonError(Exception):
    """The text is not valid JSON at a place."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


class Node(NamedTuple):
    """A value with its place. Objects and arrays hold nodes; `keys` are the places of an object's keys."""

    value: dict[str, Node] | list[Node] | str | Decimal | bool | None
    span: Span
    keys: Mapping[str, Span] = {}


def parse(source: SourceText) -> Node:
    """The document. Raises `JsonError` at the first mistake."""
    return _Parser(source).document()


class _Parser:
    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.text = source.text
        self.at = len(BYTE_ORDER_MARK) if source.text.startswith(BYTE_ORDER_MARK) else 0
        self.values = 0

    def document(self) -> Node:
        if len(self.text) > MAX_CHARACTERS:
            raise self._error(f"it has more than {MAX_CHARACTERS:,} characters", 0)
        found = self._value(0)
        self._blanks()
        if self.at < len(self.text):
            raise self._error("more text follows the document", self.at)
        return found

    def _blanks(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        self.at = self.at if found is None else found.end()

    def _error(self, message: str, start: int, end: int | None = None) -> JsonError:
        length = len(self.text)
        return JsonError(message, Span(self.source, min(start, length), min(length, start + 1 if end is None else end)))

    def _value(self, depth: int) -> Node:
        self._blanks()
        self.values += 1
        start = self.at
        if self.values > MAX_VALUES:
            raise self._error(f"it has more than {MAX_VALUES:,} values", start)
        if depth > MAX_DEPTH:
            raise self._error(f"it is nested deeper than {MAX_DEPTH} levels", start)
        first = self.text[start : start + 1]
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        if first == '"':
            value = self._string()
            return Node(value, Span(self.source, start, self.at))
        number = _NUMBER.match(self.text, start)
        if number is not None:
            return self._number(number)
        word = _WORD.match(self.text, start)
        if word is None:
            raise self._error("a value is missing here", start)
        if word[0] not in _CONSTANTS:
            raise self._error(f"`{word[0][:40]}` is no JSON value", start, word.end())
        self.at = word.end()
        return Node(_CONSTANTS[word[0]], Span(self.source, start, self.at))

    def _number(self, found: re.Match[str]) -> Node:
        if len(found[0]) > MAX_DIGITS:
            raise self._error(f"this number has more than {MAX_DIGITS} characters", *found.span())
        if abs(int(found["exponent"] or 0)) > MAX_EXPONENT:
            raise self._error(f"the exponent of this number is beyond {MAX_EXPONENT}", *found.span())
        self.at = found.end()
        if _WORD.match(self.text, self.at) is not None:
            raise self._error("this is no number", found.start(), self.at + 1)
        return Node(Decimal(found[0]), Span(self.source, *found.span()))

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self._error("this string is not closed, or has a character that JSON does not allow", self.at)
        self.at = found.end()
        return str(json.loads(found[0]))

    def _follows(self, sign: str) -> bool:
        """Whether `sign` is next; if so it is passed."""
        self._blanks()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += 1
        return True

    def _object(self, depth: int) -> Node:
        start = self.at
        self.at += 1
        values: dict[str, Node] = {}
        keys: dict[str, Span] = {}
        while not (not values and self._follows("}")):
            self._blanks()
            at = self.at
            if not self.text.startswith('"', at):
                raise self._error('a key `"..."` is missing here', at)
            key = self._string()
            if key in keys:
                raise self._error(f"`{key[:60]}` is given twice in one object", at, self.at)
            keys[key] = Span(self.source, at, self.at)
            if not self._follows(":"):
                raise self._error("`:` is missing here", self.at)
            values[key] = self._value(depth + 1)
            if self._follows("}"):
                break
            if not self._follows(","):
                raise self._error("`,` or `}` is missing here", self.at)
        return Node(values, Span(self.source, start, self.at), keys)

    def _array(self, depth: int) -> Node:
        start = self.at
        self.at += 1
        values: list[Node] = []
        while not (not values and self._follows("]")):
            values.append(self._value(depth + 1))
            if self._follows("]"):
                break
            if not self._follows(","):
                raise self._error("`,` or `]` is missing here", self.at)
        return Node(values, Span(self.source, start, self.at))
