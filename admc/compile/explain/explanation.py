"""An explanation as data, for text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dsl.text import Span


class Point(NamedTuple):
    """One sentence, and the lines that it explains."""

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
    """A tuple with the section, which is empty if there are no points."""
    return (Section(heading, tuple(points)),) if points else ()
