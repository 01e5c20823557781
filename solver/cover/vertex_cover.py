"""A cheapest vertex cover whose weights are vectors, compared lexicographically.

    graph -> connected parts -> reductions -> relaxation -> branching | CP-SAT

A vector becomes one whole number in which no lower level can outweigh a higher one, so that the reductions need no
levels. A part of at most `EXACT_TIES` hosts and decisions gets weights under which its cheapest cover is unique: after
the levels, the cover with the earliest hosts. Larger parts, and those for which `BRANCHES` are too few, keep plain
weights, for which the reductions are stronger. Of equally cheap covers, such a part gets the first one that the
reductions find in canonical order, or that CP-SAT finds. If effort runs out, its cover may not be a cheapest one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from solver.cover.branch_and_bound import BranchBudget, cheapest
from solver.cover.lp_relaxation import relax
from solver.cover.reduction import Graph
from solver.cpsat.engine import LARGEST_SUM, Booleans, Effort, Level, solve

EXACT_TIES = 64
SMALL_KERNEL = 64
"""Branch and bound tries the undecided vertices of a part if these are at most so many."""
BRANCHES = 5_000
"""The most branches of one search. The relaxation and CP-SAT solve what needs more."""

Vector = tuple[int, ...]


class Vertex(NamedTuple):
    """One vertex: its levels, and how it takes part in tie-breaks."""

    levels: Vector
    counted: Vector = ()
    """Sums that are minimized after the levels, in parts with exact ties."""
    host: bool = False
    """Whether the vertex is a host. Of equally good covers, the cover with the earlier hosts is taken."""
    unwanted: tuple[int, ...] = ()
    """Decisions that prefer a cover without this vertex, the earlier ones first."""


class Part(NamedTuple):
    """A connected part of the graph with the best cover found, and the value and proven bound of each level."""

    vertices: tuple[int, ...]
    cover: frozenset[int]
    value: Vector
    bound: Vector


class Weights:
    """Vectors of one part as whole numbers. Sums and differences of the numbers compare like those of the vectors."""

    def __init__(self, vectors: Sequence[Vector]) -> None:
        self.scales = [2 * sum(map(abs, own)) + 1 for own in zip(*vectors, strict=True)]
        self.whole = [self.encoded(vector) for vector in vectors]

    def encoded(self, vector: Sequence[int]) -> int:
        value = 0
        for amount, scale in zip(vector, self.scales, strict=False):
            value = value * scale + amount
        return value

    def decoded(self, value: int) -> Vector:
        vector = []
        for scale in reversed(self.scales):
            amount = value % scale
            amount -= scale if amount > scale // 2 else 0
            vector.append(amount)
            value = (value - amount) // scale
        return tuple(reversed(vector))

    def leading(self, values: Sequence[int]) -> list[int]:
        """The values, reduced to as many first levels as fit into the whole numbers of a maximum flow."""
        if sum(values) <= LARGEST_SUM:
            return list(values)
        vectors = [self.decoded(value) for value in values]
        for kept in range(len(self.scales) - 1, 0, -1):
            encoded = [self.encoded(vector[:kept]) for vector in vectors]
            if sum(encoded) <= LARGEST_SUM:
                return encoded
        return [0] * len(values)


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
    connected: dict[int, list[int]] = {}
    for vertex in sorted(touched):
        connected.setdefault(find(vertex), []).append(vertex)
    return list(connected.values())


def cover(
    vertices: Sequence[Vertex], edges: Sequence[tuple[int, int]], effort: Effort, *, reductions: bool = True
) -> list[Part]:
    """The best cover of every connected part that the search finds within `effort`.

    Without `reductions` CP-SAT solves every part, which is slower.
    """
    members = parts(len(vertices), edges)
    part_of = {vertex: number for number, part in enumerate(members) for vertex in part}
    inner: list[list[tuple[int, int]]] = [[] for _ in members]
    for edge in edges:
        inner[part_of[edge[0]]].append(edge)
    covered: list[Part | None] = []
    left: list[_Open] = []
    for number, (names, own) in enumerate(zip(members, inner, strict=True)):
        place = {vertex: at for at, vertex in enumerate(names)}
        near = [(place[one], place[other]) for one, other in own]
        settled = _settle([vertices[vertex] for vertex in names], near, reductions=reductions)
        if isinstance(settled, _Kernel):
            left.append(_Open(number, settled))
            covered.append(None)
        else:
            covered.append(_part(vertices, names, settled, None))
    # Effort is shared by size, so the sizes of all searches must be known before the first search.
    effort.work += sum(len(search.kernel.left) for search in left)
    for number, kernel in left:
        chosen, bound = kernel.solve(effort, reductions=reductions)
        covered[number] = _part(vertices, members[number], chosen, bound)
    return [part for part in covered if part is not None]


def _part(vertices: Sequence[Vertex], names: Sequence[int], chosen: Iterable[int], bound: Vector | None) -> Part:
    """Make the part from `chosen`, positions in the part. Without a bound, the cover is proven to be a cheapest one."""
    covered = frozenset(names[at] for at in chosen)
    value = tuple(map(sum, zip(*(vertices[vertex].levels for vertex in covered), strict=True)))
    value = value or (0,) * len(vertices[names[0]].levels)
    if bound is not None:
        proven = len(value)
        for level, (own, least) in enumerate(zip(value, bound, strict=False)):
            if least < own:
                proven = level
                break
        # Below a level that is not proven, the only known bound is zero: no amount is negative.
        bound = tuple(bound[level] if level <= proven else 0 for level in range(len(value)))
    return Part(tuple(names), covered, value, value if bound is None else bound)


class _Open(NamedTuple):
    """A part that the reductions did not solve."""

    number: int
    kernel: _Kernel


class _Kernel:
    """The undecided vertices of one part."""

    def __init__(self, graph: Graph, weights: Weights, edges: Iterable[tuple[int, int]]) -> None:
        self.graph = graph
        self.weights = weights
        self.left = graph.vertices()
        self.neighbours: list[list[int]] = [[] for _ in weights.whole]
        """The neighbours of each vertex in the whole part."""
        for one, other in edges:
            self.neighbours[one].append(other)
            self.neighbours[other].append(one)

    def solve(self, effort: Effort, *, reductions: bool) -> tuple[set[int], Vector]:
        """A cover of the whole part without needless vertices, and lower bounds on the levels.

        The bounds include the first level that is not proven, and no level below it.
        """
        graph = self.graph
        edges = [(one, other) for one in self.left for other in sorted(graph.neighbours[one]) if one < other]
        covered: set[int] = set()
        total = self.weights.decoded(graph.paid)
        hard: list[list[int]] = []
        for vertices in parts(len(graph.weights), edges):
            small = _extract(graph, vertices) if reductions and len(vertices) <= SMALL_KERNEL else None
            chosen = cheapest(small, BranchBudget(BRANCHES)) if small is not None else None
            if chosen is None:
                hard.append(vertices)
            else:
                effort.work -= len(vertices)
                covered.update(vertices[at] for at in chosen)
                paid = self.weights.decoded(sum(graph.weights[vertices[at]] for at in chosen))
                total = tuple(map(sum, zip(total, paid, strict=True)))
        for vertices in hard:
            chosen, bound = _search(graph, self.weights, vertices, effort)
            covered.update(chosen)
            total = tuple(map(sum, zip(total, bound, strict=True)))
        return self._without_needless(graph.lift(covered)), total

    def _without_needless(self, chosen: set[int]) -> set[int]:
        """Remove vertices whose neighbours are all chosen, the heaviest first. A search that ends early leaves some."""
        for vertex in sorted(chosen, key=lambda vertex: (-self.weights.whole[vertex], vertex)):
            if chosen.issuperset(self.neighbours[vertex]):
                chosen.remove(vertex)
        return chosen


def _settle(own: Sequence[Vertex], edges: list[tuple[int, int]], *, reductions: bool) -> Iterable[int] | _Kernel:
    """A cheapest cover of one connected part, or the reduced part if the reductions do not solve it."""
    counted = sum(vertex.host for vertex in own), sum(len(vertex.unwanted) for vertex in own)
    if reductions and max(counted) <= EXACT_TIES:
        chosen = cheapest(Graph(Weights(_with_ties(own)).whole, edges), BranchBudget(BRANCHES))
        if chosen is not None:
            return chosen
    weights = Weights([(*vertex.levels, int(vertex.host)) for vertex in own])
    if reductions:
        return _reduced(weights, edges)
    graph = Graph(weights.whole, edges)
    for vertex, weight in enumerate(weights.whole):
        if not weight:
            graph.take(vertex)
    return _Kernel(graph, weights, edges)


def _reduced(weights: Weights, edges: Sequence[tuple[int, int]]) -> Iterable[int] | _Kernel:
    """A cheapest cover by reductions and relaxation alone, or the part of the graph that these do not decide."""
    graph = Graph(weights.whole, edges)
    for vertex, weight in enumerate(weights.whole):
        if not weight:
            graph.take(vertex)
    graph.reduce()
    left = graph.vertices()
    while left:
        outside = relax(graph, left, weights.leading([graph.weights[vertex] for vertex in left])).outside
        if not outside:
            return _Kernel(graph, weights, edges)
        for vertex in outside:
            graph.leave(vertex)
        graph.reduce()
        left = graph.vertices()
    return graph.lift(())


def _with_ties(own: Sequence[Vertex]) -> list[Vector]:
    """Vectors under which one cover is cheapest; that cover is also a cheapest one by the levels."""
    hosts = [at for at, vertex in enumerate(own) if vertex.host]
    decisions = sorted(decision for vertex in own for decision in vertex.unwanted)
    bits = {at: -(1 << (len(hosts) - 1 - rank + len(decisions))) for rank, at in enumerate(hosts)}
    avoided = {decision: 1 << (len(decisions) - 1 - rank) for rank, decision in enumerate(decisions)}
    return [
        (*vertex.levels, *vertex.counted, bits.get(at, 0) + sum(avoided[decision] for decision in vertex.unwanted))
        for at, vertex in enumerate(own)
    ]


def _extract(graph: Graph, vertices: Sequence[int]) -> Graph:
    """One connected part as a graph of its own."""
    place = {vertex: at for at, vertex in enumerate(vertices)}
    edges = [(place[one], place[other]) for one in vertices for other in graph.neighbours[one] if one < other]
    return Graph([graph.weights[vertex] for vertex in vertices], sorted(edges))


def _search(graph: Graph, weights: Weights, vertices: Sequence[int], effort: Effort) -> tuple[set[int], Vector]:
    """A cover of one hard part by CP-SAT, starting from a greedy one, and a lower bound on each of its levels.

    Most vertices add nothing to the first level. If the others alone are too hard, the rest is not searched.
    """
    part = _extract(graph, vertices)
    edges = [(one, other) for one, near in enumerate(part.neighbours) for other in sorted(near) if one < other]
    vectors = [weights.decoded(weight) for weight in part.weights]
    counting = [at for at, vector in enumerate(vectors) if vector[0]]
    if len(counting) == len(vectors):
        least = -(-relax(part, range(len(vertices)), [vector[0] for vector in vectors]).doubled_value // 2)
        hint = _greedy(part.copy())
    else:
        # The first level may use the whole share of this part. The levels below get the remaining effort.
        effort.work -= len(vertices)
        hint, least = _by_first_level(part, counting, [vectors[at][0] for at in counting], effort)
        if sum(vectors[at][0] for at in hint) > least:
            return {vertices[at] for at in hint}, (least, *[0] * (len(weights.scales) - 1))
        effort.work += len(vertices)
    problem = Booleans(
        len(vertices),
        [(one + 1, other + 1) for one, other in edges],
        levels=[
            Level([(at, vector[level]) for at, vector in enumerate(vectors) if vector[level]], least=bound)
            for level, bound in enumerate([least, *[None] * (len(weights.scales) - 1)])
        ],
        hint=[at in hint for at in range(len(vertices))],
    )
    answer = solve(problem, effort)
    if answer.values is None:
        raise ArithmeticError("a vertex cover always exists")
    chosen = {vertices[at] for at, value in enumerate(answer.values) if value}
    return chosen, tuple(level.bound for level in answer.levels)


def _by_first_level(
    graph: Graph, counting: Sequence[int], prices: Sequence[int], effort: Effort
) -> tuple[set[int], int]:
    """A cover that is good by the first level, and a lower bound on that level. Only `counting` vertices add to it."""
    place = {vertex: at for at, vertex in enumerate(counting)}
    near = [(at, place[other]) for at, one in enumerate(counting) for other in graph.neighbours[one] if other in place]
    weights = Weights([(price,) for price in prices])
    settled = _reduced(weights, sorted(edge for edge in near if edge[0] < edge[1]))
    if isinstance(settled, _Kernel):
        effort.work += len(settled.left)
        chosen, (least,) = settled.solve(effort, reductions=True)
    else:
        chosen = set(settled)
        least = sum(prices[at] for at in chosen)
    rest = graph.copy()
    for at, vertex in enumerate(counting):
        if rest.alive[vertex]:
            if at in chosen:
                rest.take(vertex)
            else:
                rest.leave(vertex)
    return _greedy(rest), least


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
