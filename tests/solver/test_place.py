"""Placements as a whole: reproducible, minimal, close to an earlier plan, with correct bounds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import dsl
import solver.cpsat.model
from dsl.program import Place, Side
from solver.place import place
from solver.placement import Cost, Costs, Hop, Placement, PlacementError, Previous, Rule, Status
from solver.verify.verifier import verify
from tests.generate import cover, generate
from tests.solver.generate import case

CHAIN = """app chain
service a, b, c, d { http 80 }
call a -> b
call b -> c
call c -> d
policy log = access_log() on a -> b
policy count = request_count() on b -> c
policy tag = set_request_header(name: "x-tier", value: "gold") on c -> d
"""


def sides(placement: Placement) -> dict[tuple[str, str], Place]:
    return {(decision.policy, decision.destination): decision.place for decision in placement.decisions}


def hosts(placement: Placement) -> list[str]:
    return [adm.service for adm in placement.adms]


def test_a_chain_needs_every_other_service() -> None:
    found = place(dsl.load_text(CHAIN))
    assert hosts(found) == ["a", "c"] or hosts(found) == ["b", "c"] or hosts(found) == ["b", "d"]
    # Equally few: the earliest names win.
    assert hosts(found) == ["a", "c"]
    assert found.status is Status.OPTIMAL
    assert found.objectives[0] == ("adms", 2, 2)


def test_fewest_closed_destinations_come_before_names() -> None:
    program = dsl.load_text("app x\nservice a, b { http 80 }\ncall a -> b\npolicy log = access_log() on * -> b\n")
    found = place(program)
    assert (hosts(found), found.closed) == (["b"], ())


def test_replicas_weigh() -> None:
    text = CHAIN.replace(
        "service a, b, c, d { http 80 }", "service a, c { http 80  replicas 9 }\nservice b, d { http 80 }"
    )
    assert hosts(place(dsl.load_text(text + "objective minimize sidecars\n"))) == ["b", "d"]
    assert hosts(place(dsl.load_text(text))) == ["a", "c"]


def test_pins_are_kept_and_named() -> None:
    found = place(dsl.load_text(CHAIN + "pin tag at ingress\n"))
    assert sides(found)["tag", "d"] == Place.INGRESS
    (decision,) = (d for d in found.decisions if d.policy == "tag")
    reason = decision.ruled_out[Place.EGRESS]
    assert reason is not None
    assert reason.rule is Rule.PIN
    assert reason.spans[0].text == "pin tag at ingress"


def test_order_is_a_reason() -> None:
    found = place(
        dsl.load_text(
            "app x\nservice a, b, c { http 80 }\ncall a -> c\ncall b -> c\n"
            "policy again = retry(attempts: 3) on a -> c\n"
            "policy fail = fault_abort(status: 503) on a -> c\n"
        )
    )
    assert sides(found) == {("again", "c"): Place.EGRESS, ("fail", "c"): Place.INGRESS}
    reason = found.decisions[1].ruled_out[Place.EGRESS]
    assert reason is not None
    assert reason.rule is Rule.ORDER
    assert "again" in reason.message


def test_an_earlier_plan_is_kept_where_it_is_as_good() -> None:
    program = dsl.load_text(CHAIN)
    earlier = {("log", "b"): Place.INGRESS, ("count", "c"): Place.EGRESS, ("tag", "d"): Place.INGRESS}
    found = place(program, previous=Previous(earlier, frozenset({"b", "d"})))
    assert sides(found) == earlier
    # Fewer ADMs are worth a change, and then no more than it takes.
    wasteful = {("log", "b"): Place.EGRESS, ("count", "c"): Place.EGRESS, ("tag", "d"): Place.INGRESS}
    changed = place(program, previous=Previous(wasteful, frozenset({"a", "b", "d"})))
    assert len(changed.adms) == 2
    assert sum(sides(changed)[key] != before for key, before in wasteful.items()) == 1
    assert "changes" not in {level.metric for level in changed.objectives}


def test_the_model_counts_no_adm_that_nothing_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    case_file = Path(__file__).with_name("cases") / "previous-host-that-nothing-needs.adm"
    earlier = Previous({("log", "x"): Place.INGRESS}, frozenset({"h"}))
    monkeypatch.setattr(solver.cpsat.model, "FEW", 0)
    found = place(dsl.load_text(case_file.read_text()), previous=earlier)
    assert sides(found) == {("log", "x"): Place.EGRESS}


def test_capacity_moves_work_away() -> None:
    text = CHAIN.replace(
        "service a, b, c, d { http 80 }", "service a, b, d { http 80 }\nservice c { http 80  capacity 0.01 }"
    )
    costs = Costs(adm={name: Cost(6_000_000) for name in "abcd"}, known=True)
    assert "c" in hosts(place(dsl.load_text(text), costs))
    full = replace(
        costs,
        enforcement={
            ("c", Side.INGRESS, "count", "c"): Cost(3_000_000),
            ("c", Side.EGRESS, "tag", "d"): Cost(3_000_000),
        },
    )
    found = place(dsl.load_text(text), full)
    assert len(found.adms) == 2
    assert not verify(dsl.load_text(text), found, full)
    both = {("count", "c"): Place.INGRESS, ("tag", "d"): Place.EGRESS}
    assert {key: sides(found)[key] for key in both} != both


@pytest.mark.parametrize("seed", range(12))
def test_every_way_to_solve_agrees(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cover, enumeration and CP-SAT take the same placement, ties included."""
    rng = random.Random(1000 + seed)  # noqa: S311
    program = dsl.load_text(generate(14, 24, 12, seed))
    costs = None
    if seed % 3:
        known = {name: Cost(rng.randint(1, 4), 1) for name in program.services}
        costs = Costs(adm=known, known=True)
        if seed % 2:
            hops = [Hop(c.source, Side.EGRESS, c.destination, c.port.number) for c in program.calls]
            hops += [Hop(c.destination, Side.INGRESS, c.destination, c.port.number) for c in program.calls]
            costs = replace(costs, hop={hop: Cost(rng.randint(0, 3), 1) for hop in hops})
    reduced = place(program, costs)
    plain = place(program, costs, reductions=False)
    monkeypatch.setattr(solver.cpsat.model, "FEW", 0)
    modelled = place(program, costs, reductions=False)
    for other in (plain, modelled):
        assert replace(other, stage_seconds={}) == replace(reduced, stage_seconds={})


