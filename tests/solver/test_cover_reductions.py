"""Reductions, relaxation and branch and bound keep the cost of a cheapest cover, and the cover if ties are exact."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import solver.cover.vertex_cover
from solver.cover.branch_and_bound import BranchBudget, cheapest
from solver.cover.lp_relaxation import relax
from solver.cover.reduction import Graph
from solver.cover.vertex_cover import Part, Vertex, Weights, cover
from solver.cpsat.engine import Effort
from tests.generate import application
from tests.properties import examples

Edges = Sequence[tuple[int, int]]


def covers(count: int, edges: Edges) -> list[tuple[int, ...]]:
    """Every cover that has no vertex without an edge."""
    touched = sorted({vertex for edge in edges for vertex in edge})
    return [
        chosen
        for size in range(len(touched) + 1)
        for chosen in combinations(touched, size)
        if all(one in chosen or other in chosen for one, other in edges)
    ]


def graph(rng: random.Random) -> tuple[int, list[tuple[int, int]], list[int], list[int]]:
    count = rng.randint(2, 11)
    density = rng.choice((0.2, 0.35, 0.6))
    edges = [pair for pair in combinations(range(count), 2) if rng.random() < density]
    heaviest = rng.choice((1, 1, 4))
    return count, edges, [rng.randint(1, heaviest) for _ in range(count)], [rng.randint(0, 2) for _ in range(count)]


def weighted(weights: Sequence[int], bonuses: Sequence[int]) -> list[Vertex]:
    """One host for each vertex, with a bonus if it is chosen."""
    return [Vertex((weight,), (-bonus,), host=True) for weight, bonus in zip(weights, bonuses, strict=True)]


def total(found: Sequence[Part]) -> tuple[int, int]:
    """Value and bound of the first level."""
    return sum(part.value[0] for part in found), sum(part.bound[0] for part in found)


@examples(120, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_the_cover_is_the_first_of_the_cheapest(rng: random.Random) -> None:
    count, edges, weights, bonuses = graph(rng)

    def rank(chosen: Sequence[int]) -> tuple[int, int, list[bool]]:
        return (
            sum(weights[v] for v in chosen),
            -sum(bonuses[v] for v in chosen),
            [v not in chosen for v in range(count)],
        )

    found = cover(weighted(weights, bonuses), edges, Effort())
    chosen = sorted(vertex for part in found for vertex in part.cover)
    assert tuple(chosen) == min(covers(count, edges), key=rank)
    assert all(part.value == part.bound for part in found)


@examples(60, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_every_reduction_keeps_the_cost(rng: random.Random) -> None:
    count, edges, weights, _ = graph(rng)
    best = min(sum(weights[v] for v in chosen) for chosen in covers(count, edges))
    reduced = Graph(weights, edges)
    reduced.reduce()
    left = reduced.vertices()
    while left and (outside := relax(reduced, left, [reduced.weights[v] for v in left]).outside):
        for vertex in outside:
            reduced.leave(vertex)
        reduced.reduce()
        left = reduced.vertices()
    inner = cheapest(reduced.copy(), BranchBudget(10_000))
    assert inner is not None
    lifted = reduced.lift(inner)
    assert all(one in lifted or other in lifted for one, other in edges)
    assert sum(weights[v] for v in lifted) == best


@pytest.mark.parametrize("seed", range(8))
def test_cp_sat_agrees_with_the_reductions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, edges, weights, bonuses = graph(random.Random(seed))  # noqa: S311
    best, _ = total(cover(weighted(weights, bonuses), edges, Effort()))
    plain = cover(weighted(weights, bonuses), edges, Effort(), reductions=False)
    monkeypatch.setattr(solver.cover.vertex_cover, "EXACT_TIES", 0)
    kernels = cover(weighted(weights, bonuses), edges, Effort())
    for found in (plain, kernels):
        assert total(found) == (best, best)


def test_the_relaxation_is_a_lower_bound_and_decides_whole_vertices() -> None:
    # A star hangs on a triangle: the triangle stays at a half, the star is settled.
    edges = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (3, 5)]
    plain = Graph([1] * 6, edges)
    found = relax(plain, plain.vertices(), plain.weights)
    assert found.doubled_value == 5
    assert found.outside == [4, 5]


def test_a_spent_branch_budget_is_reported() -> None:
    app = application(60, 150, 1, "uniform")
    hard = Graph([1] * 60, sorted({(min(edge), max(edge)) for edge in app.calls}))
    assert cheapest(hard.copy(), BranchBudget(0)) is None
    assert cheapest(hard.copy(), BranchBudget(5_000)) is not None


@pytest.mark.parametrize("seed", [1, 2])
def test_a_power_law_graph_needs_no_search(seed: int) -> None:
    app = application(2_000, 6_000, seed)
    reduced = Graph([1] * 2_000, sorted({(min(edge), max(edge)) for edge in app.calls}))
    reduced.reduce()
    assert reduced.vertices() == []


def test_a_hard_graph_gets_an_honest_bound() -> None:
    app = application(400, 1_200, 1, "uniform")
    edges = sorted({(min(edge), max(edge)) for edge in app.calls})
    found = cover(weighted([1] * 400, [0] * 400), edges, Effort(0.2))
    value, bound = total(found)
    assert 180 <= bound < value <= 250
    chosen = {vertex for part in found for vertex in part.cover}
    assert all(one in chosen or other in chosen for one, other in edges)


@examples(75, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_levels_are_compared_in_order(rng: random.Random) -> None:
    """Vectors with amounts of very different size, and vertices that count for some levels only."""
    count, edges, _, _ = graph(rng)
    sizes = (rng.choice((1, 3)), 2, rng.choice((5, 10**15)))
    vertices = [
        Vertex(tuple(rng.randint(0, size) for size in sizes), (0,), host=rng.random() < 0.5) for _ in range(count)
    ]
    best = min(sums(vertices, chosen) for chosen in covers(count, edges))
    with pytest.MonkeyPatch.context() as patched:
        for exact, small in ((64, 64), (0, 64), (0, 0)):
            patched.setattr(solver.cover.vertex_cover, "EXACT_TIES", exact)
            patched.setattr(solver.cover.vertex_cover, "SMALL_KERNEL", small)
            found = cover(vertices, edges, Effort())
            assert sums(vertices, [v for part in found for v in part.cover]) == best
            assert tuple(map(sum, zip((0, 0, 0), *(part.value for part in found), strict=True))) == best
            assert all(part.value == part.bound for part in found)


def sums(vertices: Sequence[Vertex], chosen: Sequence[int]) -> tuple[int, ...]:
    return tuple(sum(vertices[v].levels[level] for v in chosen) for level in range(3))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 10**12), st.integers(0, 3)), min_size=1, max_size=6))
def test_whole_numbers_compare_like_the_vectors_and_give_them_back(vectors: list[tuple[int, int, int]]) -> None:
    weights = Weights(vectors)
    for one, whole in zip(vectors, weights.whole, strict=True):
        for other, beyond in zip(vectors, weights.whole, strict=True):
            assert (one < other) is (whole < beyond)
            assert weights.decoded(whole - beyond) == tuple(a - b for a, b in zip(one, other, strict=True))
