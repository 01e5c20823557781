"""Plain tables: cells in columns, two blanks apart; and lines that are wrapped at the width of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from admc.base.terminal import cells, visible


def table(
    rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: str = "", width: int | None = None
) -> list[str]:
    """Return the lines of a table, with escapes for what does not print. Columns in `right` are aligned to the right.

    If the table is wider than `width`, the cells of a row that are not empty stand below its first cell, each after the
    head of its column. The first row then contains the heads.
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    columns = max((len(row) for row in shown), default=0)
    widths = [max((cells(row[at]) for row in shown if at < len(row)), default=0) for at in range(columns)]
    lines = []
    for row in shown:
        padded = [
            " " * (widths[at] - cells(cell)) + cell if at in right else cell + " " * (widths[at] - cells(cell))
            for at, cell in enumerate(row)
        ]
        lines.append((indent + "  ".join(padded)).rstrip())
    if width is None or all(cells(line) <= width for line in lines):
        return lines
    return [indent + line for line in _stacked(shown, width - len(indent))]


def _stacked(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    head, *others = rows
    if head and head[0].strip():
        yield head[0]
    for name, *values in others:
        yield name
        parts = [
            f"{head[at]} {value.strip()}".strip() if at < len(head) else value
            for at, value in enumerate(values, start=1)
            if value.strip()
        ]
        blanks = " " * (len(name) - len(name.lstrip(" ")) + 4)
        line = ""
        for part in parts:
            if line and cells(line) + 2 + cells(part) > width:
                yield line
                line = ""
            line = f"{line}  {part}" if line else f"{blanks}{part}"
        if line:
            yield line


def fitted(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Wrap lines of text at `width` columns, between words only: a long word may still be wider. Without a width (in a
    file) lines stay as they are."""
    for line in lines:
        if width is None or cells(line) <= width:
            yield line
            continue
        blanks = " " * (len(line) - len(line.lstrip(" ")) + 2)
        yield from textwrap.wrap(line, width, subsequent_indent=blanks, break_long_words=False, break_on_hyphens=False)
