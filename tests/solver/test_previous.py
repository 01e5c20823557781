"""An earlier plan decides among equally good placements, and leaves no other trace in a plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.compile.plan.build import build
from admc.compile.plan.model import Plan
from admc.compile.plan.previous import previous_of
from admc.compile.plan.read import from_json
from admc.compile.plan.to_json import to_json
from dsl.program import Place, Program
from solver.place import BoundedChoices, Search, place
from solver.placement import ObjectiveValue, Placement, PlacementError, Previous, Status
from tests.generate import cover, generate
from tests.properties import examples
from tests.solver.generate import case

OBJECTIVES = ("adms, then overhead", "sidecars", "hops", "closed, then hops", "hops, then adms")


def compiled(program: Program, previous: Plan | None = None, effort: float | None = None) -> Plan:
    """A plan that went through its file."""
    earlier = None if previous is None else previous_of(previous, program)
    return from_json(to_json(build(program, place(program, previous=earlier, effort=effort), None)))


@examples(40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(OBJECTIVES))
def test_a_plan_with_itself_as_the_earlier_one_keeps_its_bytes(seed: int, objective: str) -> None:
    rng = random.Random(seed)  # noqa: S311 - programs of a test
    services = rng.randint(12, 40)
    text = generate(services, services * rng.randint(1, 3), rng.randint(1, 30), seed)
    text += f"objective minimize {objective}\n"
    program = dsl.load_text(text)
    try:
        plan = compiled(program)
    except PlacementError:
        return
    assert to_json(compiled(program, plan)) == to_json(plan)
    # Also one that was made with another earlier plan.
    lines = text.splitlines()
    policies = [index for index, line in enumerate(lines) if line.startswith("policy ")]
    del lines[rng.choice(policies)]
    other = dsl.load_text("\n".join(lines) + "\n")
    try:
        nearest = compiled(program, compiled(other))
    except PlacementError:
        return
    assert to_json(compiled(program, nearest)) == to_json(nearest)
    assert nearest.solver == plan.solver


@pytest.mark.parametrize("seed", range(25))
def test_a_placement_with_costs_and_capacities_is_its_own_nearest(seed: int) -> None:
    of = case(random.Random(seed))  # noqa: S311 - programs of a test
    try:
        found = place(of.program, of.costs, previous=of.previous)
    except PlacementError:
        return
    again = place(of.program, of.costs, previous=earlier(found))
    assert replace(again, stage_seconds={}) == replace(found, stage_seconds={})


def earlier(found: Placement, objectives: tuple[ObjectiveValue, ...] | None = None) -> Previous:
    return Previous(
        {(decision.policy, decision.destination): decision.place for decision in found.decisions},
        frozenset(adm.service for adm in found.adms),
        found.objectives if objectives is None else objectives,
    )


# ---- what is not proven ----

EFFORT = 0.02
Change = Callable[[ObjectiveValue], ObjectiveValue]


@pytest.fixture(scope="module")
def hard() -> tuple[Program, Placement]:
    """A program of which so little effort proves no optimum."""
    program = dsl.load_text(cover(300, 900, 5, "uniform"))
    found = place(program, effort=EFFORT)
    assert found.status is Status.FEASIBLE
    return program, found


def bounds(of: Placement, change: Change) -> tuple[ObjectiveValue, ...]:
    """The levels with another bound of the first one."""
    return (change(of.objectives[0]), *of.objectives[1:])


def test_an_unproven_plan_keeps_its_placement_and_its_bounds(hard: tuple[Program, Placement]) -> None:
    program, found = hard
    again = place(program, effort=EFFORT, previous=earlier(found))
    assert replace(again, stage_seconds={}) == replace(found, stage_seconds={})


def test_bounds_that_claim_less_are_kept(hard: tuple[Program, Placement]) -> None:
    program, found = hard
    less = bounds(found, lambda level: level._replace(bound=level.bound - 7))
    assert place(program, effort=EFFORT, previous=earlier(found, less)).objectives == less


def test_bounds_that_claim_more_than_is_proven_give_way(hard: tuple[Program, Placement]) -> None:
    program, found = hard
    more = bounds(found, lambda level: level._replace(bound=level.value))
    again = place(program, effort=EFFORT, previous=earlier(found, more))
    assert again.objectives == found.objectives
    assert again.decisions == found.decisions


def test_a_better_value_gives_way_to_none(hard: tuple[Program, Placement]) -> None:
    """The earlier placement is worse: it has an ADM at each destination."""
    program, found = hard
    worse = {(decision.policy, decision.destination): Place.INGRESS for decision in found.decisions}
    hosts = frozenset(destination for _, destination in worse)
    claimed = tuple(level._replace(value=len(hosts), bound=0) for level in found.objectives)
    again = place(program, effort=EFFORT, previous=Previous(worse, hosts, claimed))
    assert again.objectives[0].value <= found.objectives[0].value
    assert again.objectives[0].bound > 0


def test_a_better_earlier_placement_is_kept_without_its_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends early may find less than the earlier plan has."""
    program = dsl.load_text(
        "app shop\nservice a, b, c { http 80 }\ncall a -> b, c\npolicy log = access_log() on a -> {b, c}\n"
    )
    better = place(program)
    assert [adm.service for adm in better.adms] == ["a"]
    monkeypatch.setattr(
        Search,
        "best",
        lambda _self, _levels, _left, _stages: BoundedChoices([Place.INGRESS, Place.INGRESS], (1, 0, 0, 0)),
    )
    assert [adm.service for adm in place(program).adms] == ["b", "c"]
    again = place(program, previous=earlier(better))
    assert again.decisions == better.decisions
    assert again.objectives[0] == ("adms", 1, 1)
    assert again.status is Status.FEASIBLE


def test_bounds_of_another_program_leave_no_trace(hard: tuple[Program, Placement]) -> None:
    program, found = hard
    plan = from_json(to_json(build(program, found, None)))
    objectives = tuple(replace(level, bound=0) for level in plan.solver.objectives)
    plan = replace(plan, solver=replace(plan.solver, objectives=objectives))
    assert previous_of(plan, program).objectives
    commented = dsl.load_text(cover(300, 900, 5, "uniform") + "// why\n")
    assert previous_of(plan, commented).objectives == ()
    assert compiled(commented, plan, EFFORT).solver.objectives[0].bound == found.objectives[0].bound
