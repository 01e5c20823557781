"""Links the spans of OpenTelemetry and Jaeger to trees of calls.

    Span after Span -> [Spans] -> [parts] -> Linked of whole traces, part by part

    span                                                   is
    server, consumer or unstated, first in its trace       a call to its service
    server or consumer, below a client or producer         a call to its service
    neither client nor producer, below another service     a call to its service
    client or producer, with a single such call below      the caller's record of that call
    client or producer, with no call and no client below   a call to its peer, a service without spans
    any other                                              a step inside a service, which is ignored

Traces that are not whole, or contradict themselves, are dropped and counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admc.cost.traces.calls import only
from admc.cost.traces.directory import Directory
from admc.cost.traces.drops import Drops, Note, Reason, TraceStart
from admc.cost.traces.failures import TooMuchError
from admc.cost.traces.forest import MAX_CALLS, MAX_DEPTH, MAX_PART, Flags, Ints, Linked, runs_back, too_long
from admc.cost.traces.json_input import whole

MAX_SPANS: Final = 2_000_000
MAX_TIME: Final = 1 << 62
MAX_ID: Final = 200


class Kind(IntEnum):
    UNSTATED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class Span(NamedTuple):
    """One span of a document; times in nanoseconds."""

    trace: str
    id: str
    parent: str
    """Empty at the first span of a trace."""
    kind: Kind | None
    """None if the document has an unknown kind: such a span cannot be used."""
    service: str
    peer: str
    """The called service, if the span of a client names it."""
    start: int
    end: int
    follows: bool = False
    """Whether the parent does not wait for the span."""
    port: str = ""
    """The port of the peer, if the span has it."""


def kind_of(value: object) -> Kind | None:
    """The kind that an exporter wrote as a number (`2`, `"2"`) or as a name (`SPAN_KIND_SERVER`, `Server`); None if it
    is unknown."""
    if isinstance(value, str):
        name = value.strip().upper().removeprefix("SPAN_KIND_")
        if name in Kind.__members__:
            return Kind[name]
        value = whole(value) if name.isdigit() else 0 if name in ("", "UNSPECIFIED") else -1
    number = whole(value)
    return Kind(number) if Kind.UNSTATED <= number <= Kind.CONSUMER else None


class Spans:
    """All spans of some files of one format."""

    def __init__(self, resolution: int) -> None:
        self.resolution = resolution
        self.traces: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._columns = [array("q") for _ in range(10)]
        self._files: list[tuple[int, str, str]] = []
        self.first_of_trace: list[tuple[int, int]] = []
        self.unusable: set[int] = set()
        """Traces with a span that cannot be used: a call may be missing, so they are not whole."""

    def file(self, name: str, what: str) -> None:
        """Name the file of the spans that are added next. `what` names a record of it in messages."""
        self._files.append((len(self._columns[0]), name, what))

    def add(self, span: Span, record: int) -> bool:
        """Add a span. Returns whether it can be used."""
        if not 0 < len(span.trace) <= MAX_ID:
            return False
        if len(self._columns[0]) + len(self.unusable) >= MAX_SPANS:
            raise TooMuchError(f"more than {MAX_SPANS:,} spans")
        trace = self.traces.setdefault(span.trace, len(self.traces))
        if trace == len(self.first_of_trace):
            self.first_of_trace.append((len(self._files) - 1, record))
        named = 0 < len(span.id) <= MAX_ID and len(span.parent) <= MAX_ID
        if not named or span.kind is None or not 0 < span.start < MAX_TIME or not 0 <= span.end < MAX_TIME:
            self.unusable.add(trace)
            return False
        values = (
            trace,
            self._ids.setdefault(span.id, len(self._ids)),
            self._ids.setdefault(span.parent, len(self._ids)) if span.parent else -1,
            int(span.kind),
            self.names.setdefault(span.service, len(self.names)),
            self.names.setdefault(span.peer, len(self.names)),
            span.start,
            span.end,
            int(span.follows),
            record,
        )
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        return True

    def place(self, trace: int) -> TraceStart:
        file, record = self.first_of_trace[trace]
        _, name, what = self._files[file]
        return TraceStart(name, what, record, next(text for text, number in self.traces.items() if number == trace))

    @property
    def empty(self) -> bool:
        return not self._columns[0]

    def columns(self) -> Columns:
        return Columns(*(np.array(column, np.int64) for column in self._columns[:9]))


class Columns(NamedTuple):
    trace: Ints
    id: Ints
    parent: Ints
    kind: Ints
    service: Ints
    peer: Ints
    start: Ints
    end: Ints
    follows: Ints

    def take(self, chosen: Ints | Flags) -> Columns:
        return Columns(*(column[chosen] for column in self))


class _Calls(NamedTuple):
    """Calls as columns of indexes of spans."""

    spans: Ints
    """The span of the callee, or that of the client if the callee has none."""
    client: Ints
    """The span with the caller's times."""
    host: Ints
    """The span of the parent call; -1 for a root."""