def test_cp_sat_agrees_on_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs with costs, capacities and earlier plans, solved by enumeration and by CP-SAT."""
    compared = 0
    for seed in range(60):
        of = case(random.Random(seed))  # noqa: S311
        monkeypatch.setattr(solver.cpsat.model, "FEW", 8)
        try:
            few = place(of.program, of.costs, previous=of.previous)
        except PlacementError:
            continue
        monkeypatch.setattr(solver.cpsat.model, "FEW", 0)
        many = place(of.program, of.costs, previous=of.previous)
        assert replace(few, stage_seconds={}) == replace(many, stage_seconds={})
        compared += 1
    assert compared >= 20


SCRIPT = """
import sys
import dsl
from dataclasses import replace
from solver.place import place
from solver.placement import Cost, Costs
from tests.generate import cover, generate
for text in (generate(120, 300, 60, 3), cover(150, 420, 4, "uniform")):
    program = dsl.load_text(text)
    costs = Costs({name: Cost(len(name) + at % 3, at % 5) for at, name in enumerate(program.services)}, known=True)
    for with_costs in (None, costs):
        found = place(program, with_costs, effort=0.5)
        print([(d.policy, d.destination, d.place, d.ruled_out, d.closes) for d in found.decisions], found.adms)
        print(found.objectives, found.status, found.closed)
"""


@pytest.mark.long
def test_the_same_under_every_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) > 10_000


def test_shuffled_lines_change_nothing() -> None:
    text = generate(60, 140, 30, 5)
    rng = random.Random(5)  # noqa: S311
    head, *rest = text.splitlines()
    policies = [line for line in rest if line.startswith("policy")]
    others = [line for line in rest if line and not line.startswith("policy")]
    rng.shuffle(others)
    positions = sorted(rng.sample(range(len(policies) + len(others)), len(policies)))
    for at, line in zip(positions, policies, strict=True):
        others.insert(at, line)
    one, other = place(dsl.load_text(text)), place(dsl.load_text("\n".join([head, *others]) + "\n"))
    assert sides(one) == sides(other)
    assert one.adms == other.adms


def test_spent_effort_is_reported() -> None:
    program = dsl.load_text(cover(400, 1_200, 1, "uniform"))
    found = place(program, effort=0.1)
    assert found.status is Status.FEASIBLE
    assert found.objectives[0].bound < found.objectives[0].value
    assert verify(program, found) == ()


def test_a_small_program_loads_no_solver() -> None:
    script = (
        "import sys, dsl\nfrom solver.place import place\n"
        f"place(dsl.load_text({CHAIN!r}))\nassert not any(m.startswith('ortools') for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_large_program_is_proven() -> None:
    program = dsl.load_text(generate(1_000, 3_000, 200, 7))
    found = place(program)
    assert found.status is Status.OPTIMAL
    assert verify(program, found) == ()
    assert set(found.stage_seconds) == {"options", "order", "cover", "result"}
