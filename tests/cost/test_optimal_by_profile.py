"""With the costs of a profile the solver finds what an exhaustive search finds, and the verifier adds up the same.

`python -m tests.cost.gap` prints how far that is from the best placement by the full model.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st

from admc.cost.model.coefficients import coefficients
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_placement
from dsl.program import Metric, Program
from solver.place import place
from solver.placement import Cost, Costs, Hop, PlacementError, Status
from solver.rules.options import decision_points
from solver.verify.verifier import verify
from tests.cost import gap
from tests.cost.documents import profile
from tests.properties import examples
from tests.solver.generate import OBJECTIVES, Case, case
from tests.solver.test_optimal import RANDOM, check_model, check_solver

NODE = profile()


@pytest.mark.long
@examples(125, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**63 - 1))
def test_without_capacities_the_solver_finds_the_optimum_by_a_profile(seed: int) -> None:
    """Most of these programs have a correct placement, and at least 16 to choose from if no order forbids some."""
    rng = random.Random(seed)  # noqa: S311
    program = replace(gap.random_program(rng), objective=rng.choice(OBJECTIVES))
    of = Case(program, coefficients(program, decision_points(program), NODE), None)
    event("feasible" if check_solver(of) else "infeasible")


@examples(125, suppress_health_check=list(HealthCheck))
@given(RANDOM)
def test_with_the_costs_of_a_profile_the_solver_finds_the_optimum(rng: random.Random) -> None:
    event("feasible" if check_solver(priced_case(rng)) else "infeasible")


@examples(25, suppress_health_check=list(HealthCheck))
@given(RANDOM)
def test_with_the_costs_of_a_profile_the_model_alone_finds_the_optimum(rng: random.Random) -> None:
    check_model(priced_case(rng))


def priced_case(rng: random.Random) -> Case:
    """With capacities around the load of one sidecar, so that R9 decides some of them."""
    of = case(rng, priced=False)
    services = {
        name: replace(each, capacity=rng.choice([0.004, 0.02, 0.1, 2.0]) if rng.random() < 0.3 else None)
        for name, each in of.program.services.items()
    }
    calls = tuple(each._replace(rate=rng.choice(gap.RATES), size=rng.choice(gap.SIZES)) for each in of.program.calls)
    policies = tuple(
        replace(each, kind=replace(each.kind, component=rng.choice(gap.COMPONENTS))) for each in of.program.policies
    )
    program = replace(of.program, services=services, calls=calls, policies=policies, objective=rng.choice(OBJECTIVES))
    return Case(program, coefficients(program, decision_points(program), NODE), of.previous)


@examples(20, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**63 - 1))
def test_a_sum_of_coefficients_is_never_below_the_model_and_a_wrong_one_is_rejected(seed: int) -> None:
    program = replace(gap.random_program(random.Random(seed)), objective=(Metric.CPU,))  # noqa: S311
    costs = coefficients(program, decision_points(program), NODE)
    try:
        found = place(program, costs)
    except PlacementError:
        event("infeasible")
        return
    assert found.status is Status.OPTIMAL
    assert verify(program, found, costs) == ()
    level = found.objectives[0]
    model = estimate(program, of_placement(program, found), NODE).totals.cpu
    assert level.value >= model.value
    hop = costs.hop.get(_some_hop(program, costs, found.adms[0].service), Cost()) if found.adms else Cost()
    for wrong in {level.value - 1, level.value + 1, level.value - hop.cpu, model.value} - {level.value}:
        changed = (level._replace(value=wrong, bound=wrong), *found.objectives[1:])
        assert [each.rule for each in verify(program, replace(found, objectives=changed), costs)] == [None]


def _some_hop(program: Program, costs: Costs, service: str) -> Hop:
    return next(hop for hop in costs.hop if hop.service == service)


@pytest.mark.long
def test_half_of_the_placements_cost_at_most_a_twentieth_more_than_the_best() -> None:
    found = gap.random_gaps(12, seed=2, costs=NODE)
    assert len(found) >= 20
    for objective in gap.OBJECTIVES:
        assert gap.half_of_all([each for each in found if each.metric is objective[-1]]) <= gap.GOAL
    assert all(each.expected >= each.chosen for each in found if each.metric is not Metric.LATENCY)
