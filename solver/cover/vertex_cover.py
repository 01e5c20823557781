"""The cheapest hosts: weighted vertex cover on the services whose part is undecided.

    graph -> connected parts -> reductions -> relaxation -> branching | CP-SAT

A part of at most `EXACT_TIES` services gets weights under which its cheapest cover is unique: after cost, the fewest
closed destinations, then the earliest names. Larger parts keep their plain weights, on which the reductions are
stronger; of equally cheap covers, they get the first that the reductions find in canonical order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from solver.cover.branch_and_bound import BranchBudget, cheapest
from solver.cover.lp_relaxation import relax
from solver.cover.reduction import Graph
from solver.cpsat.engine import Booleans, Effort, Level, solve

EXACT_TIES = 64
BRANCHES = 5_000
"""Most branches for one part. CP-SAT solves a part that needs more."""


class Part(NamedTuple):
    """A connected part of the graph with its cheapest cover."""

    vertices: tuple[int, ...]
    cover: frozenset[int]
    value: int
    bound: int


def parts(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Connected parts with an edge, each in canonical order, by their first vertex."""
    root = list(range(count))

    def find(vertex: int) -> int:
        while root[vertex] != vertex:
            root[vertex] = root[root[vertex]]
            vertex = root[vertex]
        return vertex

    touched: set[int] = set()
    for one, other in edges:
        touched.update((one, other))
        a, b = find(one), find(other)
        if a != b:
            root[max(a, b)] = min(a, b)
    found: dict[int, list[int]] = {}
    for vertex in sorted(touched):
        found.setdefault(find(vertex), []).append(vertex)
    return list(found.values())


def cover(
    weights: Sequence[int],
    bonuses: Sequence[int],
    edges: Sequence[tuple[int, int]],
    effort: Effort,
    *,
    reductions: bool = True,
) -> list[Part]:
    """Cheapest covers of every connected part.

    `bonuses` are the numbers of destinations that stay open if a vertex is chosen: the first tie-break. Without
    `reductions` CP-SAT solves every part, which is slower and gives an equally cheap cover.
    """
    members = parts(len(weights), edges)
    part_of = {vertex: number for number, part in enumerate(members) for vertex in part}
    inner: list[list[tuple[int, int]]] = [[] for _ in members]
    for edge in edges:
        inner[part_of[edge[0]]].append(edge)
    covers: list[tuple[set[int], int] | None] = []
    open_parts: list[_Open] = []
    for number, (vertices, own) in enumerate(zip(members, inner, strict=True)):
        place = {vertex: at for at, vertex in enumerate(vertices)}
        near = [(place[one], place[other]) for one, other in own]
        prices = [weights[vertex] for vertex in vertices]
        ties = [bonuses[vertex] for vertex in vertices]
        settled = _settle(prices, ties, near) if reductions else Graph(prices, near)
        if isinstance(settled, Graph):
            open_parts.append(_Open(number, settled, settled.vertices()))
            covers.append(None)
        else:
            covers.append((settled, sum(prices[at] for at in settled)))
    # Effort is shared by size, so the sizes of all searches must be known before the first search.
    effort.work += sum(len(part.left) for part in open_parts)
    for part in open_parts:
        covered, bound = _kernel(part.graph, part.left, effort) if reductions else _search(*part[1:], effort)
        covers[part.number] = part.graph.lift(covered), part.graph.paid + bound
    found: list[Part] = []
    for vertices, solved in zip(members, covers, strict=True):
        chosen, bound = solved or (set(), 0)
        value = sum(weights[vertices[at]] for at in chosen)
        found.append(Part(tuple(vertices), frozenset(vertices[at] for at in chosen), value, min(bound, value)))
    return found


class _Open(NamedTuple):
    """A part that the reductions did not solve, with its undecided vertices."""

    number: int
    graph: Graph
    left: list[int]


