"""Tokens and logical lines, which `scan` makes of a text for the parser, the formatter and the hints."""

from __future__ import annotations

import re
from typing import NamedTuple

from dsl.text import SourceText, Span

KEYWORDS = (
    "app",
    "use",
    "topology",
    "external",
    "service",
    "call",
    "kind",
    "policy",
    "pin",
    "objective",
    "profile",
    "request",
    "network_policies",
    "accept",
)
"""First words of the statements of a program."""
STATED = {"network_policies": "enforced", "accept": "host_network"}
"""First words of the statements that consist of two words -> the second word."""
TEST = "test"
"""First word of the statements of a file of tests."""
TEST_ENDING = ".test.adm"
"""The tests of `shop.adm` are in `shop.test.adm` beside it."""
GATE = "gate"
"""First word of the statements of a file of gates."""
GATE_ENDING = ".gates.adm"
"""The gates of `shop.adm` are in `shop.gates.adm` beside it."""
BESIDE = {TEST: TEST_ENDING, GATE: GATE_ENDING}
"""First words of statements that stand in files beside a program -> the ending of such a file."""
NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*"
CONTINUATION = (",", "->")
"""A statement whose line ends in one of these continues in the next line, unless that line begins a statement."""
MAX_WORD = 200
"""Longest name or number, in characters."""


class Token(NamedTuple):
    """`type` is NAME, GLOB, NUMBER, STRING, SIGN, COMMENT or NEWLINE; OPEN or BAD for text that is no token."""

    type: str
    text: str
    start: int
    end: int


class LexicalError(NamedTuple):
    """A place of the text that cannot be cut into tokens."""

    code: str
    message: str
    start: int
    end: int
    hint: str | None = None


class LogicalLine(NamedTuple):
    """The tokens of one statement, and the offset at which the next logical line begins. Comments are among the tokens
    only for the formatter. `error` is the first one of the line."""

    tokens: list[Token]
    next: int
    error: LexicalError | None

    def span(self, source: SourceText) -> Span:
        return Span(source, self.tokens[0].start, self.tokens[-1].end)


def label_text(key: str, value: str) -> str:
    """A label as a program writes it.

    >>> label_text("tier", "db"), label_text("app.kubernetes.io/name", "db")
    ('tier = "db"', '"app.kubernetes.io/name" = "db"')
    """
    name = key if re.fullmatch(NAME, key) else f'"{key}"'
    return f'{name} = "{value}"'
