"""Cheapest cover of a small graph by branch and bound.

The reductions leave a few vertices of an ordinary application. Branch and bound solves these in less time than the
import of CP-SAT takes, and with weights of any size.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.cover.reduction import Graph


@dataclass
class BranchBudget:
    """Branches that the search may still try."""

    left: int


def cheapest(graph: Graph, budget: BranchBudget) -> set[int] | None:
    """A cheapest cover of the undecided part of `graph`, or None when the budget is spent. Changes the graph."""
    cheapest_cover = _search(graph, graph.paid + sum(graph.weights) + 1, budget)
    return None if cheapest_cover is None or budget.left < 0 else cheapest_cover[0]


def _search(graph: Graph, below: int, budget: BranchBudget) -> tuple[set[int], int] | None:
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
        budget.left -= 1
        if budget.left < 0:
            return None
        part = graph.copy()
        if taken:
            part.take(vertex)
        else:
            part.leave(vertex)
        cheaper = _search(part, below, budget)
        if cheaper is not None:
            best, below = cheaper
    return None if best is None else (graph.lift(best), below)


def _bound(graph: Graph, left: list[int]) -> int:
    """A lower bound from a packing of edges: every cover of the undecided part costs at least this."""
    rest = {v: graph.weights[v] for v in left}
    total = 0
    for vertex in left:
        for near in sorted(graph.neighbours[vertex]):
            part = min(rest[vertex], rest[near])
            total += part
            rest[vertex] -= part
            rest[near] -= part
    return total
