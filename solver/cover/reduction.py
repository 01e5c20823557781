"""Reductions of weighted vertex cover: they make the graph small before any search.

Without costs, capacities and an earlier plan, a placement is a vertex cover: a destination with undecided decisions
hosts an ADM, or every sender of these decisions does. The rules below remove vertices that are known to be inside, or
outside, of some cheapest cover, and record how to put them back (`lift`). Each rule keeps the cost of a cheapest cover.
Where the weights make that cover unique (`vertex_cover.py`), the rules keep the cover itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

DENSE = 40
"""Larger neighbourhoods are not searched for dominance: the search is quadratic, and other rules remove them."""
WIDE = 200
"""The largest neighbourhood that the expensive rules examine."""


class _Leaf(NamedTuple):
    """`vertex` has the one neighbour `parent`, and is in the cover exactly if `parent` is not."""

    vertex: int
    parent: int


class _Fold(NamedTuple):
    """`merged` replaces `vertex` and its two neighbours.

    If `merged` is in the cover, both neighbours are in the lifted cover; otherwise `vertex` is.
    """

    vertex: int
    neighbours: tuple[int, int]
    merged: int


class Graph:
    """An undirected graph with positive integer weights. Reductions shrink it; `lift` extends a cover to all of it."""

    def __init__(self, weights: Sequence[int], edges: Iterable[tuple[int, int]]) -> None:
        self.weights = list(weights)
        self.neighbours: list[set[int]] = [set() for _ in self.weights]
        for one, other in edges:
            self.neighbours[one].add(other)
            self.neighbours[other].add(one)
        self.alive = [True] * len(self.weights)
        self.taken: list[int] = []
        self.paid = 0
        """Cost of the decided vertices: a cheapest cover costs this plus a cheapest cover of the undecided part."""
        self._steps: list[_Leaf | _Fold] = []
        self._queue = list(range(len(self.weights)))
        self._queued = [True] * len(self.weights)
        self._expensive: list[int] = []
        self._deferred = [False] * len(self.weights)

    def copy(self) -> Graph:
        """The undecided part alone, under the same numbers; lifting it gives a cover of that part."""
        other = Graph((), ())
        other.paid = self.paid
        other.weights = list(self.weights)
        other.neighbours = [set(near) for near in self.neighbours]
        other.alive = list(self.alive)
        other._queue = list(self._queue)
        other._queued = list(self._queued)
        other._expensive = list(self._expensive)
        other._deferred = list(self._deferred)
        return other

    def vertices(self) -> list[int]:
        """Vertices still undecided that have an edge."""
        return [v for v, near in enumerate(self.neighbours) if self.alive[v] and near]

    def lift(self, cover: Iterable[int]) -> set[int]:
        """A cover of the original graph from a cover of the undecided part."""
        chosen = set(self.taken)
        chosen.update(cover)
        for step in reversed(self._steps):
            if isinstance(step, _Leaf):
                if step.parent not in chosen:
                    chosen.add(step.vertex)
            elif step.merged in chosen:
                chosen.discard(step.merged)
                chosen.update(step.neighbours)
            else:
                chosen.add(step.vertex)
        return chosen

    def take(self, vertex: int) -> None:
        """Put a vertex into the cover."""
        self.taken.append(vertex)
        self.paid += self.weights[vertex]
        self._remove(vertex)

    def leave(self, vertex: int) -> None:
        """Keep a vertex out of the cover, so all its neighbours are in it."""
        for near in sorted(self.neighbours[vertex]):
            self.take(near)
        self._remove(vertex)

    def _remove(self, vertex: int) -> None:
        self.alive[vertex] = False
        for near in self.neighbours[vertex]:
            self.neighbours[near].discard(vertex)
            self._enqueue(near)
        self.neighbours[vertex] = set()

    def _enqueue(self, vertex: int) -> None:
        if not self._queued[vertex]:
            self._queued[vertex] = True
            heappush(self._queue, vertex)

    def reduce(self) -> None:
        """Apply the rules until none applies to a vertex whose neighbours changed, in canonical order."""
        heapify(self._queue)
        while self._queue or self._expensive:
            if self._queue:
                vertex = heappop(self._queue)
                self._queued[vertex] = False
                if self.alive[vertex] and self.neighbours[vertex] and not self._apply_cheap_rule(vertex):
                    self._defer(vertex)
            else:
                # The expensive rule gets only the vertices to which no cheap rule applies.
                vertex = heappop(self._expensive)
                self._deferred[vertex] = False
                if self.alive[vertex] and 2 <= len(self.neighbours[vertex]) <= DENSE and self._unconfined(vertex):
                    self.take(vertex)

    def _defer(self, vertex: int) -> None:
        if not self._deferred[vertex]:
            self._deferred[vertex] = True
            heappush(self._expensive, vertex)

    def _apply_cheap_rule(self, vertex: int) -> bool:
        """Apply the first cheap rule that fits; False if none does."""
        near = self.neighbours[vertex]
        weights = self.weights
        weight = weights[vertex]
        if sum([weights[other] for other in near]) <= weight:
            self.leave(vertex)
            return True
        if len(near) == 1:
            (parent,) = near
            weights[parent] -= weight
            self.paid += weight
            self._steps.append(_Leaf(vertex, parent))
            self._remove(vertex)
            return True
        if len(near) > DENSE:
            return False
        return self._dominated(vertex) or (len(near) == 2 and self._fold(vertex))

    def _dominated(self, vertex: int) -> bool:
        """Take a neighbour that is adjacent to all other neighbours of `vertex` and costs no more."""
        near = self.neighbours[vertex]
        weight = self.weights[vertex]
        for other in sorted(near):
            seen = self.neighbours[other]
            if self.weights[other] > weight or len(seen) < len(near):
                continue
            if all(third in seen for third in near if third != other):
                self.take(other)
                self._enqueue(vertex)
                return True
        return False

    def _fold(self, vertex: int) -> bool:
        one, other = sorted(self.neighbours[vertex])
        weights = self.weights
        weight = weights[vertex]
        if other in self.neighbours[one] or weight < max(weights[one], weights[other]):
            return False
        merged = len(weights)
        self.paid += weight
        weights.append(weights[one] + weights[other] - weight)
        near = (self.neighbours[one] | self.neighbours[other]) - {vertex}
        self._steps.append(_Fold(vertex, (one, other), merged))
        for gone in (vertex, one, other):
            self._remove(gone)
        self.neighbours.append(near)
        self.alive.append(True)
        self._queued.append(False)
        self._deferred.append(False)
        for third in sorted(near):
            self.neighbours[third].add(merged)
            self._enqueue(third)
        self._enqueue(merged)
        return True

    def _unconfined(self, vertex: int) -> bool:
        """Whether some cheapest cover has `vertex` in it, shown by assuming that none has.

        The assumption puts `vertex`, and then further vertices, into `out`: the set outside every cheapest cover.
        A neighbour of `out` is then inside. Let the neighbour cost no less than its one neighbour in `out`, and let
        `beyond` be its other neighbours that are no neighbours of `out`:

            `beyond` is empty        the two can be exchanged, which refutes the assumption
            `beyond` is one vertex   that vertex has to be outside, too
        """
        neighbours = self.neighbours
        out = {vertex}
        closed = set(neighbours[vertex])
        closed.add(vertex)
        while len(closed) <= WIDE:
            extension = -1
            for other in sorted(closed - out):
                around = neighbours[other]
                inside = around & out
                if len(inside) != 1 or self.weights[other] < self.weights[next(iter(inside))]:
                    continue
                beyond = around - closed
                if not beyond:
                    return True
                if len(beyond) == 1 and extension < 0:
                    (extension,) = beyond
            if extension < 0:
                return False
            out.add(extension)
            closed.add(extension)
            closed |= neighbours[extension]
        return False
