"""Counts trees by their shape. Trees of one shape make the same calls in the same arrangement, whatever their times.

    Forest -> [shapes_of] -> Sampled: the shapes of a part -> [merged] -> Kept: the shapes of all parts

The shape of a call is a hash of its code and of its groups, computed level by level over all trees. The hashes of calls
that run together are added up, and so are those of groups: their order has no influence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admc.cost.traces.forest import Flags, Forest, Ints

MAX_KEPT: Final = 100_000
"""Most shapes that are counted; the trees of shapes that come later are dropped."""
Mixed = NDArray[np.uint64]
_ASYNC: Final = np.uint64(0x9FB21C651E98DF25)
_GROUP: Final = np.uint64(0xD6E8FEB86659FD93)
_LANES: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
"""Seeds of two hashes of 64 bits: two of a billion shapes have equal hashes with a chance below 10^-20."""


@dataclass(slots=True)
class Shape:
    """The calls of trees that have one shape, in canonical order: each call comes after its parent."""

    calls: list[int]
    parents: list[int]
    groups: list[int]
    """Calls of one parent that have the same number run together; -1 marks an asynchronous call."""
    work: list[int]
    """Nanoseconds of each call, as the sum over all trees."""
    count: int = 0


Shapes = dict[tuple[int, int], Shape]


class Sampled(NamedTuple):
    """The shapes of one part."""

    shapes: Shapes
    trees: int
    calls: int
    first: int
    last: int
    """When the first and the last tree begin, in nanoseconds."""


@dataclass(slots=True)
class Kept:
    """Shapes of all parts, and how many trees and calls were left out since there are too many shapes."""

    shapes: Shapes = field(default_factory=dict)
    lost_trees: int = 0
    lost_calls: int = 0

    def add(self, shapes: Shapes) -> None:
        for key, shape in shapes.items():
            known = self.shapes.get(key)
            if known is not None:
                known.count += shape.count
                known.work = [one + other for one, other in zip(known.work, shape.work, strict=True)]
            elif len(self.shapes) < MAX_KEPT:
                self.shapes[key] = shape
            else:
                self.lost_trees += shape.count
                self.lost_calls += shape.count * len(shape.calls)

    def most_frequent(self, number: int) -> list[Shape]:
        """The most frequent shapes. The others count as lost."""
        ranked = sorted(self.shapes.items(), key=lambda entry: (-entry[1].count, entry[0]))
        for _, shape in ranked[number:]:
            self.lost_trees += shape.count
            self.lost_calls += shape.count * len(shape.calls)
        return [shape for _, shape in ranked[:number]]


class _Arranged(NamedTuple):
    """For each call: its group, the two hashes of its shape, and those of its group."""

    group: Ints
    """Index of the group. An asynchronous call or a root has a number that no other call has."""
    shapes: tuple[Mixed, ...]
    group_shapes: tuple[Mixed, ...]


def shapes_of(forest: Forest, marks: Mixed) -> Sampled:
    """The shapes of a part. `marks` has a number for each code of a call, which depends on names alone."""
    arranged = _arranged(forest, marks)
    order, starts, sizes = _canonical(forest, arranged)
    linked = forest.linked
    keys = np.stack([lane[forest.roots] for lane in arranged.shapes], axis=1)
    distinct_keys, first, shape = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    shape = shape.reshape(-1)
    widths = sizes[first]
    offsets = np.cumsum(widths) - widths
    within = np.arange(len(order)) - np.repeat(starts, sizes)
    slots = offsets[shape[linked.tree[order]]] + within
    work = _totals(slots, forest.work[order], int(widths.sum()))
    counts = np.bincount(shape)
    places = np.zeros(len(order), np.int64)
    places[order] = within
    begin = linked.start[forest.roots] * linked.tick
    shapes = {}
    for at, tree in enumerate(first.tolist()):
        members = order[starts[tree] : starts[tree] + sizes[tree]]
        parents = linked.parent[members]
        shapes[int(distinct_keys[at, 0]), int(distinct_keys[at, 1])] = Shape(
            linked.call[members].tolist(),
            np.where(parents < 0, -1, places[np.maximum(parents, 0)]).tolist(),
            np.where(forest.asynchronous[members], -1, arranged.group[members]).tolist(),
            work[offsets[at] : offsets[at] + widths[at]].tolist(),
            int(counts[at]),
        )
    return Sampled(shapes, len(first) and int(counts.sum()), len(order), int(begin.min()), int(begin.max()))


def _totals(slots: Ints, values: Ints, size: int) -> Ints:
    """Exact sums by slot."""
    totals = np.zeros(size, np.int64)
    np.add.at(totals, slots, values)
    return totals


def _mix(values: Mixed) -> Mixed:
    """A permutation of the numbers of 64 bits: each bit of the output depends on all bits of the input."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Mixed = values ^ (values >> np.uint64(31))
    return mixed


