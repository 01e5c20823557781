"""Weighted vertex cover, made small before anybody searches.

Without costs, capacities and an earlier plan, a placement is a vertex cover: for a destination `d` with decisions
that may go either way, `d` hosts an ADM or every one of their senders does. The rules below remove vertices whose
part in some cheapest cover is settled, and remember how to put them back. Each keeps the cost of a cheapest cover;
where weights make that cover unique (see `cover.py`) they keep the cover itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

DENSE = 40
"""Neighbourhoods larger than this are not searched for dominance: the work is quadratic and hubs fall to others."""
WIDE = 200
"""The largest neighbourhood that the costlier rules look at."""


class _Leaf(NamedTuple):
    """`vertex` hung on `parent` alone and is needed exactly where `parent` is not chosen."""

    vertex: int
    parent: int


class _Fold(NamedTuple):
    """`vertex` with its two neighbours became `merged`: both are chosen where `merged` is, else `vertex` is."""

    vertex: int
    neighbours: tuple[int, int]
    merged: int


class Graph:
    """An undirected graph with positive integer weights that shrinks, and can lift a cover of what is left."""

    def __init__(self, weights: Sequence[int], edges: Iterable[tuple[int, int]]) -> None:
        self.weights = list(weights)
        self.neighbours: list[set[int]] = [set() for _ in self.weights]
        for one, other in edges:
            self.neighbours[one].add(other)
            self.neighbours[other].add(one)
        self.alive = [True] * len(self.weights)
        self.taken: list[int] = []
        self.paid = 0
        """Cost of what is settled: a cheapest cover costs this plus a cheapest cover of what is left."""
        self._steps: list[_Leaf | _Fold] = []
        self._waiting = list(range(len(self.weights)))
        self._queued = [True] * len(self.weights)
        self._hard: list[int] = []
        self._deferred = [False] * len(self.weights)

    def copy(self) -> Graph:
        """The undecided part alone, under the same numbers; lifting it gives a cover of that part."""
        other = Graph((), ())
        other.paid = self.paid
        other.weights = list(self.weights)
        other.neighbours = [set(near) for near in self.neighbours]
        other.alive = list(self.alive)
        other._waiting = list(self._waiting)
        other._queued = list(self._queued)
        other._hard = list(self._hard)
        other._deferred = list(self._deferred)
        return other

    def vertices(self) -> list[int]:
        """Vertices still undecided that have an edge."""
        return [v for v, near in enumerate(self.neighbours) if self.alive[v] and near]

    def lift(self, cover: Iterable[int]) -> set[int]:
        """A cover of the original graph from a cover of what is left."""
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
            self._wake(near)
        self.neighbours[vertex] = set()

    def _wake(self, vertex: int) -> None:
        if not self._queued[vertex]:
            self._queued[vertex] = True
            heappush(self._waiting, vertex)

    def reduce(self) -> None:
        """Apply every rule until none applies; vertices are tried in canonical order."""
        heapify(self._waiting)
        while self._waiting or self._hard:
            if self._waiting:
                vertex = heappop(self._waiting)
                self._queued[vertex] = False
                if self.alive[vertex] and self.neighbours[vertex] and not self._try(vertex):
                    self._defer(vertex)
            else:
                # The costlier rule only gets what the cheap ones could not settle.
                vertex = heappop(self._hard)
                self._deferred[vertex] = False
                if self.alive[vertex] and 2 <= len(self.neighbours[vertex]) <= DENSE and self._unconfined(vertex):
                    self.take(vertex)

    def _defer(self, vertex: int) -> None:
        if not self._deferred[vertex]:
            self._deferred[vertex] = True
            heappush(self._hard, vertex)

    def _try(self, vertex: int) -> bool:
        """Apply the first cheap rule that fits, and say whether one did."""
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
        """Take a neighbour that sees all that `vertex` sees and costs no more."""
        near = self.neighbours[vertex]
        weight = self.weights[vertex]
        for other in sorted(near):
            seen = self.neighbours[other]
            if self.weights[other] > weight or len(seen) < len(near):
                continue
            if all(third in seen for third in near if third != other):
                self.take(other)
                self._wake(vertex)
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
            self._wake(third)
        self._wake(merged)
        return True

    def _unconfined(self, vertex: int) -> bool:
        """Whether some cheapest cover has `vertex` in it, shown by assuming that none has.

        `out` grows from `vertex` and is then outside every cheapest cover. A neighbour that costs no less than its
        one neighbour in `out` could replace it there if nothing else were in the way: with nothing beyond, that
        refutes the assumption; with one vertex beyond, that vertex must be outside too.
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
