"""Canonical layout. Works on tokens, not on the syntax tree, so that no comment can get lost.

One statement a line; a statement that was broken over lines inside its brackets keeps its breaks. Neighbouring
one-line statements of the same sort are aligned, as are their trailing comments.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from dsl.diagnostics import Diagnostics, ProgramError
from dsl.parser import parse
from dsl.scan import KEYWORDS, Token, next_line
from dsl.text import SourceText

MAX_COLUMN = 60
"""What starts right of this is not waited for when columns are aligned."""
_INDENT = "  "
_OPEN = ("(", "[", "{")
_CLOSE = (")", "]", "}")
_BODIES = ("service", "external", "call")
_LOGIC = ("when", "and", "or", "not")
_SIGNIFICANT = ("COMMENT", "NEWLINE")


class _Row(NamedTuple):
    """One logical line: its cells are what alignment may move apart."""

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


def _rows(text: str) -> list[_Row]:
    rows: list[_Row] = []
    position = 0
    while True:
        line = next_line(text, position, comments=True)
        tokens = line.tokens
        if not tokens:
            return rows
        blank = bool(rows) and "\n" in text[position : tokens[0].start]
        position = line.next
        comment = ""
        if tokens[-1].type == "COMMENT":
            comment = tokens[-1].text.rstrip()
            tokens = tokens[:-1]
        if any(token.type == "NEWLINE" for token in tokens):
            *broken, last = _lines(tokens)
            rows.extend(_Row((one,), "", "", blank and not index) for index, one in enumerate(broken))
            rows.append(_Row((last,), comment, "", False))
        else:
            cells, group = _cells(tokens)
            rows.append(_Row(cells, comment, group, blank))


def _align(rows: list[_Row]) -> list[str]:
    """Rows of one group as lines."""
    texts = [row.cells[0] for row in rows]
    for column in range(1, max(len(row.cells) for row in rows)):
        gap = 2 if rows[0].group in _BODIES and (column == 2 or rows[0].group != "call") else 1
        wanted = [index for index, row in enumerate(rows) if len(row.cells) > column and row.cells[column]]
        width = max((len(texts[index]) for index in wanted if len(texts[index]) <= MAX_COLUMN), default=0)
        for index in wanted:
            texts[index] = texts[index].ljust(width) + " " * gap + rows[index].cells[column]
    width = max((len(text) for text, row in zip(texts, rows, strict=True) if row.comment), default=0)
    lines: list[str] = []
    for text, row in zip(texts, rows, strict=True):
        if row.blank_before:
            lines.append("")
        lines.append(f"{text.ljust(width)}  {row.comment}" if row.comment and text else text or row.comment)
    return lines


def _cells(tokens: list[Token]) -> tuple[tuple[str, ...], str]:
    """Cells of a one-line statement, and the group that it may be aligned with."""
    if not tokens:
        return ("",), ""
    keyword = tokens[0].text
    if keyword not in (*_BODIES, "policy"):
        return (_join(tokens, keyword),), ""
    cuts: list[int] = []
    wanted = {"service": ("{",), "external": ("{",), "call": ("->", "{"), "policy": ("=", "on")}[keyword]
    depth = 0
    for index, token in enumerate(tokens):
        # Names that look like keywords stand before the first cut or inside brackets, except after a `,`.
        if depth == 0 and index > 1 and len(cuts) < len(wanted) and token.text == wanted[len(cuts)]:
            cuts.append(index)
        depth += (token.text in _OPEN) - (token.text in _CLOSE)
    edges = [0, *cuts, len(tokens)]
    return tuple(_join(tokens[start:end], keyword) for start, end in pairwise(edges)), keyword


def _keyword(tokens: list[Token]) -> str:
    """The statement's own keyword, past its annotations."""
    if tokens[0].text != "@":
        return tokens[0].text
    depth = 0
    previous = ""
    for token in tokens:
        if depth == 0 and previous != "@" and token.text in KEYWORDS:
            return token.text
        depth += (token.text in _OPEN) - (token.text in _CLOSE)
        previous = token.text
    return "@"


def _join(tokens: list[Token], keyword: str) -> str:
    return "".join(_pieces(tokens, keyword)) if tokens else ""


def _lines(tokens: list[Token]) -> list[str]:
    """A statement that is broken over lines, with its breaks kept and its lines indented by their depth."""
    lines: list[str] = []
    depth = 0
    current: list[str] = []
    pieces = _pieces(tokens, _keyword(tokens))
    for token, piece in zip(tokens, pieces, strict=True):
        if token.type == "NEWLINE":
            if current:
                lines.append("".join(current))
            current = []
            continue
        depth -= token.text in _CLOSE and token.type == "SIGN"
        shown = piece.rstrip()
        if not current:
            current.append(_INDENT * depth if lines else "")
            shown = shown.lstrip(" ")
        current.append(shown)
        depth += token.text in _OPEN and token.type == "SIGN"
    lines.append("".join(current))
    return lines


def _pieces(tokens: list[Token], keyword: str) -> list[str]:
    """Each token with the blanks before it."""
    starts = _item_starts(tokens) if keyword in _BODIES else frozenset()
    pieces: list[str] = []
    brackets: list[str] = []
    before: Token | None = None
    before_that: Token | None = None
    tight_colon = False
    for index, token in enumerate(tokens):
        if token.type == "NEWLINE":
            pieces.append("\n")
            continue
        if token.type == "COMMENT":
            pieces.append("  " + token.text)
            continue
        if token.text == ":":
            named = bool(brackets) and brackets[-1] == "("
            tight_colon = not (named and before_that is not None and before_that.text in ("(", ","))
        if before is None:
            blanks = ""
        elif index in starts and before.text != "{":
            blanks = "  "
        else:
            blanks = " " * _apart(before, token, padded=keyword in _BODIES, tight_colon=tight_colon)
        pieces.append(blanks + token.text)
        if token.type == "SIGN":
            if token.text in _OPEN:
                brackets.append(token.text)
            elif token.text in _CLOSE and brackets:
                brackets.pop()
        before_that, before = before, token
    return pieces


def _apart(before: Token, token: Token, *, padded: bool, tight_colon: bool) -> bool:
    """Whether a blank stands between two tokens."""
    one, other = before.text, token.text
    if "STRING" in (before.type, token.type) and before.type != "SIGN" and token.type != "SIGN":
        return True
    if before.type == "SIGN":
        if one in ("(", "[", "@", ".."):
            return False
        if one == "{":
            return padded and other != "}"
        if one == ":":
            return not tight_colon
    if token.type == "SIGN":
        if other in (")", "]", ",", ":", "?", ".."):
            return False
        if other == "}":
            return padded
        if other == "(":
            return before.type != "NAME" or one in _LOGIC
    return True


def _item_starts(tokens: list[Token]) -> frozenset[int]:
    """Where the items of a body begin: two blanks stand before each of them."""
    order = [index for index, token in enumerate(tokens) if token.type not in _SIGNIFICANT]
    words = [tokens[index] for index in order]
    opening = next((at for at, token in enumerate(words) if token.text == "{"), None)
    starts: set[int] = set()
    if opening is None:
        return frozenset()
    at = opening + 1
    while at < len(words) and words[at].text != "}":
        starts.add(order[at])
        word = words[at].text
        at += 1
        if word in ("tcp", "http", "grpc"):
            at += words[at].type == "NAME"
            at += 1
            at += 2 * (at < len(words) and words[at].text == "->")
        elif word == "labels":
            while words[at].text != "}":
                at += 1
            at += 1
        elif word not in ("untrusted", "host_network"):
            at += 1
    return frozenset(starts)
