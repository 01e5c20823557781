"""Collects rows of Alibaba's traces in compact columns: a row takes 24 bytes, so 50 million rows fit into memory.

Batch after Batch -> [Table] -> Rows of whole traces, part by part
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admc.cost.traces.directory import Directory
from admc.cost.traces.drops import Drops, TraceStart
from admc.cost.traces.failures import TooMuchError
from admc.cost.traces.forest import MAX_CALLS, MAX_DEPTH, Ints

MAX_ROWS: Final = 120_000_000
MAX_TRACES: Final = 20_000_000
MAX_PATHS: Final = 4_000_000
"""Most different ids of calls in all traces together."""
PART_ROWS: Final = 1_500_000
"""Most rows of one part, unless one trace has more."""
MAX_STAMP: Final = 1 << 43
"""Milliseconds before or after 1970, up to the year 2248. In nanoseconds such a time still fits into 64 bits."""
_PATH: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")
_LONGEST_PATH: Final = 2000


class Paths:
    """Gives each id of a call (`0.1.2`) a code, and keeps its parent (`0.1`). Code 0 is an id that cannot be read."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._parents = [-1]
        self._depths = [0]

    def code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is not None:
            return code
        if len(text) > _LONGEST_PATH or text.count(".") > MAX_DEPTH or not _PATH.fullmatch(text):
            return 0
        known, missing = text, []
        while known not in self._codes:
            missing.append(known)
            known, dot, _ = known.rpartition(".")
            if not dot:
                break
        parent = self._codes.get(known, -1)
        for path in reversed(missing):
            if len(self._parents) > MAX_PATHS:
                raise TooMuchError(f"more than {MAX_PATHS:,} different ids of calls")
            self._codes[path] = len(self._parents)
            self._depths.append(0 if parent < 0 else self._depths[parent] + 1)
            self._parents.append(parent)
            parent = self._codes[path]
        return parent

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """The parent of each id, or -1, and how many ids are above it."""
        return np.array(self._parents, np.int32), np.array(self._depths, np.int16)


class Rows(NamedTuple):
    """Rows of one batch, or of whole traces."""

    trace: NDArray[np.int32]
    path: NDArray[np.int32]
    call: NDArray[np.int32]
    """Twice the code by `Directory`, plus 1 for a message through a queue."""
    stamp: Ints
    """Milliseconds."""
    spent: NDArray[np.int32]
    """Milliseconds; negative in the row of the callee."""

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Rows:
        return Rows(self.trace[chosen], self.path[chosen], self.call[chosen], self.stamp[chosen], self.spent[chosen])


class Encoded(NamedTuple):
    """A column of texts in one batch: the different texts, and for each row an index into them."""

    texts: list[str]
    places: NDArray[np.int32]


class Batch(NamedTuple):
    file: str
    first: int
    """Number of its first row in the file, from 1."""
    trace: Encoded
    path: Encoded
    source: Encoded
    destination: Encoded
    kind: Encoded
    stamp: NDArray[np.float64]
    spent: NDArray[np.float64]


