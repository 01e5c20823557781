"""The half-integral relaxation of a weighted vertex cover (Nemhauser and Trotter).

Its linear relaxation always has an optimum in halves, which one maximum flow in the graph's double cover finds. The
vertices at zero or one in the smallest minimum cut have that value in every cheapest cover, and therefore also in the
cheapest cover that is best by further levels. The value of the relaxation is a lower bound for every cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from solver.cover.reduction import Graph


class Relaxation(NamedTuple):
    """The vertices that the relaxation decides, and twice its value."""

    outside: list[int]
    """Vertices at zero. No cheapest cover contains any of these vertices, and their neighbours are at one."""
    doubled_value: int


def relax(graph: Graph, vertices: Sequence[int], weights: Sequence[int]) -> Relaxation:
    """Solve the relaxation on the undecided `vertices` of a graph, with a weight for each of them."""
    from ortools.graph.python import max_flow

    count = len(vertices)
    place = {vertex: at for at, vertex in enumerate(vertices)}
    source, sink = 2 * count, 2 * count + 1
    flow = max_flow.SimpleMaxFlow()
    unlimited = sum(weights) + 1
    for at, weight in enumerate(weights):
        flow.add_arc_with_capacity(source, at, weight)
        flow.add_arc_with_capacity(count + at, sink, weight)
    for at, vertex in enumerate(vertices):
        for near in sorted(graph.neighbours[vertex]):
            flow.add_arc_with_capacity(at, count + place[near], unlimited)
    if flow.solve(source, sink) != flow.OPTIMAL:
        raise ArithmeticError("the maximum flow was not found")
    # The smallest source side is the same for every maximum flow, so the result does not depend on this flow.
    reached = set(flow.get_source_side_min_cut())
    outside = [v for at, v in enumerate(vertices) if at in reached and count + at not in reached]
    return Relaxation(outside, flow.optimal_flow())
