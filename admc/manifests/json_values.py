"""Reads JSON by Python's own parser, which takes a tenth of the time of a parser of YAML.

It knows no place but that of an object in a list. So a text that is no JSON, has a key twice or exceeds a bound gives
nothing here: the reader of YAML reads it again, and says where the mistake is.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, Final, NoReturn

from admc.manifests.bounds import MAX_DEPTH
from admc.manifests.slices import ITEMS, Slice
from admc.manifests.yaml_values import Read

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.manifests.bounds import Budget
    from admc.manifests.yaml_values import Keep

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 64) - 1
_DIGITS: Final = 20


class _UnlikeError(Exception):
    """The text is no JSON that both readers read alike."""


def read_json(text: str, budget_of_object: Callable[[], Budget], keep: Keep) -> list[Read] | None:
    """The documents of a stream of JSON objects; None if the reader of YAML has to read it."""
    at = _after_blanks(text, 0)
    if not text.startswith("{", at):
        return None
    documents = []
    try:
        while at < len(text):
            read, end = _document(text, at, budget_of_object, keep)
            documents.append(read)
            at = _after_blanks(text, end)
    except (ValueError, RecursionError, _UnlikeError, IndexError):
        return None
    return documents


def _document(text: str, start: int, budget_of_object: Callable[[], Budget], keep: Keep) -> tuple[Read, int]:
    """Read one object, and those of its list one by one. Returns the place after it, too."""
    if text[start] != "{":
        raise _UnlikeError
    fields: dict[str, Any] = {}
    items: list[Slice] = []
    budget = budget_of_object()
    at = _after_blanks(text, start + 1)
    while text[at] != "}":
        if text[at] != '"':
            raise _UnlikeError
        key, at = scanstring(text, at + 1, True)
        at = _after_blanks(text, at)
        if text[at] != ":" or key in fields:
            raise _UnlikeError
        at = _after_blanks(text, at + 1)
        if key == ITEMS and text[at] == "[":
            fields[key], at = _objects(text, at, items, budget_of_object, keep)
        else:
            fields[key], at = _value(text, at, 2, budget)
        budget.values -= 2
        budget.characters -= len(key)
        at = _after_comma(text, at, "}")
    return Read(fields, start, tuple(items)), at + 1


def _objects(
    text: str, at: int, items: list[Slice], budget_of_object: Callable[[], Budget], keep: Keep
) -> tuple[list[Any], int]:
    listed = []
    at = _after_blanks(text, at + 1)
    while text[at] != "]":
        data, end = _value(text, at, 3, budget_of_object())
        listed.append(keep(data))
        items.append(Slice(at, end))
        at = _after_comma(text, end, "]")
    return listed, at + 1


def _after_comma(text: str, at: int, closing: str) -> int:
    """The place of what follows: another element, or the end."""
    at = _after_blanks(text, at)
    if text[at] == closing:
        return at
    if text[at] != ",":
        raise _UnlikeError
    at = _after_blanks(text, at + 1)
    if text[at] == closing:
        raise _UnlikeError
    return at


def _value(text: str, at: int, depth: int, budget: Budget) -> tuple[Any, int]:
    data, end = _DECODER.raw_decode(text, at)
    # Half of a character, which JSON can escape, is no text for any other reader.
    _check(data, depth, budget, may_be_half="\\u" in text[at:end])
    return data, end


def _check(data: Any, depth: int, budget: Budget, *, may_be_half: bool) -> None:
    """Raises `_UnlikeError` for values beyond a bound, and numbers that Kubernetes reads in another way."""
    level = [data]
    values = characters = 0
    while level:
        if depth > MAX_DEPTH and any(isinstance(value, dict | list) for value in level):
            raise _UnlikeError
        values += len(level)
        inner: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is str:
                characters += len(value)
                if may_be_half:
                    value.encode()  # a `UnicodeEncodeError` is a `ValueError`
            elif kind is dict:
                values += len(value)
                characters += sum(map(len, value))
                if may_be_half:
                    "".join(value).encode()
                inner += value.values()
            elif kind is list:
                inner += value
            elif kind is int and not _LOWEST <= value <= _HIGHEST:
                raise _UnlikeError
        level = inner
        depth += 1
    budget.values -= values
    budget.characters -= characters
    if budget.is_spent:
        raise _UnlikeError


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _UnlikeError
    return fields


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise _UnlikeError
    return int(digits)


def _fraction(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise _UnlikeError
    return value


def _no_number(_word: str) -> NoReturn:
    raise _UnlikeError


def _after_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_no_number
)