def parts(
    spans: Spans, directory: Directory, drops: Drops, *, partial_traces: bool = False
) -> Iterator[tuple[Linked, Ints]]:
    """Whole trees part by part, and the numbers of their traces.

    With `partial_traces`, a trace whose first span is missing begins with the only span whose parent is missing.
    """
    if not spans.traces:
        return
    if spans.empty:
        _add(drops, spans, Reason.UNUSABLE, np.array(sorted(spans.unusable)), 0)
        return
    columns, wrong = _unique(spans.columns(), len(spans.traces), drops)
    wrong[list(spans.unusable)] |= 1 << Reason.UNUSABLE
    above, begun = _parents(columns, wrong, partial_traces=partial_traces)
    calls = _calls(columns, above)
    linked, moved = _linked(spans, columns, above, calls, directory, wrong)
    numbers = np.bincount(linked.tree, minlength=len(wrong))
    reasons = _reasons(wrong, numbers, linked)
    for reason in Reason:
        trees = np.flatnonzero(reasons == reason)
        if len(trees):
            _add(drops, spans, reason, trees, int(numbers[trees].sum()))
    drops.note(Note.PARTIAL, int((begun & (reasons < 0)).sum()))
    drops.note(Note.CLOCK, int((moved & (reasons[linked.tree] < 0)).sum()))
    ends = np.cumsum(np.where(reasons < 0, numbers, 0))
    low = 0
    while low < len(numbers):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + MAX_PART, side="right")))
        chosen = np.zeros(len(numbers), np.bool_)
        chosen[low:high] = reasons[low:high] < 0
        if chosen.any():
            yield only(linked, chosen)
        low = high


def _add(drops: Drops, spans: Spans, reason: Reason, traces: Ints, calls: int) -> None:
    drops.add(reason, len(traces), calls, partial(spans.place, int(traces[0])))


def _unique(columns: Columns, count: int, drops: Drops) -> tuple[Columns, Ints]:
    """The spans in the order of traces and ids, without copies; and the bits of the reasons to drop each trace, so far
    for different spans of one id."""
    columns = columns.take(np.lexsort((columns.end, columns.start, columns.kind, columns.id, columns.trace)))
    same = np.zeros(len(columns.id), np.bool_)
    same[1:] = (columns.trace[1:] == columns.trace[:-1]) & (columns.id[1:] == columns.id[:-1])
    copies = same.copy()
    for column in columns:
        copies[1:] &= column[1:] == column[:-1]
    drops.duplicates += int(copies.sum())
    wrong = np.zeros(count, np.int64)
    wrong[columns.trace[same & ~copies]] |= 1 << Reason.IDS
    return columns.take(~same), wrong


