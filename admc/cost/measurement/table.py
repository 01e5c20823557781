"""Writes the raw runs of a measurement as a CSV table, which `admc profile fit` reads, too."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from typing import NamedTuple

from admc.cost.profile_import.runs import COLUMNS, Arm
from dsl.program import Protocol


class Row(NamedTuple):
    """One slice. Rate and size are None for an idle sidecar. A figure that was not measured is None."""

    turn: str
    arm: Arm
    protocol: Protocol | None
    rate: float | None
    size: int | None
    latency: float | None
    """Microseconds, the median."""
    cores: float | None
    memory: int | None = None
    """Bytes."""
    stolen: float | None = None
    """The part of the time of all cores that the host took away during the slice."""


def table(rows: Iterable[Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        arguments = "; ".join(f"{name}={value}" for name, value in row.arm.arguments)
        writer.writerow(
            [
                row.turn,
                row.arm.name,
                row.protocol or "",
                row.arm.side or "",
                row.arm.kind or "",
                arguments,
                _number(row.rate, 3),
                "" if row.size is None else row.size,
                _number(row.latency, 3),
                _number(row.cores, 9),
                "" if row.memory is None else row.memory,
                _number(row.stolen, 4),
            ]
        )
    return out.getvalue()


def _number(value: float | None, places: int) -> str:
    """A number without an exponent. A negative one becomes zero, since no latency or CPU time is negative."""
    return "" if value is None else f"{max(0.0, value):.{places}f}"


class Channel(NamedTuple):
    """The functions by which a measurement reports."""

    progress: Callable[[str], None]
    row: Callable[[Row], None]
    note: Callable[[str], None]
    fact: Callable[[str, object], None]
    """Reports a named value for which a row has no column."""
