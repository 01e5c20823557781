"""The summary of a plan as text."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from admc.base.console import console_on
from admc.base.findings.report import shown_path
from admc.base.terminal import visible
from admc.compile.plan.cost_line import overhead_line
from admc.compile.plan.summary import Summary, headline
from dsl.words import few

ROWS = 25
"""The most ADMs, calls with timeouts and retries, and warnings that are listed; the others are counted. All assumptions
are listed."""
NAMES = 4
NARROW = 22
TABLE = 92
"""The columns that the table needs. On a narrower terminal, words in the last column would break, so each ADM gets its
own lines."""


def render(summary: Summary, folder: str, notes: Sequence[str], *, colour: bool, width: int) -> str:
    """Render the summary. `notes` name the written files and the next commands."""
    stream = io.StringIO()
    console = console_on(stream, colour=colour, width=width)
    console.print(Text.assemble((visible(summary.app), "bold"), f": {headline(summary)}"))
    console.print(Text(visible(summary.proof), style="dim"))
    costs = overhead_line(summary.plan)
    if costs is not None:
        console.print(Text(costs))
    if summary.rows:
        console.print()
        if width >= TABLE:
            console.print(_table(summary))
        else:
            _stacked(console, summary)
        _rest(console, len(summary.rows), "ADMs")
    _closed(console, summary)
    _limits(console, summary)
    _warnings(console, summary, folder)
    _assumptions(console, summary)
    if notes:
        console.print()
    for note in notes:
        # A command that is broken over two lines cannot be copied.
        console.print(Text(visible(note)), soft_wrap=True)
    # Rich pads cells to the width; trailing spaces are noise in logs and golden files.
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())


def names(listed: Sequence[str]) -> str:
    return few([visible(name) for name in listed], NAMES)


def _table(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, expand=True)
    table.add_column("ADM", style="bold", overflow="fold", min_width=3)
    table.add_column("ingress", overflow="fold", max_width=NARROW)
    table.add_column("egress", overflow="fold", max_width=NARROW)
    table.add_column("because", overflow="fold", ratio=1)
    for row in summary.rows[:ROWS]:
        cells = (visible(row.service), names(row.ingress) or "-", names(row.egress) or "-", visible(row.because))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _stacked(console: Console, summary: Summary) -> None:
    for row in summary.rows[:ROWS]:
        console.print(Text(visible(row.service), style="bold"), overflow="fold")
        cells = (("ingress", names(row.ingress)), ("egress", names(row.egress)), ("because", visible(row.because)))
        for label, text in cells:
            if text:
                table = Table.grid(padding=(0, 0))
                table.add_column(width=len("  because  "), style="dim", no_wrap=True)
                table.add_column(overflow="fold")
                table.add_row(f"  {label}", Text(text))
                console.print(table)


def _rest(console: Console, number: int, what: str) -> None:
    if number > ROWS:
        console.print(Text(f"... and {number - ROWS} more {what}; the plan has them all", style="dim"))


def _closed(console: Console, summary: Summary) -> None:
    closed = [item.destination for item in summary.plan.closed]
    if closed:
        console.print()
        console.print(Text(f"closed to undeclared callers by NetworkPolicy: {names(closed)}"))
    if summary.in_network:
        console.print(Text(f"enforced by these NetworkPolicies alone: {names(summary.in_network)}"))


def _limits(console: Console, summary: Summary) -> None:
    if not summary.limits:
        return
    console.print()
    console.print(Text("timeouts and retries on one call:"))
    for limit in summary.limits[:ROWS]:
        console.print(Padding(Text(visible(limit)), (0, 0, 0, 2)))
    if len(summary.limits) > ROWS:
        console.print(Text(f"  ... and {len(summary.limits) - ROWS} more", style="dim"))


def _warnings(console: Console, summary: Summary, folder: str) -> None:
    warnings = summary.plan.warnings
    if not warnings:
        return
    console.print()
    for warning in warnings[:ROWS]:
        at = "" if warning.line is None else f"{shown_path(warning.line.path, folder)}:{warning.line.line}: "
        console.print(
            Text.assemble((f"warning[{warning.code}]", "bold yellow"), f" {visible(at)}{visible(warning.message)}")
        )
    _rest(console, len(warnings), "warnings")


def _assumptions(console: Console, summary: Summary) -> None:
    assumptions = summary.plan.assumptions
    if not assumptions:
        return
    console.print()
    console.print(Text("assumed, since admc cannot check it:"))
    for assumption in assumptions:
        line = f"{names(assumption.about)}: {visible(assumption.text)}"
        console.print(Padding(Text(line), (0, 0, 0, 2)))
