"""How much more the solver's placements cost than the best ones, by the full model.

    python -m tests.cost.gap [--programs N] [--seed N] [--profile PROFILE]

The solver adds up coefficients, which are bounds; the full model takes every hop at the rate of its whole sidecar. So
the best placement by coefficients may not be the best by the model. An exhaustive search over the correct placements of
small random programs, and of the examples that are small enough, finds the best one. All calls have rates, since a
sidecar that a call without one passes has no latency in the model. Exits with 1 if the median is above 5%.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median
from typing import NamedTuple

import dsl
from admc.cost.model.coefficients import coefficients
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_placement
from admc.cost.profiles.profile import Profile
from admc.cost.profiles.source import named_profile
from dsl.program import Metric, Program
from solver.place import place
from solver.placement import Costs, Placement
from solver.rules.options import decision_points
from tests.cost.documents import profile
from tests.solver import oracle
from tests.solver.build import Assignment, placement
from tests.solver.generate import case

EXAMPLES = Path(__file__).parents[2] / "examples"
OBJECTIVES = ((Metric.CPU,), (Metric.ADMS, Metric.OVERHEAD), (Metric.LATENCY,))
RATES = (0.1, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 150.0)
SIZES = (None, 60, 100, 800, 4_000)
LEAST = 16
"""Assignments of sides that a random program has at least, so that there is something to choose."""
MOST = 3_000
"""Assignments of an example that is searched at most."""
GOAL = 0.05
"""Most that the chosen placement may cost above the best, for half of the programs."""
COMPONENTS = ("request_count", "request_count", "compressor", "cors")
"""Of the random kinds: some figures depend on the side or on arguments, and some are missing."""


class Gap(NamedTuple):
    """One program under one objective: the chosen placement and the best, by the full model."""

    name: str
    metric: Metric
    chosen: int
    best: int
    expected: int
    """What the solver expects of the chosen placement."""

    @property
    def more(self) -> float:
        """By which part the chosen placement costs more than the best."""
        if not self.best:
            return inf if self.chosen else 0.0
        return self.chosen / self.best - 1

    @property
    def above(self) -> float:
        """By which part the solver's own figure is above the model's."""
        return self.expected / self.chosen - 1 if self.chosen else 0.0


def random_program(rng: random.Random) -> Program:
    """A program of the exhaustive search with rates, sizes and components."""
    while True:
        of = case(rng, priced=False).program
        if oracle.count(of) < LEAST:
            continue
        calls = tuple(call._replace(rate=rng.choice(RATES), size=rng.choice(SIZES)) for call in of.calls)
        policies = tuple(
            replace(policy, kind=replace(policy.kind, component=rng.choice(COMPONENTS))) for policy in of.policies
        )
        services = {name: replace(each, capacity=None) for name, each in of.services.items()}
        return replace(of, calls=calls, policies=policies, services=services)


def gaps(name: str, program: Program, costs: Profile) -> Iterator[Gap]:
    """One for each objective; none if no placement is correct."""
    correct = [
        _figures(program, assignment, costs)
        for assignment in oracle.assignments(program, only_possible=True)
        if not oracle.broken(program, assignment, Costs())
    ]
    for objective in OBJECTIVES if correct else ():
        of = replace(program, objective=objective)
        found = place(of, coefficients(of, decision_points(of), costs))
        yield _gap(name, of, found, correct, costs)


def _gap(name: str, program: Program, found: Placement, correct: Sequence[Mapping[Metric, int]], costs: Profile) -> Gap:
    """Against the best of the correct placements that are equal in all levels before the measured one."""
    metric = program.objective[-1]
    metrics = [Metric(level.metric) for level in found.objectives]
    before = metrics[: metrics.index(metric)]
    best = min([each[level] for level in (*before, metric)] for each in correct)
    taken: Assignment = {(each.policy, each.destination): each.place for each in found.decisions}
    chosen = _figures(program, taken, costs)
    assert [chosen[level] for level in before] == best[:-1]
    return Gap(name, metric, chosen[metric], best[-1], found.objectives[len(before)].value)


def _figures(program: Program, assignment: Assignment, costs: Profile) -> Mapping[Metric, int]:
    """The value of each metric, those of the profile by the full model."""
    totals = estimate(program, of_placement(program, placement(program, assignment)), costs).totals
    cpu, latency = totals.cpu.value, totals.latency.value
    counted = oracle.figures(program, assignment, Costs())
    return {**counted, Metric.CPU: cpu, Metric.OVERHEAD: cpu, Metric.LATENCY: latency}


def random_gaps(programs: int, seed: int, costs: Profile) -> list[Gap]:
    found: list[Gap] = []
    for number in range(programs):
        rng = random.Random(f"{seed} {number}")  # noqa: S311
        found += gaps(f"program {number}", random_program(rng), costs)
    return found


def example_gaps(costs: Profile) -> list[Gap]:
    found: list[Gap] = []
    for path in sorted(EXAMPLES.glob("*/policies.adm")):
        program = dsl.load(path)
        if oracle.count(program) <= MOST:
            found += gaps(path.parent.name, program, costs)
    return found


def half_of_all(found: Sequence[Gap]) -> float:
    """The median of programs that cost something at all."""
    return median(gap.more for gap in found if gap.chosen or gap.best)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cost.gap", description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=200, help="random programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", help="a file or a built-in profile; by default that of the tests")
    options = parser.parse_args(arguments)
    costs = profile() if options.profile is None else named_profile(options.profile).profile
    print(f"profile {costs.name}, seed {options.seed}; cost above the best placement, by the full model")
    worst = 0.0
    for title, found in (
        ("random programs", random_gaps(options.programs, options.seed, costs)),
        ("examples", example_gaps(costs)),
    ):
        for objective in OBJECTIVES:
            rows = [gap for gap in found if gap.metric is objective[-1] and (gap.chosen or gap.best)]
            worst = max(worst, half_of_all(rows))
            print(_line(title, objective, rows))
    return int(worst > GOAL)


def _line(title: str, objective: Sequence[Metric], rows: Sequence[Gap]) -> str:
    more = sorted(gap.more for gap in rows)
    above = [gap.above for gap in rows]
    last = max(rows, key=lambda gap: gap.more)
    return (
        f"{title}, minimize {', then '.join(objective)}: {len(rows)} placements, median {median(more):.2%}, "
        f"90th percentile {more[len(more) * 9 // 10]:.2%}, worst {more[-1]:.2%} ({last.name}); the coefficients are "
        f"above the model by {median(above):.1%} (median), {max(above):.1%} at most"
    )


if __name__ == "__main__":
    sys.exit(main())
