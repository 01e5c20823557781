"""The solver finds what an exhaustive search finds, and the verifier agrees with the rules as the tests read them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import strategies as st

from dsl.program import Metric, Place, Program
from solver.place import place
from solver.placement import Cost, Costs, Decision, Hop, Placement, PlacementError, Previous, Rule, Status
from solver.verify.verifier import verify
from tests.properties import examples
from tests.solver import oracle
from tests.solver.build import Assignment, hops, hosts, minimized, offered, placement, tasks
from tests.solver.generate import Case, case

Best = list[tuple[tuple[int, ...], dict[tuple[str, str], Place]]]

SAMPLED = 8
"""Assignments of one program, right or wrong, on which verifier and oracle are compared."""


def check_verifier(of: Case, rng: random.Random) -> set[Rule]:
    """Compares the rules that both name on some assignments; returns those that were broken."""
    every = tasks(of.program)
    seen: set[Rule] = set()
    for _ in range(SAMPLED):
        assignment: Assignment = {task.key: rng.choice(offered(task)) for task in every}
        broken = oracle.broken(of.program, assignment, of.costs)
        found = verify(of.program, placement(of.program, assignment, of.costs), of.costs)
        assert {violation.rule for violation in found} == broken, (assignment, found)
        seen |= broken
    return seen


def check_solver(of: Case) -> bool:
    """Compares the solver's placement with the exhaustive search; returns whether there is one."""
    best = oracle.best(of.program, of.costs)
    if not best:
        with pytest.raises(PlacementError) as raised:
            place(of.program, of.costs, previous=of.previous)
        assert raised.value.parts
        return False
    check_placement(of, place(of.program, of.costs, previous=of.previous), best)
    return True


def check_model(of: Case) -> bool:
    """The same with CP-SAT deciding everything, which it does for large programs only."""
    best = oracle.best(of.program, of.costs)
    with patch("solver.cpsat.model.FEW", 0):
        if not best:
            with pytest.raises(PlacementError):
                place(of.program, of.costs, previous=of.previous, reductions=False)
            return False
        check_placement(of, place(of.program, of.costs, previous=of.previous, reductions=False), best)
    return True


def check_placement(of: Case, found: Placement, best: Best) -> None:
    assert verify(of.program, found, of.costs) == ()
    assert found.status is Status.OPTIMAL
    taken: Assignment = {(d.policy, d.destination): d.place for d in found.decisions}
    assert oracle.values(of.program, taken, of.costs) == best[0][0]
    levels = minimized(of.program, of.costs)
    assert [level.metric for level in found.objectives] == levels
    assert tuple(level.value for level in found.objectives) == best[0][0]
    if of.previous is not None:
        nearest = min(changes(of.program, of.previous, other) for _, other in best)
        assert changes(of.program, of.previous, taken) == nearest
    for decision in found.decisions:
        check_reasons(of, decision, taken)


def changes(program: Program, previous: Previous, now: Assignment) -> tuple[int, int]:
    """Sidecars that come or go, then decisions that move."""
    there = {
        host for task in tasks(program) for side in now[task.key].sides for host in hosts(program, task, side)
    } & program.services.keys()
    sidecars = sum(program.services[host].replicas for host in there ^ (previous.hosts & program.services.keys()))
    return sidecars, sum(1 for key, before in previous.places.items() if now[key] is not before)


def check_reasons(of: Case, decision: Decision, taken: Assignment) -> None:
    """A place that is said to be free is free with all other decisions fixed; a rule that is named forbids it."""
    task = next(task for task in tasks(of.program) if task.key == (decision.policy, decision.destination))
    for at, reason in decision.ruled_out.items():
        forbidden = oracle.place_broken(of.program, task, at)
        pinned = any((pin.policy, pin.destination) == task.key and pin.place is not at for pin in of.program.pins)
        broken = oracle.broken(of.program, {**taken, task.key: at}, of.costs)
        if reason is None:
            assert not broken, (decision, at)
            assert not pinned
        elif reason.rule is Rule.PIN:
            assert pinned
        elif reason.rule in (Rule.ORDER, Rule.CAPACITY):
            assert reason.rule in broken, (decision, at)
        else:
            assert reason.rule in forbidden, (decision, at)


# A seed gives programs with more to choose; Hypothesis' own choices shrink to the smallest program that fails.
RANDOM = st.one_of(
    st.integers(0, 2**63 - 1).map(random.Random),
    st.integers(0, 2**63 - 1).map(random.Random),
    st.randoms(use_true_random=False),
)


