"""Trees of calls as columns: one array for each property, with one entry for each call. No object stands for a call.

    calls, spans -> Linked -> [forest] -> Forest -> evaluate, shapes

`Linked` has the parent and the times of each call. `Forest` has the order in which a callee makes its calls: calls that
overlap run together, and a call that ends after its parent is asynchronous.
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
"""Most calls of one `Linked` of spans, unless one trace has more. Fewer calls have shorter keys in `_by_parent`."""


@dataclass(frozen=True, slots=True)
class Linked:
    """Calls of whole trees. The calls of a tree are neighbours. Times are in ticks."""

    tree: Ints
    """0 for the calls of the first tree, 1 for those of the next."""
    parent: Ints
    """Index of the call that the caller was serving; -1 for a root."""
    depth: NDArray[np.int16]
    """0 for a root."""
    call: NDArray[np.int32]
    """The code by `Directory`."""
    start: Ints
    """By the clock of the caller, as is `end`."""
    end: Ints
    inner_start: Ints
    """By the clock of the callee, as are `inner_end`, and `start` and `end` of the calls that the callee makes."""
    inner_end: Ints
    detached: Flags
    """Whether the trace records it as asynchronous, such as a message in a queue."""
    tick: int
    """Nanoseconds of a tick."""
    resolution: int
    """Ticks by which two times may contradict each other, since they were rounded."""


class Forest(NamedTuple):
    """Trees ready for evaluation.

    `order` has the indexes of the calls that delay their parent, by depth. The calls of one parent are neighbours, and
    among them those that run together: a group. A call that runs alone is a group, too.
    """

    linked: Linked
    work: Ints
    """Nanoseconds in which the callee works itself, and does not wait for its own calls."""
    asynchronous: Flags
    order: Ints
    group_starts: Ints
    """Indexes into `order` at which a group begins."""
    parent_starts: Ints
    """Indexes into `group_starts` at which the groups of a parent begin."""
    parents: Ints
    """For each of `parent_starts`, the parent."""
    levels: Ints
    """Indexes into `order` at which a depth begins, from depth 1 on, and the length of `order`."""
    roots: Ints
    """The index of each tree's root."""
    firsts: Ints
    """The index of the first call of each tree."""


def runs_back(linked: Linked) -> Flags:
    """For each call: whether it ends before it begins, or begins before its caller was called."""
    child = linked.parent >= 0
    parent = np.maximum(linked.parent, 0)
    early = child & (linked.start < linked.inner_start[parent] - linked.resolution)
    return early | (linked.end < linked.start) | (linked.inner_end < linked.inner_start)


def too_long(linked: Linked) -> Flags:
    """For each call: whether it takes more than `MAX_NANOSECONDS`, or begins that far from the start of its parent."""
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
    """The order of `nodes` by parent, then by start, then by duration with the longest first."""
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
    """For each of the sorted calls `nodes`: whether it is the first of its parent, and whether it runs beside the calls
    before it. For each call of the trees: the ticks for which its callee waited for its own calls."""
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
    # One running maximum serves all parents, since the times of each parent are shifted into a range of their own.
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