def _parents(columns: Columns, wrong: Ints, *, partial_traces: bool) -> tuple[Ints, Flags]:
    """The index of each span's parent, or -1; and the flags of traces that begin with a span whose parent is missing.

    Marks traces without exactly one first span, with a missing parent, or with parents in a circle.
    """
    width = max(int(columns.id.max()), int(columns.parent.max())) + 2
    keys = columns.trace * width + columns.id
    wanted = columns.trace * width + columns.parent
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    stated = columns.parent >= 0
    known = stated & (keys[place] == wanted)
    rooted = np.bincount(columns.trace[~stated], minlength=len(wrong))
    lost = stated & ~known
    orphans = np.bincount(columns.trace[lost], minlength=len(wrong))
    begun = (rooted == 0) & (orphans == 1) if partial_traces else np.zeros(len(wrong), np.bool_)
    lost &= ~begun[columns.trace]
    rooted = np.where(begun, 1, rooted)
    above = np.where(known, place, -1)
    circular = np.bincount(columns.trace[_circular(above)], minlength=len(wrong)) > 0
    wrong[circular] |= 1 << Reason.CYCLE
    wrong[(rooted == 0) & ~circular] |= 1 << Reason.NO_ROOT
    wrong[rooted > 1] |= 1 << Reason.TWO_ROOTS
    wrong[columns.trace[lost]] |= 1 << Reason.CUT_OFF
    return above, begun


def _circular(above: Ints) -> Flags:
    """Flags of spans whose line of ancestors has no end."""
    ancestor = above
    for _ in range(len(above).bit_length() + 1):
        ancestor = np.where(ancestor >= 0, ancestor[np.maximum(ancestor, 0)], -1)
    return ancestor >= 0


def _calls(columns: Columns, above: Ints) -> _Calls:
    child = above >= 0
    parent = np.maximum(above, 0)
    foreign = child & (columns.service[parent] != columns.service)
    asked = child & np.isin(columns.kind[parent], (Kind.CLIENT, Kind.PRODUCER))
    served = np.isin(columns.kind, (Kind.SERVER, Kind.CONSUMER))
    calling = np.isin(columns.kind, (Kind.CLIENT, Kind.PRODUCER))
    entered = (served & (~child | foreign | asked)) | (foreign & ~calling) | (~child & (columns.kind == Kind.UNSTATED))
    callees = np.bincount(above[entered & child], minlength=len(above))
    wrapped = np.bincount(above[child & calling & ~foreign], minlength=len(above))
    leaves = calling & (callees == 0) & (wrapped == 0)
    nodes = np.flatnonzero(entered | leaves)
    # The nearest span above that is a call: such a span points to itself, and any other to its parent. Each pass
    # doubles the distance.
    end = len(above)
    jump = np.append(np.where(entered, np.arange(end), np.where(child, above, end)), end)
    for _ in range(end.bit_length()):
        jump = jump[jump]
    host = jump[np.where(child, above, end)][nodes]
    alone = asked & entered & (callees[parent] == 1)
    client = np.where(alone, parent, np.arange(end))[nodes]
    return _Calls(nodes, client, np.where((host < end) & entered[np.minimum(host, end - 1)], host, -1))


def _linked(
    spans: Spans, columns: Columns, above: Ints, calls: _Calls, directory: Directory, wrong: Ints
) -> tuple[Linked, Flags]:
    """The calls, and the flags of those that were moved into the call of their caller."""
    nodes = calls.spans
    tree = columns.trace[nodes]
    leaf = np.isin(columns.kind[nodes], (Kind.CLIENT, Kind.PRODUCER))
    empty = spans.names.setdefault("", len(spans.names))
    caller = np.where(above[nodes] >= 0, columns.service[np.maximum(above[nodes], 0)], empty)
    source = np.where(leaf, columns.service[nodes], caller)
    destination = np.where(leaf, columns.peer[nodes], columns.service[nodes])
    code = _codes(list(spans.names), source, destination, directory)
    for reason in (Reason.UNKNOWN_SERVICE, Reason.UNDECLARED_CALL, Reason.UNCLEAR_CALL):
        wrong[tree[code == -1 - reason]] |= 1 << reason
    places = np.full(len(columns.id), -1, np.int64)
    places[nodes] = np.arange(len(nodes))
    parent = np.where(calls.host >= 0, places[np.maximum(calls.host, 0)], -1)
    host = np.maximum(parent, 0)
    wrong[tree[(parent >= 0) & (destination[host] != source)]] |= 1 << Reason.IDS
    depth = _depths(parent)
    wrong[tree[depth > MAX_DEPTH]] |= 1 << Reason.TOO_LARGE
    queued = np.isin(columns.kind[nodes], (Kind.PRODUCER, Kind.CONSUMER)) | (columns.follows[nodes] > 0)
    start, end, moved = _by_the_clock_of_the_caller(columns, calls, parent, queued)
    linked = Linked(
        tree,
        parent,
        depth,
        code,
        start,
        end,
        columns.start[nodes],
        columns.end[nodes],
        queued,
        1,
        spans.resolution,
    )
    return linked, moved


