"""A source line for display: a window around the marked text, with control characters escaped."""

from __future__ import annotations

from admc.base.terminal import cells, visible
from dsl.text import Span

TAB = "    "
WIDTH = 110
"""Characters of a source line that are shown."""


def marked_line(span: Span) -> tuple[str, int, int]:
    """The span's first line as shown, and the first cell and the width of its mark."""
    number, column = span.source.position(span.start)
    text = span.source.line(number)
    first = column - 1
    last = max(first + 1, min(len(text), first + (span.end - span.start)))
    # A line may have megabytes, so only the window is processed.
    cut_left = max(0, first - WIDTH // 2) if len(text) > WIDTH else 0
    cut_right = min(len(text), cut_left + WIDTH)
    before, marked, after = (
        _shown(text[cut_left:first]),
        _shown(text[first : min(last, cut_right)]),
        _shown(text[min(last, cut_right) : cut_right]),
    )
    left = "…" if cut_left else ""
    right = "…" if cut_right < len(text) else ""
    return f"{left}{before}{marked}{after}{right}", cells(left + before), max(1, cells(marked))


def _shown(text: str) -> str:
    return visible(text.replace("\t", TAB))
