"""Reads the raw runs of a measurement from a CSV table. Each finding points at a line, or at the start if
there is no run.

text -> [read_runs] -> Run after Run
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from admc.cost.profiles.vocabulary import kinds_of_component, known_components
from dsl.diagnostics.diagnostic import Diagnostics, did_you_mean
from dsl.program import Protocol, Side
from dsl.text import SourceText, Span

NONE: Final = "none"
HOP: Final = "hop"
IDLE: Final = "idle"
OWN: Final = "own:"
PART: Final = "part:"
PARTS: Final[Mapping[str, str]] = {
    "ipc": "delivery to the other end on this machine: what the kernel does to receive, beneath what the sidecar sends",
    "read": "read system calls, and the copy from the kernel to user space",
    "write": "write system calls, the copy from user space to the kernel, and the transmission by the network stack",
    "notification": "waiting for input and output events, with the switch to another process",
    "kernel": "the rest of the kernel: other system calls, their entry and exit, interrupts, page faults",
    "user": "the sidecar in user space",
}
"""Parts of the CPU of a hop that sampled stacks tell apart."""
COLUMNS: Final = (
    "turn",
    "arm",
    "protocol",
    "side",
    "kind",
    "arguments",
    "rate",
    "size",
    "latency_us",
    "cpu_cores",
    "memory_bytes",
    "stolen",
)
OPTIONAL: Final = frozenset({"stolen"})
"""Columns that a table may lack: tables of other tools have no `stolen`."""
MAX_BYTES: Final = 20_000_000
MAX_LINES: Final = 200_000
MAX_CELL: Final = 500
MAX_RATES: Final = 100
"""Most rates of one arm, as of one law in a profile."""
MAX_SIZES: Final = 100
"""Most sizes of one arm: each turn makes a straight line over the sizes."""
MAX_ARMS: Final = 1000
"""Most arms, counted for each protocol."""
_EMPTY: Final = dict.fromkeys(OPTIONAL, "")
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,12})?")
_CODE: Final = "ADM869"


class Arm(NamedTuple):
    """What stood between the load and the echo service, by its name:

    none         no proxy
    hop          a bare hop: a sidecar without policies
    idle         a sidecar without requests
    COMPONENT    a hop with one policy of this component
    own:NAME     a hop with one policy of a component of the user
    part:NAME    a bare hop, or an idle sidecar, in a slice with sampled stacks: the CPU of one part
    """

    name: str
    side: Side | None = None
    kind: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()


class Run(NamedTuple):
    """One slice of a measurement. A quantity that was not measured is None."""

    turn: str
    arm: Arm
    protocol: Protocol | None
    """None for an idle sidecar and its parts, as are rate, size and latency."""
    rate: Decimal | None
    size: Decimal | None
    latency: Decimal | None
    """Microseconds: the median of the slice."""
    cpu: Decimal | None
    """Cores of the proxy."""
    memory: Decimal | None
    stolen: Decimal | None
    """The part of the time of all cores that the host of a virtual machine took away during the slice."""
    span: Span


class _WrongError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_runs(source: SourceText, diagnostics: Diagnostics) -> tuple[Run, ...] | None:
    """The runs of a file, or None after errors."""
    before = diagnostics.errors
    runs = []
    measured: dict[tuple[Arm, Protocol | None], tuple[set[Decimal | None], set[Decimal | None]]] = {}
    for span, cells in _lines(source, diagnostics):
        try:
            run = _run(cells, span)
        except _WrongError as wrong:
            diagnostics.error(_CODE, wrong.message, span, hint=wrong.hint)
            continue
        rates, sizes = measured.setdefault((run.arm, run.protocol), (set(), set()))
        rates.add(run.rate)
        sizes.add(run.size)
        if len(measured) > MAX_ARMS:
            diagnostics.error(_CODE, f"the file has more than {MAX_ARMS:,} arms", span)
            return None
        for what, values, most in (("rates", rates, MAX_RATES), ("sizes", sizes, MAX_SIZES)):
            if len(values) > most:
                message = f"the arm `{run.arm.name[:60]}` has more than {most} {what}"
                hint = f"measure each arm at a few {what}, such as five, in many turns"
                diagnostics.error(_CODE, message, span, hint=hint)
                return None
        runs.append(run)
    if not runs and diagnostics.errors == before:
        diagnostics.error(_CODE, f"`{source.path}` has no run", Span(source, 0, 0))
    return tuple(runs) if diagnostics.errors == before else None


def _lines(source: SourceText, diagnostics: Diagnostics) -> Iterator[tuple[Span, dict[str, str]]]:
    """The span and the cells of each line after the header."""
    head: list[str] | None = None
    at = 0
    for number, line in enumerate(io.StringIO(source.text, newline="\n")):
        span = Span(source, at, at + len(line.rstrip("\r\n")))
        at += len(line)
        if not line.strip():
            continue
        if number >= MAX_LINES:
            diagnostics.error(_CODE, f"it has more than {MAX_LINES:,} lines", span)
            return
        try:
            cells = next(csv.reader([line], strict=True))
        except (csv.Error, StopIteration):
            diagnostics.error(_CODE, "this line is no CSV", span, hint="a cell with quotes ends on its line")
            continue
        if head is None:
            head = [cell.strip() for cell in cells]
            if len(set(head)) < len(head) or not set(COLUMNS) - OPTIONAL <= set(head) <= set(COLUMNS):
                _wrong_head(head, span, diagnostics)
                return
        elif len(cells) != len(head):
            diagnostics.error(_CODE, f"this line has {len(cells)} cells, and the first has {len(head)}", span)
        else:
            yield span, {**_EMPTY, **{name: cell.strip() for name, cell in zip(head, cells, strict=True)}}


def _wrong_head(head: list[str], span: Span, diagnostics: Diagnostics) -> None:
    unknown = next((name for name in head if name not in COLUMNS), None)
    missing = next((name for name in COLUMNS if name not in head and name not in OPTIONAL), None)
    if unknown is not None:
        hint = did_you_mean(unknown, COLUMNS) or "columns are " + ", ".join(f"`{name}`" for name in COLUMNS)
        diagnostics.error(_CODE, f"there is no column `{unknown[:60]}`", span, hint=hint)
    else:
        problem = "a column is given twice" if missing is None else f"the column `{missing}` is missing"
        hint = "cells of a column may be empty; the first line names all columns, and may leave out `stolen`"
        diagnostics.error(_CODE, problem, span, hint=hint)


def _run(cells: dict[str, str], span: Span) -> Run:
    if max(map(len, cells.values())) > MAX_CELL:
        raise _WrongError(f"a cell has more than {MAX_CELL} characters")
    if not cells["turn"]:
        raise _WrongError("the turn is missing", "arms of one turn are compared: number the turns")
    arm = _arm(cells)
    latency, cpu, memory, stolen = (
        _number(cells, name) for name in ("latency_us", "cpu_cores", "memory_bytes", "stolen")
    )
    if stolen is not None and stolen > 1:
        raise _WrongError("`stolen` is a part of the time of all cores, between 0 and 1")
    part = arm.name.startswith(PART)
    if part and cpu is None:
        raise _WrongError("a run of a part has its CPU, zero if no stack was in it")
    if arm.name == IDLE or (part and not cells["protocol"]):
        if any(cells[name] for name in ("protocol", "rate", "size", "latency_us")):
            raise _WrongError("an idle sidecar has no protocol, rate, size and latency")
        return Run(cells["turn"], arm, None, None, None, None, cpu, memory, stolen, span)
    protocol = _word("protocol", cells["protocol"], [item.value for item in Protocol])
    rate, size = _number(cells, "rate"), _number(cells, "size")
    if not rate or size is None:
        raise _WrongError(f"the {'size' if rate else 'rate'} is missing")
    if rate != round(rate, 3) or size != int(size):
        raise _WrongError("a rate has at most three digits after the point, and a size is a whole number of bytes")
    if arm.name == NONE and latency is None:
        raise _WrongError("a run without a proxy has a latency")
    return Run(cells["turn"], arm, Protocol(protocol), rate, size, latency, cpu, memory, stolen, span)


def _arm(cells: dict[str, str]) -> Arm:
    name = cells["arm"]
    if name in (NONE, HOP, IDLE):
        if any(cells[column] for column in ("kind", "arguments")):
            raise _WrongError(f"`{name}` has no policy, so it has no kind and no arguments")
        return Arm(name, _side(cells["side"]))
    if name.startswith(PART):
        if any(cells[column] for column in ("side", "kind", "arguments", "latency_us", "memory_bytes")):
            raise _WrongError("a part of a hop has CPU alone, of both sides together")
        return Arm(PART + _word("part", name.removeprefix(PART), list(PARTS)))
    if name.startswith(OWN):
        return Arm(name, _side(cells["side"]), cells["kind"] or None, _arguments(cells["arguments"]))
    known = (NONE, HOP, IDLE, *known_components())
    if name not in known:
        hint = did_you_mean(name, known) or f"name a component of your own `{OWN}NAME`"
        raise _WrongError(f"there is no arm `{name[:60]}`", hint)
    kind = _word("kind", cells["kind"], list(kinds_of_component(name))) if cells["kind"] else None
    return Arm(name, _side(cells["side"]), kind, _arguments(cells["arguments"]))


def _side(cell: str) -> Side | None:
    return Side(_word("side", cell, [side.value for side in Side])) if cell else None


def _arguments(cell: str) -> tuple[tuple[str, str], ...]:
    """The arguments in a cell such as `algorithm=gzip; min_size=30`."""
    arguments = {}
    for item in cell.split(";") if cell else ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip() or name.strip() in arguments:
            raise _WrongError(f"`{item.strip()[:60]}` is no argument", "write `algorithm=gzip; min_size=30`, each once")
        arguments[name.strip()] = value.strip()
    return tuple(sorted(arguments.items()))


def _word(what: str, cell: str, known: list[str]) -> str:
    if cell not in known:
        hint = did_you_mean(cell, known) or "known are " + ", ".join(f"`{word}`" for word in known)
        raise _WrongError(f"there is no {what} `{cell[:60]}`", hint)
    return cell


def _number(cells: dict[str, str], name: str) -> Decimal | None:
    cell = cells[name]
    if not cell:
        return None
    if not _NUMBER.fullmatch(cell):
        raise _WrongError(
            f"`{name}` is a plain number, not negative, and not `{cell[:40]}`", "write `12.75`, without a unit"
        )
    return Decimal(cell)
