"""Parses JSON with numbers as they are written, within limits that no file written by a person exceeds.

text -> [parse] -> lists, dictionaries, texts, whole numbers, decimals | JsonError with its place
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Final, NoReturn

from dsl.documents.json_text import STRING, shown_key

MAX_CHARACTERS: Final = 4_000_000
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 100_000
MAX_DIGITS: Final = 40
MAX_EXPONENT: Final = 9999
"""The largest exponent of a number: decimals of Python have a limit, too."""
_BYTE_ORDER_MARK: Final = "\ufeff"
"""Some editors begin a file with it."""
_TOKEN: Final = re.compile(
    rf"(?P<string>{STRING})[ \t\r\n]*+(?P<colon>:)?"
    r"|(?P<begin>[\[{])|(?P<end>[\]}])|(?P<word>[^\s\[\]{},:\"]++)",
    re.DOTALL,
)
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, which may not be closed."""
_EXPONENT: Final = re.compile(r"[eE][+-]?0*([0-9]+)$")
_HALF: Final = re.compile("[\ud800-\udfff]")
_MAX_WHOLE: Final = 18


class JsonError(Exception):
    """A text that is no JSON, or beyond a limit. `range`: the first wrong character, and the one after the last."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.range = start, end


class _WordError(Exception):
    """A number or word that is refused. Its place is unknown: the parser passes on the text only."""

    def __init__(self, word: str, message: str) -> None:
        super().__init__(message)
        self.word = word
        self.message = message


def without_mark(text: str) -> str:
    """The text with a blank for its byte order mark, if it has one."""
    return f" {text[1:]}" if text.startswith(_BYTE_ORDER_MARK) else text


def parse(text: str) -> object:
    """The value of a document. Raises `JsonError` at the first mistake."""
    if len(text) > MAX_CHARACTERS:
        raise JsonError(f"it has more than {MAX_CHARACTERS:,} characters", 0, 1)
    text = without_mark(text)
    try:
        value: object = json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_refused)
    except json.JSONDecodeError as error:
        raise _syntax(text, error) from None
    except _WordError as error:
        tokens = (token for token in _TOKEN.finditer(text) if (token["word"] or "").startswith(error.word))
        start = next(tokens).start()
        raise JsonError(error.message, start, start + len(error.word)) from None
    except RecursionError:
        pass
    else:
        _check_tokens(text)
        return value
    _check_tokens(text)
    raise JsonError("it is nested too deeply", 0, 1)


def _syntax(text: str, error: json.JSONDecodeError) -> JsonError:
    message, start = error.msg[0].lower() + error.msg[1:].replace("'", "`"), error.pos
    if error.msg.startswith(("Invalid", "Unterminated")):
        message = "this string is not closed, or has a character that JSON does not allow"
        # The parser may report the end of the line instead of the beginning of the string.
        strings = (string.span() for string in _STRING.finditer(text))
        start = next((begin for begin, end in strings if begin <= start < end), start)
    return JsonError(message, start, min(start + 1, len(text)))


def _number(word: str) -> int | Decimal:
    if len(word) > MAX_DIGITS:
        raise _WordError(word, f"this number has more than {MAX_DIGITS} characters")
    exponent = _EXPONENT.search(word)
    if exponent is not None and int(exponent[1]) > MAX_EXPONENT:
        raise _WordError(word, f"the exponent of this number is beyond {MAX_EXPONENT}")
    value = Decimal(word)
    is_whole = value.adjusted() <= _MAX_WHOLE and value == value.to_integral_value()
    return int(value) if is_whole else value


def _refused(word: str) -> NoReturn:
    raise _WordError(word, f"`{word}` is no JSON value")


def _check_tokens(text: str) -> None:
    """Raises `JsonError` where an object has a key twice, or the text has too many values, or too deep ones."""
    values = 0
    keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        start, end = token.span("string" if token["string"] else 0)
        if token["end"] is not None:
            keys.pop()
            continue
        if token["colon"] is not None:
            key = json.loads(token["string"])
            if _HALF.search(key):
                raise JsonError("this key has half of a character", start, end)
            if key in keys[-1]:
                raise JsonError(f"`{shown_key(key)}` is given twice in one object", start, end)
            keys[-1].add(key)
            continue
        values += 1
        if values > MAX_VALUES:
            raise JsonError(f"it has more than {MAX_VALUES:,} values", start, start + 1)
        if len(keys) > MAX_DEPTH:
            raise JsonError(f"it is nested deeper than {MAX_DEPTH} levels", start, start + 1)
        if token["begin"] is not None:
            keys.append(set())
