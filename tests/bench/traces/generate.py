"""Random traces in Alibaba's columns, seeded: a tenth has over 40 calls, the largest 1,000, and the mean is 25.

Calls follow a layered call graph, so that each is declared in the program that `program` writes. Every call stands
twice, with a negative `rt` in the callee's row; times are in milliseconds; rows of concurrent traces are mixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

LAYERS: Final = 10
WIDTH: Final = 30
CALLEES: Final = 4
LARGEST: Final = 1000
CHUNK: Final = 20_000
"""Traces that are generated at once."""
SPAN_MS: Final = 3_600_000
DEFECTS: Final = 0.005
"""Share of the traces in which rows are missing, stand twice, have the id of another call, or an unknown service."""
COLUMNS: Final = ("", "timestamp", "traceid", "rpcid", "um", "rpctype", "interface", "dm", "rt")


class Trees(NamedTuple):
    """Calls of some traces, each parent before its children. Times are microseconds since the first trace."""

    tree: Ints
    parent: Ints
    """Index of the call in which the caller was called; -1 at the root."""
    service: Ints
    """The callee: layer * WIDTH + place in the layer."""
    path: Ints
    """Index into the list of `rpcid`."""
    start: Ints
    end: Ints


class Written(NamedTuple):
    csv: Path
    parquet: Path
    traces: int
    calls: int
    rows: int


def program() -> str:
    """The program that declares all calls."""
    lines = ["app traced", "profile meshinsight", "external users"]
    lines += [f"service {name(each)} {{ http 80 }}" for each in range(LAYERS * WIDTH)]
    lines += [f"call users -> {name(each)} {{ rate 40/s  size 400B }}" for each in range(WIDTH)]
    for each in range((LAYERS - 1) * WIDTH):
        callees = sorted(name(int(callee)) for callee in _callees(each))
        lines.append(f"call {name(each)} -> {', '.join(callees)} {{ rate 40/s  size 400B }}")
    targets = ", ".join(name(each) for each in range(WIDTH, 4 * WIDTH, 3))
    lines.append(f'policy logged = access_log(format: "json") on * -> {{{targets}}}')
    lines.append(f"policy quota = rate_limit(requests: 5000, per: 1s) on * -> {name(5)}")
    return "\n".join(lines) + "\n"


def name(service: int) -> str:
    return f"s{service // WIDTH}_{service % WIDTH}"


def _callees(service: int) -> Ints:
    layer, place = divmod(service, WIDTH)
    steps = np.array([0, 1, 7, 13])[:CALLEES]
    found: Ints = (layer + 1) * WIDTH + (place + steps) % WIDTH
    return found


def sizes(count: int, random: Generator) -> Ints:
    """Calls of each trace: 9 of 10 small, the others to 1,000 with a long tail."""
    small = random.integers(2, 31, count)
    large = np.minimum(LARGEST, (41 * (1 - random.random(count)) ** -0.72).astype(np.int64))
    found: Ints = np.where(random.random(count) < 0.1, large, small).astype(np.int64)
    if count:
        found[-1] = LARGEST
    return found


class Paths:
    """The `rpcid` of calls: interned, since traces share them."""

    def __init__(self) -> None:
        self.texts = ["0"]
        self._known: dict[int, int] = {}

    def child(self, parents: Ints, places: Ints) -> Ints:
        keys = parents * (LARGEST + 1) + places
        found, inverse = np.unique(keys, return_inverse=True)
        codes = np.empty(len(found), np.int64)
        for at, key in enumerate(found.tolist()):
            code = self._known.get(key)
            if code is None:
                code = self._known[key] = len(self.texts)
                self.texts.append(f"{self.texts[key // (LARGEST + 1)]}.{key % (LARGEST + 1)}")
            codes[at] = code
        result: Ints = codes[inverse]
        return result


def trees(count: int, random: Generator, paths: Paths) -> Trees:
    """Some traces; they are built call by call, for all of them at once."""
    size = np.sort(sizes(count, random))[::-1]
    most = int(size[0])
    first = np.concatenate(([0], np.cumsum(size)[:-1]))
    total = int(size.sum())
    tree = np.repeat(np.arange(count), size)
    parent = np.full(total, -1)
    service = np.empty(total, np.int64)
    path = np.zeros(total, np.int64)
    children = np.zeros(total, np.int64)
    service[first] = random.integers(0, WIDTH, count)
    steps = np.array([0, 1, 7, 13])
    for at in range(1, most):
        alive = first[: int(np.searchsorted(-size, -at))]
        above = alive + (random.random(len(alive)) * at).astype(np.int64)
        above = np.where(service[above] >= (LAYERS - 1) * WIDTH, parent[above], above)
        node = alive + at
        parent[node] = above
        children[above] += 1
        layer, place = np.divmod(service[above], WIDTH)
        service[node] = (layer + 1) * WIDTH + (place + random.choice(steps[:CALLEES], len(alive))) % WIDTH
        path[node] = paths.child(path[above], children[above])
    start, end = _times(tree, parent, first, size, random)
    return Trees(tree, parent, service, path, start, end)


def _times(tree: Ints, parent: Ints, first: Ints, size: Ints, random: Generator) -> tuple[Ints, Ints]:
    """Start and end: children in sequence or beside their next sibling; a few outlive their caller."""
    total = len(tree)
    work = (random.exponential(800, total)).astype(np.int64)
    beside = random.random(total) < 0.4
    duration, before_end = np.zeros(total, np.int64), np.zeros(total, np.int64)
    closed, widest = np.zeros(total, np.int64), np.zeros(total, np.int64)
    for at in range(int(size[0]) - 1, -1, -1):
        node = first[: int(np.searchsorted(-size, -at))] + at
        duration[node] = work[node] + closed[node] + widest[node]
        if at:
            above = parent[node]
            alone = ~beside[node]
            closed[above] += np.where(alone, widest[above], 0)
            widest[above] = np.where(alone, 0, widest[above])
            before_end[node] = closed[above]
            widest[above] = np.maximum(widest[above], duration[node] + 60)
    end = np.zeros(total, np.int64)
    end[first] = random.integers(0, SPAN_MS * 1000, len(first)) + duration[first]
    late = random.random(total) < 0.02
    for at in range(1, int(size[0])):
        node = first[: int(np.searchsorted(-size, -at))] + at
        above = parent[node]
        end[node] = end[above] - before_end[node] - work[above] // 2
        end[node] += np.where(late[node], end[above] - end[node] + 5000, 0)
    return end - duration, end


def rows(found: Trees, first_trace: int, paths: Paths, random: Generator, defects: float) -> pa.Table:
    """Two rows for each call, in the order of their times; a few traces have a defect."""
    names = np.array([name(each) for each in range(LAYERS * WIDTH)] + ["USER", "elsewhere"])
    caller = np.where(found.parent < 0, LAYERS * WIDTH, found.service[found.parent])
    callee = found.service.copy()
    count = int(found.tree[-1]) + 1
    defect = np.where(random.random(count) < defects, random.integers(1, 5, count), 0)[found.tree]
    chosen = random.random(len(callee)) < 0.2
    callee = np.where((defect == 1) & chosen & (found.parent >= 0), LAYERS * WIDTH + 1, callee)
    copied = (defect == 4) & chosen & (found.parent >= 0)
    path = np.where(copied, np.roll(found.path, 1), found.path)
    start, spent = found.start // 1000, np.rint((found.end - found.start) / 1000).astype(np.int64)
    inner = np.maximum(0, found.end - found.start - 60)
    client = np.arange(len(callee))
    server = client
    kept = ~((defect == 2) & chosen & (found.parent >= 0))
    doubled = client[(defect == 3) & chosen]
    index = np.concatenate((client[kept], server[kept], doubled))
    sides = np.concatenate(
        (np.ones(int(kept.sum()), bool), np.zeros(int(kept.sum()), bool), np.ones(len(doubled), bool))
    )
    stamp = np.where(sides, start[index], (found.start[index] + 30) // 1000)
    spent = np.where(sides, spent[index], -np.rint(inner[index] / 1000).astype(np.int64))
    order = np.argsort(stamp, kind="stable")
    index, stamp, spent = index[order], stamp[order], spent[order]
    traces = pa.array([f"{0x0151_01CD_0000_0000 + first_trace + each:016x}9432900000" for each in range(count)])
    return pa.table(
        [
            pa.array(np.arange(len(index))),
            pa.array(stamp),
            traces.take(pa.array(found.tree[index])),
            pa.array(paths.texts).take(pa.array(path[index])),
            pa.array(names).take(pa.array(caller[index])),
            pa.array(["rpc"]).take(pa.array(np.zeros(len(index), np.int64))),
            pa.array(["a1b2c3"]).take(pa.array(np.zeros(len(index), np.int64))),
            pa.array(names).take(pa.array(callee[index])),
            pa.array(spent),
        ],
        names=list(COLUMNS),
    )


def tables(count: int, seed: int, defects: float = DEFECTS) -> Iterator[tuple[Trees, pa.Table]]:
    random = np.random.default_rng(seed)
    paths = Paths()
    for first in range(0, count, CHUNK):
        found = trees(min(CHUNK, count - first), random, paths)
        yield found, rows(found, first, paths, random, defects)


def write(folder: Path, count: int, seed: int, defects: float = DEFECTS) -> Written:
    """The same traces as CSV and as Parquet."""
    csv, parquet = folder / "calls.csv", folder / "calls.parquet"
    calls = written = 0
    outputs: list[pyarrow.csv.CSVWriter | pyarrow.parquet.ParquetWriter] = []
    try:
        for found, table in tables(count, seed, defects):
            if not outputs:
                quoted = pyarrow.csv.WriteOptions(quoting_style="none", quoting_header="none")
                outputs = [
                    pyarrow.csv.CSVWriter(csv, table.schema, write_options=quoted),
                    pyarrow.parquet.ParquetWriter(parquet, table.schema),
                ]
            for output in outputs:
                output.write_table(table)
            calls += len(found.tree)
            written += table.num_rows
    finally:
        for output in outputs:
            output.close()
    return Written(csv, parquet, count, calls, written)
