"""The place `network` in random programs: how often it is drawn, and that the solver takes it where that is best."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dsl.program import Place
from solver.placement import Rule
from tests.solver import oracle
from tests.solver.build import NETWORK, tasks
from tests.solver.generate import Case, case
from tests.solver.test_optimal import check_model, check_solver, check_verifier

SEEDS = range(300)
PROGRAMS = 500
CONDITIONS = (
    *("no match", "no narrowing", "every source", "no exception", "network policies enforced", "a service"),
    *("whole targets", "a destination that can be closed", "admitted parties with an address", "no host network"),
    *("no declared call refused", "no self call refused", "no refused call repeated or counted"),
)


def _with_the_place(seed: int) -> Case | None:
    """The program of a seed if some decision of it may be in the network."""
    of = case(random.Random(seed), network=True)  # noqa: S311
    networks = [task for task in tasks(of.program) if task.policy.kind.network]
    return of if any(not oracle.network_broken(of.program, task) for task in networks) else None


def test_random_programs_offer_the_network() -> None:
    """Programs of fixed seeds: the place is offered, best, and forbidden by each rule that can forbid it."""
    met, broken = Counter[str](), Counter[str]()
    for seed in SEEDS:
        of = case(random.Random(seed), network=True)  # noqa: S311
        taken = [assignment for _, assignment in oracle.best(of.program, of.costs)]
        for task in tasks(of.program):
            if not task.policy.kind.network:
                continue
            met["guards"] += 1
            faults = oracle.network_faults(of.program, task)
            rules = set(faults.values())
            met["offered"] += not rules
            met.update(rule.value for rule in rules)
            broken.update(faults.keys())
            met["taken"] += any(assignment[task.key] is NETWORK for assignment in taken)
            met["taken in every optimum"] += bool(taken) and all(a[task.key] is NETWORK for a in taken)
            met["drops"] += not rules and any(
                of.program.calls[index].source not in oracle.admitted(task.policy) for index in task.calls
            )
            met["shares a target"] += not rules and _shares_a_target(of, task.destination)
            met["with a node"] += not rules and any(s.host_network for s in of.program.services.values())
            met["without calls"] += not rules and not task.calls
        met["pins"] += any(pin.place is NETWORK for pin in of.program.pins)
        met["excused"] += _excused(of)
    assert met["offered"] >= 70, met
    assert met["taken"] >= 30, met
    assert met["taken in every optimum"] >= 20, met
    for rule in (Rule.OUTSIDE, Rule.CAPABILITY, Rule.CLOSED):
        assert met[rule.value] >= 10, met
    for condition in CONDITIONS:
        assert broken[condition] >= 3, broken
    for event in ("drops", "shares a target", "with a node", "without calls", "pins", "excused"):
        assert met[event] >= 3, met


def _shares_a_target(of: Case, there: str) -> bool:
    ports = of.program.services[there].ports
    return len({port.target for port in ports}) < len(ports)


def _excused(of: Case) -> int:
    """Pairs of policies that do not commute, and of which one is a guard that lets the requests of both pass."""
    every = tasks(of.program)
    return sum(
        1
        for at, p in enumerate(every)
        for q in every[at + 1 :]
        if p.destination == q.destination
        and set(p.calls) & set(q.calls)
        and not oracle.commute(p.policy, q.policy)
        and oracle.overlap(p.policy, q.policy)
        and oracle.harmless(of.program, p, q)
    )


@pytest.mark.long
def test_the_optimum_over_three_places() -> None:
    seeds = iter(range(1_000, 1_000_000))
    tried = taken = 0
    while tried < PROGRAMS:
        seed = next(seeds)
        of = _with_the_place(seed)
        if of is None:
            continue
        tried += 1
        rng = random.Random(seed)  # noqa: S311
        check_verifier(of, rng)
        check_solver(of)
        check_model(of)
        taken += any(Place.NETWORK in a.values() for _, a in oracle.best(of.program, of.costs))
    assert taken >= PROGRAMS // 4, taken
