"""Canonical layout. It works on tokens, not on the syntax tree, so that it keeps all comments.

A statement is one line of at most `WIDTH` columns, without its comment. A longer statement is broken where it may
continue in the next line, inside as few brackets as possible. Line breaks inside a statement are kept. Neighbouring
one-line services, externals, calls, policies, tests and gates are aligned with those of the same keyword, and so are
their trailing comments. A line that would get too long is not aligned.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from dsl.diagnostics.diagnostic import Diagnostics, ProgramError
from dsl.syntax import layout
from dsl.syntax.layout import BODIES, WIDTH
from dsl.syntax.parser import parse
from dsl.syntax.scan import next_line
from dsl.syntax.tokens import BESIDE, GATE, TEST, Token
from dsl.text import SourceText

MAX_COLUMN = 60
"""A cell that would start to the right of this column does not move the cells of other lines."""


class _Row(NamedTuple):
    """One line, as cells that alignment may move apart."""

    cells: tuple[str, ...]
    comment: str
    group: str
    blank_before: bool


def format_text(text: str, path: str = "policies.adm") -> str:
    source = SourceText(path, text)
    diagnostics = Diagnostics()
    parse(source, diagnostics)
    if diagnostics.has_errors:
        raise ProgramError(diagnostics.items)
    lines: list[str] = []
    together: list[_Row] = []
    for row in _rows(text):
        if together and (row.group == "" or row.blank_before or together[-1].group != row.group):
            lines.extend(_align(together))
            together = []
        together.append(row)
    if together:
        lines.extend(_align(together))
    return "\n".join(lines) + "\n" if lines else ""


def _rows(text: str) -> Iterator[_Row]:
    first = True
    position = 0
    while True:
        line = next_line(text, position, comments=True)
        tokens = line.tokens
        if not tokens:
            return
        blank = not first and "\n" in text[position : tokens[0].start]
        first = False
        position = line.next
        comment = ""
        if tokens[-1].type == "COMMENT":
            comment = tokens[-1].text.rstrip()
            tokens = tokens[:-1]
        *others, last = _parts(tokens)
        for part in others:
            yield from _part(part, "", blank_before=blank)
            blank = False
        yield from _part(last, comment, blank_before=blank)


def _parts(tokens: list[Token]) -> list[list[Token]]:
    """Splits annotations from their statement if one line is too long."""
    if not tokens or tokens[0].text != "@" or len(layout.text(tokens, "@")) <= WIDTH:
        return [tokens]
    at = layout.statement(tokens)
    if at < len(tokens):
        return [*_parts(tokens[:at]), tokens[at:]]
    starts = [index for index, token in enumerate(tokens) if token.text == "@"]
    return [tokens[start:end] for start, end in pairwise([*starts, len(tokens)])]


def _part(tokens: list[Token], comment: str, *, blank_before: bool) -> Iterator[_Row]:
    cells, group = _cells(tokens)
    if all(token.type != "NEWLINE" for token in tokens) and len(_plain(cells, group)) <= WIDTH:
        yield _Row(cells, comment, group, blank_before)
        return
    at = layout.statement(tokens)
    *broken, last = layout.lines(tokens, tokens[at].text if at < len(tokens) else "@")
    for index, one in enumerate(broken):
        yield _Row((one,), "", "", blank_before and not index)
    yield _Row((last,), comment, "", blank_before and not broken)


def _align(rows: list[_Row]) -> list[str]:
    """Rows of one group as lines."""
    texts = [row.cells[0] for row in rows]
    for column in range(1, max(len(row.cells) for row in rows)):
        gap = _gap(rows[0].group, column)
        wanted = [index for index, row in enumerate(rows) if len(row.cells) > column and row.cells[column]]
        width = max((len(texts[index]) for index in wanted if len(texts[index]) <= MAX_COLUMN), default=0)
        for index in wanted:
            texts[index] = texts[index].ljust(width) + " " * gap + rows[index].cells[column]
    texts = [
        text if len(text) <= WIDTH else _plain(row.cells, row.group) for text, row in zip(texts, rows, strict=True)
    ]
    width = max((len(text) for text, row in zip(texts, rows, strict=True) if row.comment), default=0)
    lines: list[str] = []
    for text, row in zip(texts, rows, strict=True):
        if row.blank_before:
            lines.append("")
        lines.append(f"{text.ljust(width)}  {row.comment}" if row.comment and text else text or row.comment)
    return lines


def _gap(group: str, column: int) -> int:
    """Blanks before a cell."""
    return 2 if group in BODIES and (column == 2 or group != "call") else 1


def _plain(cells: tuple[str, ...], group: str) -> str:
    """The cells without any alignment."""
    text = cells[0]
    for column, cell in enumerate(cells[1:], 1):
        text += " " * _gap(group, column) * bool(cell) + cell
    return text


def _cells(tokens: list[Token]) -> tuple[tuple[str, ...], str]:
    """Cells of a one-line statement, and the group that it may be aligned with."""
    if not tokens:
        return ("",), ""
    keyword = tokens[0].text
    if keyword not in (*BODIES, "policy", *BESIDE):
        return (layout.text(tokens, keyword),), ""
    cuts: list[int] = []
    wanted = {"service": (), "external": (), "call": ("->",), "policy": ("=", "on"), TEST: ("=",), GATE: ("=", "when")}[
        keyword
    ]
    depth = 0
    for index, token in enumerate(tokens):
        # A name that equals a keyword stands before the first cut or inside brackets, except after a `,`.
        if depth == 0 and index > 1 and len(cuts) < len(wanted) and token.text == wanted[len(cuts)]:
            cuts.append(index)
        depth += layout.deeper(token)
    opening = layout.body(tokens, keyword)
    if opening is not None and keyword != TEST:
        cuts.append(opening)
    edges = [0, *cuts, len(tokens)]
    pieces = layout.pieces_of(tokens, keyword)
    return tuple("".join(pieces[start:end]).strip(" ") for start, end in pairwise(edges)), keyword
