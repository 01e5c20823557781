"""The text of a JSON document: its limits, the number of its keys, and the places of its values.

    bytes -> limits, number of keys; text and path -> place

A parser takes the last of two equal keys, and returns values without places. A valid document needs no slow search for
either: its keys are counted, and a walk through the text finds places only after an error. The walk keeps no values,
since the text may be hostile.
"""

from __future__ import annotations

import re
from itertools import islice
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value; empty for the whole document."""

MODEST: Final = 128_000_000
"""Bytes of memory that the values of any document may take, however dense its text is."""
_OBJECT, _LIST, _KEY, _ELEMENT = 320, 130, 56, 32
"""Bytes of memory that a parser needs for an object, a list, a key and an element."""
BYTES_OF_A_VALUE: Final = 10
BYTES_OF_A_KEY: Final = 16
BYTES_OF_A_CONTAINER: Final = 40
"""The parser needs 32 bytes of memory for a value, 56 with its key, and 100 for an empty list, so the densest text
takes seven times its size. In a large plan a value has 16 bytes of text, a key 20 and an object or a list 63; an
endpoints file has 11 for an address."""
LONGEST: Final = 40
"""Most characters of a key in a message."""
_BLANKS: Final = b" \t\r\n"
STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
"""An expression for a whole string, with its quotes; for `re.DOTALL`."""
_VALUE: Final = re.compile(rf"{STRING}|[^\[\]{{}},\s]++", re.DOTALL)
_MARK: Final = re.compile(rf"{STRING}|[\[\]{{}}]", re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*+")
_DEPTH: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_BEGIN_OF_LIST: Final = re.compile(rb"[ \t\r\n]*+\[")
_ENDED: Final = re.compile(rf"{STRING}(:?)".encode(), re.DOTALL)
"""A string, and the colon after it if the string is a key."""


def is_too_dense(content: bytes) -> bool:
    """Whether a document has more values than its size allows. Each of them takes memory before its type is known.
    False for every document whose values take at most `MODEST` bytes."""
    lists, objects, commas, keys = (content.count(mark) for mark in (b"[", b"{", b",", b'":'))
    if lists * _LIST + objects * _OBJECT + keys * _KEY + commas * _ELEMENT <= MODEST:
        return False
    return (
        (lists + objects) * BYTES_OF_A_CONTAINER > len(content)
        or (lists + objects + commas) * BYTES_OF_A_VALUE > len(content)
        or keys * BYTES_OF_A_KEY > len(content)
    )


def is_list(content: bytes) -> bool:
    return _BEGIN_OF_LIST.match(content) is not None


def has_more_keys(content: bytes, number: int) -> bool:
    """Whether a valid document, which has at least this number of keys, has more."""
    # `":` ends each key, but may also stand inside a string (`\":`) or at the beginning of one (`"::/0"`). In that case
    # all strings are matched, which takes as long as reading the document; a walk takes ten times as long.
    compact = content.translate(None, _BLANKS)
    return compact.count(b'":') != number and _ENDED.findall(compact).count(b":") != number


# ---- a walk through valid text ----


def members(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """The keys of the object that begins at `start`, each with its own place and that of its value."""
    at = _skip_blanks(text, start + 1)
    while text[at] == '"':
        key, end = scanstring(text, at + 1, True)
        value = _skip_blanks(text, _skip_blanks(text, end) + 1)
        yield key, at, value
        at = _after(text, value)


def elements(text: str, start: int) -> Iterator[int]:
    """The places of the values in the list that begins at `start`."""
    at = _skip_blanks(text, start + 1)
    while text[at] != "]":
        yield at
        at = _after(text, at)


class Places:
    """The places at which the values of one valid text begin. The places in an object are kept, since the walk through
    a large object takes seconds."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = _skip_blanks(text, 0)
        self._members: dict[int, dict[str, int]] = {}

    def of(self, path: Path) -> int:
        """The place at which a value begins; for a path without a value, that of the nearest value around it."""
        start = self.root
        for step in path:
            inner = self.within(start, step)
            if inner is None:
                break
            start = inner
        return start

    def within(self, start: int, step: str | int, names: Collection[str] = ()) -> int | None:
        """The place at which a member of an object or an element of a list begins; None without such a part.

        `names` are the keys of the object whose places the caller needs later.
        """
        if isinstance(step, str) and self.text[start] == "{":
            kept = self._members.get(start)
            if kept is None or step not in names:
                # A parser takes the last of two equal keys.
                kept = {key: place for key, _, place in members(self.text, start) if key == step or key in names}
                if step in names:
                    self._members[start] = kept
            return kept.get(step)
        if isinstance(step, int) and self.text[start] == "[":
            return next(islice(elements(self.text, start), step, None), None)
        return None

    def key(self, path: Path) -> int:
        """The place at which the last key of a path begins."""
        *outer, name = path
        return [at for key, at, _ in members(self.text, self.of(tuple(outer))) if key == name][-1]

    def range(self, start: int) -> tuple[int, int]:
        """The range of the value or key that begins at `start`."""
        return start, _end(self.text, start)

    def line(self, start: int) -> int:
        """The number of the line, from 1."""
        return self.text.count("\n", 0, start) + 1

    def value(self, start: int) -> str:
        return self.text[start : _end(self.text, start)]


def _after(text: str, start: int) -> int:
    """The place at which the next member or element begins, or the object or list ends."""
    at = _skip_blanks(text, _end(text, start))
    return _skip_blanks(text, at + 1) if text[at] == "," else at


def _end(text: str, start: int) -> int:
    if text[start] not in "[{":
        return _VALUE.match(text, start).end()  # type: ignore[union-attr] # a value stands there
    depth = 0
    marks = _MARK.finditer(text, start)
    while True:
        mark = next(marks)
        depth += _DEPTH.get(mark[0], 0)
        if depth == 0:
            return mark.end()


def _skip_blanks(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr] # no blank is a match, too


def shown_path(path: Sequence[str | int]) -> str:
    """`calls[3].port`; empty for the whole document."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{shown_key(step)}" for step in path]
    return "".join(parts).removeprefix(".")


def shown_key(key: str) -> str:
    """A key in a message: short, and without characters that could control a terminal."""
    short = key if len(key) <= LONGEST else f"{key[: LONGEST - 3]}..."
    return short if short.isprintable() else ascii(short)[1:-1]
