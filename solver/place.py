"""The entry point of the solver: a program's best correct placement, or the lines that make one impossible.

    program -> options -> order -> cover -> [model] -> placement

The model runs only with costs, capacities or an earlier plan. Otherwise a cheapest cover is an optimum
(`docs/adr/0002-solver.md` says why).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from dsl.program import Program, Side
from solver.conflict.explain import explain
from solver.cover.hosting import Hosting
from solver.cpsat.engine import DEFAULT_EFFORT, Bounded, Effort
from solver.cpsat.model import Model, OverloadError
from solver.objective import Levels, Previous
from solver.placement import Costs, ObjectiveValue, Placement
from solver.result import Solution, placement
from solver.rules.options import DecisionPoint, decision_points
from solver.rules.order import EGRESS, INGRESS, Clash, clashes, propagate


class Stages:
    """Wall time of each stage, for benchmarks only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def end(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


def place(
    program: Program,
    costs: Costs | None = None,
    *,
    previous: Mapping[tuple[str, str], tuple[Side, ...]] | None = None,
    effort: float | None = None,
    reductions: bool = True,
) -> Placement:
    """The best correct placement of `program`, proven optimal unless `effort` (deterministic time) runs out.

    `previous` is (policy, destination) -> sides of an earlier plan. `reductions` is for tests: without
    them CP-SAT solves everything. Raises `PlacementError` where no correct placement exists.
    """
    stages = Stages()
    costs = costs or Costs()
    found = decision_points(program)
    stages.end("options")
    clashing = clashes(program, found)
    domains, dead = propagate(program, found, clashing)
    stages.end("order")
    if dead:
        sizes = Counter(point.destination for point in found)
        raise explain(program, costs, [min(dead, key=lambda name: (sizes[name], name))], [])
    levels = Levels(program, costs, previous)
    left = Effort(DEFAULT_EFFORT if effort is None else effort)
    covered = Hosting(program, found, domains, levels)
    parts = covered.solve(left, reductions)
    choices = covered.choices(parts)
    stages.end("cover")
    if levels.hosts_only and reductions:
        bounds = covered.bounds(parts)
    else:
        try:
            choices, bounds = _by_model(program, found, domains, clashing, levels, covered.least(parts), choices, left)
        except OverloadError as overloaded:
            destinations = [found[index].destination for index in overloaded.points]
            raise explain(program, costs, destinations, overloaded.hosts) from None
        stages.end("model")
    solution = Solution(program, found, choices, clashing, levels)
    result = placement(solution, _objectives(solution, bounds))
    stages.end("result")
    return replace(result, stage_seconds=stages.seconds)


def _objectives(solution: Solution, bounds: Sequence[Bounded]) -> tuple[ObjectiveValue, ...]:
    """Levels of the whole placement. Gaps between value and bound come from parts that are not proven optimal."""
    gaps = [bounded.value - bounded.bound for bounded in bounds]
    return tuple(
        ObjectiveValue(name, value, value - gap)
        for name, value, gap in zip(solution.levels.names, solution.worth(), gaps, strict=True)
    )


def _by_model(
    program: Program,
    found: Sequence[DecisionPoint],
    domains: Sequence[int],
    clashing: Mapping[str, Sequence[Clash]],
    levels: Levels,
    least: Mapping[str, int] | None,
    covered: Sequence[int],
    effort: Effort,
) -> tuple[list[int], list[Bounded]]:
    """Choices for every decision by the model, with value and bound of each level."""
    model = Model(program, found, domains, clashing, levels)
    groups = model.groups()
    effort.work += sum(len(group.points) + len(group.hosts) for group in groups if not model.is_small(group))
    choices = list(covered)
    totals = [Bounded(0, 0)] * len(levels.names)
    for group in groups:
        hints = [[covered[index] for index in group.points]]
        if levels.previous is not None:
            hints.append(_as_before(levels.previous, program, found, group.points, covered))
        bound = None if least is None else sum(least.get(host, 0) for host in group.hosts)
        decided, own = model.solve(group, hints, bound, effort)
        for index, choice in zip(group.points, decided, strict=True):
            choices[index] = choice
        totals = [Bounded(a.value + b.value, a.bound + b.bound) for a, b in zip(totals, own, strict=True)]
    return choices, totals


def _as_before(
    previous: Previous, program: Program, found: Sequence[DecisionPoint], group: Sequence[int], covered: Sequence[int]
) -> list[int]:
    """The choices of an earlier plan; where it has none, those of the cover."""
    choices: list[int] = []
    for index in group:
        before = previous.get((program.policies[found[index].policy].name, found[index].destination))
        known = before is not None and len(before) == 1
        choices.append((EGRESS if before == (Side.EGRESS,) else INGRESS) if known else covered[index])
    return choices
