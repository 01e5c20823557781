"""What `admc explain` found out, as data: the same for a terminal, for Markdown and for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dsl.text import Span


class Point(NamedTuple):
    """One sentence, and the lines that it rests on."""

    text: str
    spans: tuple[Span, ...] = ()


class Section(NamedTuple):
    heading: str
    points: tuple[Point, ...]


class Explanation(NamedTuple):
    subject: str
    answer: str
    """The short answer, before the details."""
    sections: tuple[Section, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    """(label, lines) of program or shell text."""


def section(heading: str, points: Sequence[Point]) -> tuple[Section, ...]:
    """Nothing where there is nothing to say."""
    return (Section(heading, tuple(points)),) if points else ()
