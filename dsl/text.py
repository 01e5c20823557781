"""Source texts and places in them.

Every name keeps its `Span` from the parser to the plan, so that errors, reasons and the plan point at the same
characters. A span is two offsets into a shared text. Lines and columns are computed only when they are printed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


@dataclass(frozen=True, eq=False)
class SourceText:
    """One input file. `path` is relative to the program's folder, with `/` between folders; a text without a file has a
    name such as `<prelude>` instead."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of the first character of each line."""
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1; columns count characters."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Text of line `number` (from 1) without its line break."""
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return (self.text[start:] if end < 0 else self.text[start:end]).removesuffix("\r")

    def blank(self) -> SourceText:
        """The text with a blank for every character but line feeds: for messages about a file that may contain
        secrets."""
        return SourceText(self.path, re.sub(r"[^\n]", " ", self.text))


class Span(NamedTuple):
    """Half-open range of characters `[start, end)` of one source."""

    source: SourceText
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"


_PLAIN_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quoted(text: str) -> str:
    """A text as a string of the language."""
    return f'"{"".join(_PLAIN_ESCAPES.get(letter) or _shown(letter) for letter in text)}"'


def _shown(letter: str) -> str:
    return letter if letter.isprintable() or ord(letter) > _LAST_ESCAPED else f"\\u{ord(letter):04x}"


_LAST_ESCAPED = 0xFFFF