def _arranged(forest: Forest, marks: Mixed) -> _Arranged:
    number = len(forest.linked.tree)
    sizes = np.diff(forest.group_starts, append=len(forest.order))
    group = np.arange(number) + len(sizes)
    group[forest.order] = np.repeat(np.arange(len(sizes)), sizes)
    lanes, group_lanes = [], []
    for seed in _LANES:
        shapes, groups = _lane(forest, group, len(sizes), marks[forest.linked.call] ^ seed, seed)
        lanes.append(shapes)
        group_lanes.append(groups)
    return _Arranged(group, tuple(lanes), tuple(group_lanes))


def _lane(forest: Forest, group: Ints, groups: int, calls: Mixed, seed: np.uint64) -> tuple[Mixed, Mixed]:
    """One hash of the shape of each call, and one of the group of each call."""
    linked = forest.linked
    depth = linked.depth
    inside = np.zeros(len(depth), np.uint64)
    shapes = np.zeros(len(depth), np.uint64)
    group_sums = np.zeros(groups, np.uint64)
    calls = _mix(calls)
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max()) + 2))
    asynchronous = forest.asynchronous
    for level in range(len(bounds) - 2, -1, -1):
        nodes = by_depth[bounds[level] : bounds[level + 1]]
        shapes[nodes] = _mix(calls[nodes] + inside[nodes] * seed)
        if not level:
            break
        late = nodes[asynchronous[nodes]]
        np.add.at(inside, linked.parent[late], _mix(shapes[late] + _ASYNC))
        waited = nodes[~asynchronous[nodes]]
        np.add.at(group_sums, group[waited], _mix(shapes[waited] + seed))
        leaders, places = np.unique(group[waited], return_index=True)
        np.add.at(inside, linked.parent[waited[places]], _mix(group_sums[leaders] + _GROUP))
    return shapes, np.append(group_sums, np.zeros(len(depth), np.uint64))[group]


def _canonical(forest: Forest, arranged: _Arranged) -> tuple[Ints, Ints, Ints]:
    """The calls tree by tree, in an order that depends on shapes alone, and for siblings of one shape on their times.
    Also the index at which each tree begins, and its size."""
    linked = forest.linked
    rank = np.zeros(len(linked.tree), np.int64)
    depth = linked.depth
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max()) + 2))
    for level in range(1, len(bounds) - 1):
        nodes = by_depth[bounds[level] : bounds[level + 1]]
        rank[nodes[_ranked(forest, arranged, nodes, rank[linked.parent[nodes]])]] = np.arange(len(nodes))
    order = np.lexsort((rank, depth, linked.tree))
    sizes = np.bincount(linked.tree)
    return order, np.cumsum(sizes) - sizes, sizes


def _ranked(forest: Forest, arranged: _Arranged, nodes: Ints, parents: Ints) -> Ints:
    linked = forest.linked
    group = arranged.group[nodes]
    late: Flags = forest.asynchronous[nodes]
    # Groups of one shape under one parent are ordered by their start, which is that of their first call.
    begins = linked.start[nodes] - linked.inner_start[linked.parent[nodes]]
    leading = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(leading, group, begins)
    return np.lexsort(
        (
            forest.work[nodes],
            linked.end[nodes] - linked.start[nodes],
            begins,
            arranged.shapes[1][nodes],
            arranged.shapes[0][nodes],
            group,
            leading[group],
            arranged.group_shapes[1][nodes],
            arranged.group_shapes[0][nodes],
            late,
            parents,
        )
    )


def merged(parts: Iterable[Sampled]) -> tuple[Kept, Sampled | None]:
    """The shapes of all parts, and the sums over all parts; None if there is no part."""
    kept = Kept()
    whole: Sampled | None = None
    for part in parts:
        kept.add(part.shapes)
        if whole is None:
            whole = part
        else:
            whole = Sampled(
                {},
                whole.trees + part.trees,
                whole.calls + part.calls,
                min(whole.first, part.first),
                max(whole.last, part.last),
            )
    return kept, whole
