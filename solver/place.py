"""The entry point of the solver: a program's best correct placement, or the lines that make one impossible.

    program -> options -> order -> cover -> [model] -> placement

The model runs for capacities that may be exceeded, and with an earlier plan under an objective that counts neither
ADMs nor sidecars. Otherwise a cheapest cover is an optimum (`docs/adr/0002-solver.md` says why).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

from dsl.program import Place, Program
from solver.conflict.explain import explain, explain_overload
from solver.cover.problem import CoverProblem, gaps
from solver.cover.vertex_cover import Part
from solver.cpsat.engine import DEFAULT_EFFORT, Effort
from solver.cpsat.model import Model, OverloadError
from solver.objective import Levels, Vector, add
from solver.placement import Costs, ObjectiveValue, Placement, Previous
from solver.result import Solution, placement
from solver.rules.options import DecisionPoint, decision_points
from solver.rules.order import Clash, Domain, clashes, holds, inwards, propagate


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
    previous: Previous | None = None,
    effort: float | None = None,
    reductions: bool = True,
) -> Placement:
    """Return the best correct placement of `program` that the search reaches within `effort` (deterministic time).

    Its status says whether it is proven optimal: effort may run out, or a level may exceed the numbers of CP-SAT.

    `points` are the program's decision points, if the caller has them already. `previous` is an earlier plan: of
    equally good placements, the solver takes the placement that changes this plan least. `reductions` is for tests:
    without reductions the model decides everything. Raises `PlacementError` where no correct placement exists.
    """
    stages = Stages()
    costs = costs or Costs()
    decisions = decision_points(program) if points is None else points
    stages.end("options")
    clashing = clashes(program, decisions)
    domains, dead = propagate(program, decisions, clashing)
    stages.end("order")
    if dead:
        sizes = Counter(point.destination for point in decisions)
        raise explain(program, costs, sorted(dead, key=lambda name: (sizes[name], name)))
    most = DEFAULT_EFFORT if effort is None else effort
    search = Search(program, costs, decisions, domains, clashing, reductions=reductions)
    levels = Levels(program, costs, previous)
    best = search.best(levels, Effort(most), stages)
    if previous is not None:
        best = _as_little_changed(search, levels, best, previous, Effort(most), stages)
    solution = search.solution(best.choices, levels)
    pairs = zip(levels.names, solution.worth(), best.bound, strict=False)
    result = placement(solution, tuple(ObjectiveValue(*level) for level in pairs))
    stages.end("result")
    return replace(result, stage_seconds=stages.seconds)


class BoundedChoices(NamedTuple):
    """Choices for every decision, and proven lower bounds on the levels that a plan shows."""

    choices: Sequence[Place]
    bound: Vector


class Search:
    """Searches for the best choices of the decisions of one program, within the domain of each decision."""

    def __init__(
        self,
        program: Program,
        costs: Costs,
        points: Sequence[DecisionPoint],
        domains: Sequence[Domain],
        clashing: Mapping[str, Sequence[Clash]],
        *,
        reductions: bool,
    ) -> None:
        self.program = program
        self.costs = costs
        self.points = points
        self.domains = domains
        self.clashing = clashing
        self.reductions = reductions

    def solution(self, choices: Sequence[Place], levels: Levels) -> Solution:
        return Solution(self.program, self.points, choices, self.clashing, levels)

    def best(self, levels: Levels, left: Effort, stages: Stages) -> BoundedChoices:
        """The best choices by these levels that the search reaches within the effort."""
        problem = CoverProblem(self.program, self.points, self.domains, self.clashing, levels)
        covers = self.reductions and not levels.rewards_hosts
        parts = problem.solve(left) if covers else []
        choices = problem.choices(parts) if covers else None
        stages.end("cover")
        gap = gaps(parts, levels)
        if levels.limits or choices is None:
            try:
                model = Model(self.program, self.points, self.domains, self.clashing, levels)
                choices, gap = _by_model(model, problem, parts, choices, left)
            except OverloadError as overloaded:
                destinations = [self.points[index].destination for index in overloaded.points]
                raise explain_overload(self.program, self.costs, destinations, overloaded.hosts) from None
            stages.end("model")
        pairs = zip(self.solution(choices, levels).worth(), gap, levels.names, strict=False)
        return BoundedChoices(choices, tuple(value - open_ for value, open_, _ in pairs))

    def kept(self, previous: Previous, others: Sequence[Place], levels: Levels) -> list[Place] | None:
        """The choices of an earlier plan, with `others` where this plan has none; None if they break R6 or R9.

        A choice that the domain of its decision excludes is replaced by that of `others`.
        """
        choices = _as_before(previous, self.program, self.points, self.domains, range(len(self.points)), others)
        for clash in (clash for members in self.clashing.values() for clash in members):
            if not holds(self.program, self.points, clash, choices[clash.first], choices[clash.second]):
                return None
        load = self.solution(choices, levels).load if levels.limits else {}
        return choices if all(load.get(host, 0) <= limit for host, limit in levels.limits.items()) else None


def _as_little_changed(
    search: Search,
    levels: Levels,
    best: BoundedChoices,
    previous: Previous,
    effort: Effort,
    stages: Stages,
) -> BoundedChoices:
    """Return the best of three: `best`, the choices of the earlier plan, and those of a search without that plan.

    A search that considers an earlier plan may prove less. So if it proves no optimum, a search without the earlier
    plan follows, and the bounds of both searches hold. If the result is the placement of the earlier plan, the bounds
    of that plan are kept, unless they claim more than was proven.
    """
    kept = search.kept(previous, best.choices, levels)
    if kept is not None and search.solution(kept, levels).worth() < search.solution(best.choices, levels).worth():
        best = best._replace(choices=kept)
    worth = search.solution(best.choices, levels).worth()
    if best.bound != worth[: len(best.bound)]:
        plain = search.best(Levels(search.program, search.costs, None), effort, stages)
        if search.solution(plain.choices, levels).worth() < worth:
            best = best._replace(choices=plain.choices)
        best = best._replace(bound=tuple(map(max, best.bound, plain.bound)))
    claimed = _claimed(search, levels, best, previous)
    if claimed is None or any(own < other for own, other in zip(best.bound, claimed, strict=True)):
        return best
    return best._replace(bound=claimed)


def _claimed(search: Search, levels: Levels, best: BoundedChoices, previous: Previous) -> Vector | None:
    """The bounds of the earlier plan if it belongs to this program and has this placement and these values, or None."""
    points = zip(search.points, best.choices, strict=True)
    policies = search.program.policies
    taken = {(policies[point.policy].name, point.destination): choice for point, choice in points}
    worth = search.solution(best.choices, levels).worth()
    values = tuple(ObjectiveValue(name, value, 0) for name, value in zip(levels.names, worth, strict=False))
    same = tuple(level._replace(bound=0) for level in previous.objectives) == values
    return tuple(level.bound for level in previous.objectives) if same and taken == previous.places else None


def _by_model(
    model: Model, problem: CoverProblem, parts: Sequence[Part], covered: Sequence[Place] | None, effort: Effort
) -> tuple[list[Place], Vector]:
    """Return choices for every decision, and the most by which each level may be above its optimum.

    The model decides the groups with a capacity that may be exceeded. The other groups take their choices from the
    cover (`covered`), if a cover was computed.
    """
    groups = [group for group in model.groups() if covered is None or group.limited]
    decided = {index for group in groups for index in group.points}
    left = [part for part in parts if decided.isdisjoint(problem.decisions(part))]
    least = None if covered is None else problem.least(parts)
    effort.work += sum(len(group.points) + len(group.hosts) for group in groups if not model.is_small(group))
    choices = [next(iter(left)) for left in problem.domains] if covered is None else list(covered)
    gap = gaps(left, model.levels)
    for group in groups:
        hints = [] if covered is None else [[covered[index] for index in group.points]]
        if (previous := model.levels.previous) is not None:
            hints.append(_as_before(previous, model.program, model.points, problem.domains, group.points, covered))
        bound = None if least is None else sum(least.get(host, 0) for host in group.hosts)
        taken, own = model.solve(group, hints, bound, effort)
        for index, choice in zip(group.points, taken, strict=True):
            choices[index] = choice
        gap = add(gap, tuple(level.value - level.bound for level in own))
    return choices, gap


def _as_before(
    previous: Previous,
    program: Program,
    points: Sequence[DecisionPoint],
    domains: Sequence[Domain],
    group: Sequence[int],
    covered: Sequence[Place] | None,
) -> list[Place]:
    """The choices of an earlier plan. A decision without such a choice, or to which the choice is not left, takes that
    of the cover, or else its innermost place."""
    choices: list[Place] = []
    for index in group:
        before = previous.places.get((program.policies[points[index].policy].name, points[index].destination))
        if before in domains[index]:
            choices.append(before)
        else:
            choices.append(inwards(domains[index])[0] if covered is None else covered[index])
    return choices
