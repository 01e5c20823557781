"""Plain tables: cells in columns, two blanks apart."""

from __future__ import annotations

from collections.abc import Sequence

from admc.terminal import cells, visible


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: str = "") -> list[str]:
    """Lines of a table. Columns in `right` are aligned to the right."""
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
    return lines
