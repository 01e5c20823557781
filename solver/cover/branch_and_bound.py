"""Cheapest cover of a small graph by branching and reducing.

What the reductions leave of an ordinary application is a handful of vertices; this settles them in less time than
importing CP-SAT takes, and with weights of any size.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.cover.reduction import Graph


@dataclass
class Patience:
    """Branches that may still be tried."""

    left: int


def cheapest(graph: Graph, patience: Patience) -> set[int] | None:
    """A cheapest cover of the undecided part of `graph`, or None when patience ran out. Consumes the graph."""
    found = _search(graph, graph.paid + sum(graph.weights) + 1, patience)
    return None if found is None or patience.left < 0 else found[0]


def _search(graph: Graph, below: int, patience: Patience) -> tuple[set[int], int] | None:
    """The cheapest cover and its cost, if that is less than `below`."""
    graph.reduce()
    left = graph.vertices()
    if graph.paid + _bound(graph, left) >= below:
        return None
    if not left:
        return graph.lift(()), graph.paid
    best: set[int] | None = None
    vertex = min(left, key=lambda v: (-len(graph.neighbours[v]), v))
    for taken in (True, False):
        patience.left -= 1
        if patience.left < 0:
            return None
        part = graph.copy()
        if taken:
            part.take(vertex)
        else:
            part.leave(vertex)
        found = _search(part, below, patience)
        if found is not None:
            best, below = found
    return None if best is None else (graph.lift(best), below)


def _bound(graph: Graph, left: list[int]) -> int:
    """A packing of edges: every cover pays at least this for what is left."""
    rest = {v: graph.weights[v] for v in left}
    total = 0
    for vertex in left:
        for near in sorted(graph.neighbours[vertex]):
            part = min(rest[vertex], rest[near])
            total += part
            rest[vertex] -= part
            rest[near] -= part
    return total