def _settle(prices: list[int], bonuses: list[int], edges: list[tuple[int, int]]) -> set[int] | Graph:
    """A cheapest cover of one connected part, or the reduced part if the reductions do not solve it."""
    if len(prices) <= EXACT_TIES:
        chosen = cheapest(Graph(_with_ties(prices, bonuses), edges), BranchBudget(BRANCHES))
        if chosen is not None:
            return chosen
    graph = Graph(prices, edges)
    graph.reduce()
    left = graph.vertices()
    while left:
        outside = relax(graph, left).outside
        if not outside:
            return graph
        for vertex in outside:
            graph.leave(vertex)
        graph.reduce()
        left = graph.vertices()
    return graph.lift(())


def _with_ties(prices: Sequence[int], bonuses: Sequence[int]) -> list[int]:
    """Weights under which one cover is cheapest; that cover is also a cheapest one under `prices`."""
    count = len(prices)
    scale = (sum(bonuses) + 1) << count
    return [
        price * scale - (bonus << count) - (1 << (count - 1 - at))
        for at, (price, bonus) in enumerate(zip(prices, bonuses, strict=True))
    ]


def _kernel(graph: Graph, left: Sequence[int], effort: Effort) -> tuple[set[int], int]:
    """A cheapest cover of the undecided vertices, and a lower bound on its cost."""
    edges = [(one, other) for one in left for other in sorted(graph.neighbours[one]) if one < other]
    covered: set[int] = set()
    total = 0
    hard: list[list[int]] = []
    for vertices in parts(len(graph.weights), edges):
        small = _extract(graph, vertices) if len(vertices) <= EXACT_TIES else None
        chosen = cheapest(small, BranchBudget(BRANCHES)) if small is not None else None
        if chosen is None:
            hard.append(vertices)
        else:
            effort.work -= len(vertices)
            covered.update(vertices[at] for at in chosen)
            total += sum(graph.weights[vertices[at]] for at in chosen)
    for vertices in hard:
        chosen, bound = _search(graph, vertices, effort)
        covered.update(chosen)
        total += bound
    return covered, total


def _extract(graph: Graph, vertices: Sequence[int]) -> Graph:
    """One connected part as a graph of its own."""
    place = {vertex: at for at, vertex in enumerate(vertices)}
    edges = [(place[one], place[other]) for one in vertices for other in graph.neighbours[one] if one < other]
    return Graph([graph.weights[vertex] for vertex in vertices], sorted(edges))


def _search(graph: Graph, vertices: Sequence[int], effort: Effort) -> tuple[set[int], int]:
    """A cover of one hard part by CP-SAT, starting from a greedy one, and a lower bound on its cost."""
    part = _extract(graph, vertices)
    edges = [(one, other) for one, near in enumerate(part.neighbours) for other in sorted(near) if one < other]
    least = -(-relax(part, range(len(vertices))).doubled_value // 2)
    hint = _greedy(part.copy())
    problem = Booleans(
        len(vertices),
        [(one + 1, other + 1) for one, other in edges],
        levels=[Level([(at, weight) for at, weight in enumerate(part.weights)], least=least)],
        hint=[at in hint for at in range(len(vertices))],
    )
    answer = solve(problem, effort)
    if answer.values is None:
        raise ArithmeticError("a vertex cover always exists")
    return {vertices[at] for at, chosen in enumerate(answer.values) if chosen}, answer.levels[0].bound


def _greedy(graph: Graph) -> set[int]:
    """A good cover: repeatedly take the vertex with the most edges for its weight, then reduce."""
    from heapq import heapify, heappop, heappush

    def rank(vertex: int) -> tuple[int, int, int]:
        # Most edges for the least weight first, compared in whole numbers.
        return (graph.weights[vertex] * 1_000_000 // len(graph.neighbours[vertex]), graph.weights[vertex], vertex)

    graph.reduce()
    waiting = [rank(vertex) for vertex in graph.vertices()]
    heapify(waiting)
    known = len(graph.weights)
    while waiting:
        key = heappop(waiting)
        vertex = key[2]
        if not graph.alive[vertex] or not graph.neighbours[vertex]:
            continue
        now = rank(vertex)
        if now != key:
            heappush(waiting, now)
            continue
        graph.take(vertex)
        graph.reduce()
        for folded in range(known, len(graph.weights)):
            if graph.alive[folded] and graph.neighbours[folded]:
                heappush(waiting, rank(folded))
        known = len(graph.weights)
    return graph.lift(())