class Table:
    """All rows of the files. Traces get numbers in the order in which they appear."""

    def __init__(self, directory: Directory, drops: Drops) -> None:
        self.paths = Paths()
        self.traces: dict[str, int] = {}
        self._directory = directory
        self._drops = drops
        self._rows: list[Rows] = []
        self._unusable: set[int] = set()
        self._number = 0
        self._firsts: list[tuple[int, str, NDArray[np.int64]]] = []

    def add(self, batch: Batch) -> None:
        self._number += len(batch.stamp)
        if self._number > MAX_ROWS:
            raise TooMuchError(f"more than {MAX_ROWS:,} rows")
        known = len(self.traces)
        traces = self._traces(batch)
        self._note_first(batch, known, traces)
        paths = np.array([self.paths.code(text) for text in batch.path.texts], np.int32)
        rows = Rows(
            traces[batch.trace.places],
            paths[batch.path.places],
            self._calls(batch),
            _whole(batch.stamp),
            _whole(batch.spent).astype(np.int32),
        )
        good = _good(batch) & (rows.trace >= 0) & (rows.path > 0)
        if not good.all():
            at = batch.first + int(np.argmin(good))
            self._drops.skip(int(len(good) - good.sum()), f"row {at} of `{batch.file}`")
            self._unusable.update(np.unique(rows.trace[~good & (rows.trace >= 0)]).tolist())
            rows = rows.take(good)
        self._rows.append(rows)

    def _traces(self, batch: Batch) -> NDArray[np.int32]:
        codes = np.array(
            [self.traces.setdefault(text, len(self.traces)) if text else -1 for text in batch.trace.texts], np.int32
        )
        if len(self.traces) > MAX_TRACES:
            raise TooMuchError(f"more than {MAX_TRACES:,} traces")
        return codes

    def _note_first(self, batch: Batch, known: int, codes: NDArray[np.int32]) -> None:
        """Keep the row in which each new trace begins."""
        count = len(self.traces) - known
        first = np.full(len(codes), -1, np.int64)
        places = batch.trace.places
        first[places[::-1]] = np.arange(len(places) - 1, -1, -1)
        new = np.zeros(count, np.int64)
        fresh = codes >= known
        new[codes[fresh] - known] = first[fresh] + batch.first
        self._firsts.append((known, batch.file, new))

    def _calls(self, batch: Batch) -> NDArray[np.int32]:
        """The column `Rows.call`. The directory counts the names that it does not know."""
        width = len(batch.destination.texts)
        pairs = batch.source.places.astype(np.int64) * width + batch.destination.places
        size = len(batch.source.texts) * width
        if size <= 1 << 23:
            counts = np.bincount(pairs, minlength=size)
            used_pairs = np.flatnonzero(counts)
            places, numbers = pairs, counts[used_pairs]
            table = np.zeros(size, np.int32)
        else:
            used_pairs, places, numbers = np.unique(pairs, return_inverse=True, return_counts=True)
            table = np.zeros(len(used_pairs), np.int32)
        for at, (pair, number) in enumerate(zip(used_pairs.tolist(), numbers.tolist(), strict=True)):
            source, destination = batch.source.texts[pair // width], batch.destination.texts[pair % width]
            code = self._directory.code(source, destination)
            if code < 0:
                self._directory.explain(source, destination, code, number)
            table[pair if size <= 1 << 23 else at] = 2 * code
        queued = np.array([text == "mq" for text in batch.kind.texts], np.int32)
        result: NDArray[np.int32] = table[places] + queued[batch.kind.places]
        return result

    def place(self, trace: int) -> TraceStart:
        """Where a trace begins."""
        first, file, numbers = next(batch for batch in reversed(self._firsts) if batch[0] <= trace and len(batch[2]))
        return TraceStart(file, "row", int(numbers[trace - first]), next(islice(self.traces, trace, None)))

    def counts(self) -> Ints:
        """The usable rows of each trace."""
        counts = np.zeros(len(self.traces), np.int64)
        for rows in self._rows:
            counts += np.bincount(rows.trace, minlength=len(counts))
        return counts

    def unusable(self) -> NDArray[np.bool_]:
        """Traces with a row that cannot be used: a call may be missing, so they are not whole."""
        flags = np.zeros(len(self.traces), np.bool_)
        flags[list(self._unusable)] = True
        return flags

    def parts(self, counts: Ints, left_out: NDArray[np.bool_]) -> Iterator[tuple[int, Rows]]:
        """The rows of whole traces in parts of `PART_ROWS`, each part with the number of its first trace."""
        ends = np.cumsum(np.where(left_out, 0, counts))
        ranges = [(int(rows.trace.min()), int(rows.trace.max())) if len(rows.trace) else (0, -1) for rows in self._rows]
        low = 0
        while low < len(counts):
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + PART_ROWS, side="right")))
            picked = [
                rows if low <= first and last < high else rows.take((rows.trace >= low) & (rows.trace < high))
                for rows, (first, last) in zip(self._rows, ranges, strict=True)
                if first < high and last >= low
            ]
            if left_out[low:high].any():
                picked = [rows.take(~left_out[rows.trace]) for rows in picked]
            if sum(len(rows.trace) for rows in picked):
                yield low, Rows(*(np.concatenate(columns) for columns in zip(*picked, strict=True)))
            low = high


def too_large(counts: Ints) -> NDArray[np.bool_]:
    large: NDArray[np.bool_] = counts > 2 * MAX_CALLS
    return large


def _good(batch: Batch) -> NDArray[np.bool_]:
    """Flags of rows whose times are numbers, in a range in which sums are exact."""
    good: NDArray[np.bool_] = (
        np.isfinite(batch.stamp)
        & np.isfinite(batch.spent)
        & (np.abs(batch.stamp) < MAX_STAMP)
        & (np.abs(batch.spent) < 2.0**30)
    )
    return good


def _whole(values: NDArray[np.float64]) -> Ints:
    return np.rint(np.clip(np.nan_to_num(values), -(2.0**52), 2.0**52)).astype(np.int64)