def _by_the_clock_of_the_caller(
    columns: Columns, calls: _Calls, parent: Ints, queued: Flags
) -> tuple[Ints, Ints, Flags]:
    """Start and end of each call by the clock of the caller, and the flags of calls that had to be moved.

    A call without a client's span has its times by the clock of the callee. If these do not fit into the span of the
    caller, the call is moved to the middle of that span, as Jaeger does: request and answer then take equally long. A
    call that is longer than the span of the caller is moved if it begins before that span, and then begins with it.
    """
    start, end = columns.start[calls.client], columns.end[calls.client]
    nodes = calls.spans
    calling = np.isin(columns.kind[nodes], (Kind.CLIENT, Kind.PRODUCER))
    foreign = (parent >= 0) & (calls.client == nodes) & ~calling & ~queued
    host = nodes[np.maximum(parent, 0)]
    first, last = columns.start[host], columns.end[host]
    spare = (last - first) - (end - start)
    wrong = foreign & (end >= start) & ((start < first) | ((end > last) & (spare >= 0)))
    shift = np.where(wrong, first + np.maximum(spare, 0) // 2 - start, 0)
    return start + shift, end + shift, wrong


def _codes(names: list[str], source: Ints, destination: Ints, directory: Directory) -> NDArray[np.int32]:
    pairs, inverse, counts = np.unique(source * len(names) + destination, return_inverse=True, return_counts=True)
    codes = np.zeros(len(pairs), np.int32)
    for at, (pair, count) in enumerate(zip(pairs.tolist(), counts.tolist(), strict=True)):
        ends = names[pair // len(names)], names[pair % len(names)]
        codes[at] = directory.code(*ends)
        directory.explain(*ends, int(codes[at]), count)
    call_codes: NDArray[np.int32] = codes[inverse]
    return call_codes


def _depths(parent: Ints) -> NDArray[np.int16]:
    """How many ancestors each call has, counted up to one more than `MAX_DEPTH`."""
    depth = np.zeros(len(parent), np.int16)
    ancestor = parent
    for _ in range(MAX_DEPTH + 1):
        if not (ancestor >= 0).any():
            break
        depth += ancestor >= 0
        ancestor = np.where(ancestor >= 0, parent[np.maximum(ancestor, 0)], -1)
    return depth


def _reasons(wrong: Ints, numbers: Ints, linked: Linked) -> Ints:
    """The reason why each trace is dropped, or -1. A trace without a call has no root; a trace with two calls from
    outside has two roots."""
    roots = np.bincount(linked.tree[linked.parent < 0], minlength=len(wrong))
    wrong[(roots == 0) & (wrong & (1 << Reason.CYCLE) == 0)] |= 1 << Reason.NO_ROOT
    wrong[(roots > 1) & (wrong & ((1 << Reason.CUT_OFF) | (1 << Reason.CYCLE)) == 0)] |= 1 << Reason.TWO_ROOTS
    wrong[numbers > MAX_CALLS] |= 1 << Reason.TOO_LARGE
    wrong[linked.tree[too_long(linked)]] |= 1 << Reason.TOO_LARGE
    wrong[linked.tree[runs_back(linked)]] |= 1 << Reason.CLOCK
    lowest = wrong & -wrong
    reasons: Ints = np.where(wrong == 0, -1, np.log2(np.maximum(lowest, 1)).astype(np.int64))
    return reasons
