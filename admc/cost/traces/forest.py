"""Request trees as columns: one entry for each call, one array for each property. No object stands for a call.

    reader -> [Linked] -> [Forest] -> evaluation, shapes

A `Linked` call knows its parent and its times. A `Forest` knows what the callee does in which order: siblings that
overlap run together, and what outlives its parent is asynchronous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_CALLS: Final = 100_000
"""Most calls of one trace."""
MAX_DEPTH: Final = 200
MAX_NANOSECONDS: Final = 3600 * 10**9
"""Longest request."""
MAX_PART: Final = 1 << 19
"""Most calls of one `Linked`, unless one trace has more: parents and times together fit in 63 bits."""


@dataclass(frozen=True, slots=True)
class Linked:
    """Calls of whole trees; calls of a tree are neighbours. Times are in ticks."""

    tree: Ints
    """0 for the calls of the first tree, 1 for those of the next."""
    parent: Ints
    """Index of the call in which the caller was called; -1 at a root."""
    depth: NDArray[np.int16]
    """0 at a root."""
    call: NDArray[np.int32]
    """Code of the directory."""
    start: Ints
    """As the caller saw it."""
    end: Ints
    inner_start: Ints
    """As the callee saw it: by the same clock as the times of the calls that it made."""
    inner_end: Ints
    detached: Flags
    """Known to be asynchronous, such as a message in a queue."""
    tick: int
    """Nanoseconds of a tick."""
    resolution: int
    """By how many ticks two times may contradict each other because they were rounded."""


class Forest(NamedTuple):
    """Trees ready for evaluation. `order` has all calls that delay their parent, level by level, the roots' callees
    first: calls of one parent are neighbours, and so are those of them that run together."""

    linked: Linked
    work: Ints
    """Nanoseconds of the callee's own time."""
    asynchronous: Flags
    order: Ints
    group_starts: Ints
    """Places in `order` where calls that run together begin."""
    parent_starts: Ints
    """Places in `group_starts` where the groups of a parent begin."""
    parents: Ints
    """The parent of each of these."""
    levels: Ints
    """Places in `order` where a level begins, and the end."""
    roots: Ints
    """The root of each tree."""
    firsts: Ints
    """The first call of each tree."""


def runs_back(linked: Linked) -> Flags:
    """For each call: whether it ends before it begins, or begins before its caller was called."""
    child = linked.parent >= 0
    parent = np.maximum(linked.parent, 0)
    early = child & (linked.start < linked.inner_start[parent] - linked.resolution)
    return early | (linked.end < linked.start) | (linked.inner_end < linked.inner_start)


def too_long(linked: Linked) -> Flags:
    """For each call: whether it takes longer than a request may, or begins so long after its caller was called."""
    most = MAX_NANOSECONDS // linked.tick
    child = linked.parent >= 0
    parent = np.maximum(linked.parent, 0)
    overlong: Flags = child & (np.abs(linked.start - linked.inner_start[parent]) > most)
    overlong |= (linked.end - linked.start) > most
    overlong |= (linked.inner_end - linked.inner_start) > most
    return overlong


def forest(linked: Linked) -> Forest:
    child = linked.parent >= 0
    parent = np.maximum(linked.parent, 0)
    asynchronous = child & (linked.detached | (linked.end > linked.inner_end[parent] + linked.resolution))
    nodes = np.flatnonzero(child & ~asynchronous)
    nodes = nodes[_by_parent(linked, nodes)]
    first, together, covered = _siblings(linked, nodes)
    own = linked.inner_end - linked.inner_start - covered
    level = np.argsort(linked.depth[nodes], kind="stable")
    nodes, first, together = nodes[level], first[level], together[level]
    groups = np.flatnonzero(~together)
    parents = np.flatnonzero(first[groups])
    depths = linked.depth[nodes]
    deepest = int(depths[-1]) if len(depths) else 0
    return Forest(
        linked,
        np.maximum(own, 0) * linked.tick,
        asynchronous,
        nodes,
        groups,
        parents,
        linked.parent[nodes[groups[parents]]],
        np.searchsorted(depths, np.arange(1, deepest + 2)).astype(np.int64),
        np.flatnonzero(~child),
        np.flatnonzero(np.diff(linked.tree, prepend=-1)),
    )


def _by_parent(linked: Linked, nodes: Ints) -> Ints:
    """Places of `nodes` by parent, then by start, then the longest first."""
    if not len(nodes):
        return nodes
    parent = linked.parent[nodes]
    start = linked.start[nodes] - linked.inner_start[parent]
    start -= start.min()
    spent = linked.end[nodes] - linked.start[nodes]
    most = int(spent.max())
    bits = [int(column.max()).bit_length() for column in (parent, start)] + [most.bit_length()]
    if sum(bits) > 63:
        return np.lexsort((-spent, start, parent)).astype(np.int64)
    return np.argsort((((parent << bits[1]) | start) << bits[2]) | (most - spent)).astype(np.int64)


def _siblings(linked: Linked, nodes: Ints) -> tuple[Flags, Flags, Ints]:
    """Of sorted calls: whether each is the first of its parent, and whether it runs beside the calls before it. Of all
    calls: how many ticks its callee waited for calls."""
    covered = np.zeros(len(linked.tree), np.int64)
    if not len(nodes):
        none = np.zeros(0, np.bool_)
        return none, none, covered
    parent = linked.parent[nodes]
    begun = linked.inner_start[parent]
    start = np.maximum(linked.start[nodes] - begun, 0)
    end = linked.end[nodes] - begun
    first = np.ones(len(nodes), np.bool_)
    first[1:] = parent[1:] != parent[:-1]
    # One running maximum for all parents: each has a range of its own.
    above = (np.cumsum(first) - 1) * (int(end.max()) + 1)
    ends = np.maximum.accumulate(np.maximum(end, 0) + above)
    before = np.zeros(len(nodes), np.int64)
    before[1:] = ends[:-1] - above[1:]
    before[first] = 0
    together = ~first & (start < before - linked.resolution)
    length = linked.inner_end[parent] - begun
    new = np.maximum(np.minimum(end, length) - np.maximum(start, before), 0)
    starts = np.flatnonzero(first)
    covered[parent[starts]] = np.add.reduceat(new, starts)
    return first, together, covered
