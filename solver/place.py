"""The entry point of the solver: a program's best correct placement, or the lines that make one impossible.

    program -> options -> order -> cover -> [model] -> placement

The model runs only for capacities that may be exceeded. Otherwise a cheapest cover is an optimum
(`docs/adr/0002-solver.md` says why).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from dsl.program import Program, Side
from solver.conflict.explain import explain
from solver.cover.problem import CoverProblem, gaps
from solver.cover.vertex_cover import Part
from solver.cpsat.engine import DEFAULT_EFFORT, Effort
from solver.cpsat.model import Model, OverloadError
from solver.objective import Levels, Previous, Vector, add
from solver.placement import Costs, ObjectiveValue, Placement
from solver.result import Solution, placement
from solver.rules.options import DecisionPoint, decision_points
from solver.rules.order import EGRESS, INGRESS, clashes, propagate


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
    points: Sequence[DecisionPoint] | None = None,
    previous: Mapping[tuple[str, str], tuple[Side, ...]] | None = None,
    effort: float | None = None,
    reductions: bool = True,
) -> Placement:
    """The best correct placement of `program`, proven optimal unless `effort` (deterministic time) runs out.

    `points` are the program's decision points, if the caller has them already. `previous` is (policy, destination) ->
    sides of an earlier plan. `reductions` is for tests: without them CP-SAT solves everything. Raises `PlacementError`
    where no correct placement exists.
    """
    stages = Stages()
    costs = costs or Costs()
    found = decision_points(program) if points is None else points
    stages.end("options")
    clashing = clashes(program, found)
    domains, dead = propagate(program, found, clashing)
    stages.end("order")
    if dead:
        sizes = Counter(point.destination for point in found)
        raise explain(program, costs, [min(dead, key=lambda name: (sizes[name], name))], [])
    levels = Levels(program, costs, previous)
    left = Effort(DEFAULT_EFFORT if effort is None else effort)
    problem = CoverProblem(program, found, domains, clashing, levels)
    parts = problem.solve(left) if reductions else []
    choices = problem.choices(parts) if reductions else None
    stages.end("cover")
    gap = gaps(parts, levels)
    if levels.limits or choices is None:
        try:
            model = Model(program, found, domains, clashing, levels)
            choices, gap = _by_model(model, problem, parts, choices, left)
        except OverloadError as overloaded:
            destinations = [found[index].destination for index in overloaded.points]
            raise explain(program, costs, destinations, overloaded.hosts) from None
        stages.end("model")
    solution = Solution(program, found, choices, clashing, levels)
    objectives = tuple(
        ObjectiveValue(name, value, value - open_)
        for name, value, open_ in zip(levels.names, solution.worth(), gap, strict=True)
    )
    result = placement(solution, objectives)
    stages.end("result")
    return replace(result, stage_seconds=stages.seconds)


def _by_model(
    model: Model, problem: CoverProblem, parts: Sequence[Part], covered: Sequence[int] | None, effort: Effort
) -> tuple[list[int], Vector]:
    """Choices for every decision, and how far each level may be above its optimum.

    The model decides the groups with a capacity that may be exceeded. Elsewhere the cover is the answer, if there is
    one (`covered`).
    """
    groups = [group for group in model.groups() if covered is None or group.limited]
    decided = {index for group in groups for index in group.points}
    left = [part for part in parts if decided.isdisjoint(problem.decisions(part))]
    least = None if covered is None else problem.least(parts)
    effort.work += sum(len(group.points) + len(group.hosts) for group in groups if not model.is_small(group))
    choices = list(covered or problem.domains)
    gap = gaps(left, model.levels)
    for group in groups:
        hints = [] if covered is None else [[covered[index] for index in group.points]]
        if model.levels.previous is not None:
            hints.append(_as_before(model.levels.previous, model.program, model.points, group.points, covered))
        bound = None if least is None else sum(least.get(host, 0) for host in group.hosts)
        taken, own = model.solve(group, hints, bound, effort)
        for index, choice in zip(group.points, taken, strict=True):
            choices[index] = choice
        gap = add(gap, tuple(level.value - level.bound for level in own))
    return choices, gap


def _as_before(
    previous: Previous,
    program: Program,
    found: Sequence[DecisionPoint],
    group: Sequence[int],
    covered: Sequence[int] | None,
) -> list[int]:
    """The choices of an earlier plan; where it has none, those of the cover, or else ingress."""
    choices: list[int] = []
    for index in group:
        before = previous.get((program.policies[found[index].policy].name, found[index].destination))
        known = before is not None and len(before) == 1
        choices.append(
            (EGRESS if before == (Side.EGRESS,) else INGRESS)
            if known
            else INGRESS
            if covered is None
            else covered[index]
        )
    return choices
