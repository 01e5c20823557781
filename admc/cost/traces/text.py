"""Writes a `TraceReport` as text for a terminal, with the traces that were left out and the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from admc.base.columns import fitted, table
from admc.base.decimals import significant
from admc.base.terminal import counted, visible
from admc.cost.profiles.amounts import NANO
from admc.cost.traces.drops import NOTES, TEXTS
from admc.cost.traces.report import (
    PERCENTILES,
    Added,
    Distribution,
    Taken,
    TraceReport,
    names_of,
    suggestion,
    where,
)
from admc.cost.traces.requests import Import

MICRO: Final = 1000


def render(app: str, profile: str, report: TraceReport, *, width: int | None = None) -> str:
    layouts = (("plan", report.plan), ("full mesh, where a sidecar can be", report.full_mesh))
    head = (*(f"p{percent}" for percent in PERCENTILES), "max", "mean")
    latency = [("added latency, us", *head)]
    latency += [(name, *_figures(added.latency)) for name, added in layouts]
    cpu = [("CPU of a request, us", *head, "cores")]
    cpu += [(name, *_figures(added.cpu), _cores(added)) for name, added in layouts]
    columns = range(1, len(head) + 2)
    lines = [
        f"{visible(app)}, by the profile {visible(profile)}: {taken(report.taken)}",
        "",
        *table(latency, right=columns, width=width),
        "",
        *table(cpu, right=columns, width=width),
    ]
    left_out = list(dropped(report.taken, report.names))
    return "".join(f"{line}\n" for line in fitted((*lines, *([""] if left_out else []), *left_out), width))


def taken(summary: Taken) -> str:
    rate = "" if summary.rate is None else f", {significant(summary.rate)} requests/s"
    return f"{_counted(summary.trees, 'request')} with {_counted(summary.calls, 'call')}{rate}"


def imported(imported_requests: Import, output: Path) -> str:
    number = counted(len(imported_requests.requests), "request")
    return f"{taken(imported_requests.taken)}\nwrote {number} to `{visible(str(output))}`\n"


def dropped(summary: Taken, known: Sequence[str]) -> Iterator[str]:
    """For each reason a line with its counts, and a line with the unknown names and a hint; then the other notes."""
    for drop in summary.dropped:
        text = TEXTS[drop.reason]
        first = "" if drop.first is None else f"; the first: {visible(where(drop))}"
        number = f"{_counted(drop.trees, 'request')} with {_counted(drop.calls, 'call')}"
        yield f"dropped {number} ({text.code}): {text.message}{first}"
        names = names_of(drop)
        yield f"  {visible(names)}: {suggestion(drop, known)}" if names else f"  {suggestion(drop, known)}"
    if summary.duplicates:
        stand = "stands" if summary.duplicates == 1 else "stand"
        yield f"taken once: {_counted(summary.duplicates, 'row or span', 'rows or spans')} that {stand} twice (ADM894)"
    if summary.malformed:
        yield (
            f"skipped: {_counted(summary.malformed, 'row or span', 'rows or spans')} without a usable trace, id, "
            f"time or kind (ADM893); the first: {visible(summary.first_malformed)}"
        )

    for note, count in summary.notes:
        text_of_note, one, many = NOTES[note]
        yield text_of_note.format(_counted(count, one, many))


def _counted(number: int, one: str, many: str = "") -> str:
    """`1 request`, `2,000 requests`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _figures(distribution: Distribution) -> tuple[str, ...]:
    figures: tuple[float, ...] = (*distribution.percentiles, distribution.highest, distribution.mean)
    return tuple(_shown(figure, distribution.at_least) for figure in figures)


def _shown(nanoseconds: float, at_least: bool) -> str:
    """Microseconds; `-` for a lower bound of zero, which is no figure."""
    if at_least and not nanoseconds:
        return "-"
    return (">= " if at_least else "") + significant(nanoseconds / MICRO, 4)


def _cores(added: Added) -> str:
    if added.cores is None or (added.cpu.at_least and not added.cores):
        return "-"
    return (">= " if added.cpu.at_least else "") + significant(added.cores / NANO, 4)