@examples(180, suppress_health_check=list(HealthCheck))
@given(RANDOM)
def test_the_solver_finds_the_optimum_and_the_verifier_agrees(rng: random.Random) -> None:
    of = case(rng)
    for rule in sorted(check_verifier(of, rng)):
        event(f"{rule} rules something out")
    event("feasible" if check_solver(of) else "infeasible")


@examples(125, suppress_health_check=list(HealthCheck))
@given(RANDOM)
def test_with_costs_of_hops_the_solver_finds_the_optimum(rng: random.Random) -> None:
    of = case(rng, priced=True)
    event("feasible" if check_solver(of) else "infeasible")


@examples(50, suppress_health_check=list(HealthCheck))
@given(RANDOM)
def test_the_verifier_rejects_every_wrong_sum(rng: random.Random) -> None:
    """A value that is off by one, that leaves out a hop, or that pays a hop for each policy."""
    of = case(rng, priced=True)
    taken = {task.key: rng.choice(offered(task)) for task in tasks(of.program)}
    right = placement(of.program, taken, of.costs)
    before = set(verify(of.program, right, of.costs))
    due = Counter(
        hop for task in tasks(of.program) for side in taken[task.key].sides for hop in hops(of.program, task, side)
    )
    for at, level in enumerate(right.objectives):
        wrong = {level.value + 1, level.value - 1}
        if level.metric in (Metric.CPU, Metric.OVERHEAD):
            shares = {hop: of.costs.hop.get(Hop(*hop), Cost()).cpu for hop in due}
            wrong |= {level.value - cost for cost in shares.values()}
            wrong.add(level.value + sum(cost * (due[hop] - 1) for hop, cost in shares.items()))
        for value in wrong - {level.value}:
            changed = [*right.objectives]
            changed[at] = level._replace(value=value, bound=value)
            found = verify(of.program, replace(right, objectives=tuple(changed)), of.costs)
            assert [new.rule for new in set(found) - before] == [None], level


@examples(60, suppress_health_check=list(HealthCheck))
@given(RANDOM)
def test_the_model_alone_finds_the_optimum(rng: random.Random) -> None:
    check_model(case(rng))


# What random draws have found: matches that contradict themselves, and a guard with a match on a port of tcp.
@pytest.mark.parametrize("seed", [6557, 9121, 10646])
def test_verifier_and_oracle_name_the_same_rules(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    check_verifier(case(rng, network=False), rng)


def test_random_programs_meet_every_rule() -> None:
    """Programs of fixed seeds: each rule forbids something in some of them, and both outcomes occur."""
    met: Counter[str] = Counter()
    for seed in range(300):
        rng = random.Random(seed)  # noqa: S311
        of = case(rng)
        met.update(rule.value for rule in check_verifier(of, rng))
        met["feasible" if oracle.best(of.program, of.costs) else "infeasible"] += 1
        met["a choice"] += oracle.count(of.program) > 1
        met.update(
            rule.value
            for task in tasks(of.program)
            for place in offered(task)
            for rule in oracle.place_broken(of.program, task, place)
        )
    # R1 and R2 forbid no place: they are what a decision is (test_verify.py breaks them by hand).
    for rule in set(Rule) - {Rule.COVERAGE, Rule.ATOMICITY}:
        assert met[rule.value] >= 3, met
    assert met["feasible"] >= 75, met
    assert met["infeasible"] >= 30, met
    assert met["a choice"] >= 75, met


@pytest.mark.parametrize("seed", [82, 128, 166, 667, 812, *range(40)])
def test_the_least_is_changed_where_an_adm_costs_nothing(seed: int) -> None:
    """Such an ADM may make a placement better only by being there, and a cover might have one that nothing needs."""
    rng = random.Random(seed)  # noqa: S311
    program = case(rng, priced=False, network=False).program
    program = replace(program, objective=rng.choice([(Metric.HOPS,), (Metric.CLOSED,), (Metric.HOPS, Metric.CLOSED)]))
    previous = Previous(
        {task.key: rng.choice([Place.INGRESS, Place.EGRESS]) for task in tasks(program)},
        frozenset(name for name in program.services if rng.random() < 0.5),
    )
    best = oracle.best(program, Costs())
    if best:
        found = place(program, previous=previous)
        taken: Assignment = {(each.policy, each.destination): each.place for each in found.decisions}
        assert changes(program, previous, taken) == min(changes(program, previous, other) for _, other in best)
