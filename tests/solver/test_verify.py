"""The verifier accepts correct placements and rejects each kind of incorrect one with the rule.

Every wrong placement is a right one changed by hand in one place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from dsl.program import Call, Metric, Place, Port, Protocol
from solver.placement import Adm, Cost, Costs, Decision, ObjectiveValue, Placement, Reason, Rule, Status
from solver.verify.verifier import verify
from tests.solver.build import EGRESS, INGRESS, Spec, program, service
from tests.solver.samples import (
    COUNT,
    IN,
    MTLS,
    ONLY_HTTP,
    OUT,
    PORTS,
    RETRY,
    RIGHT,
    SHOP,
    TIMEOUT,
    TRUSTED,
    TWO,
    change,
    decision,
    place,
    rules,
    without,
)


def test_the_right_placement_is_accepted() -> None:
    assert verify(SHOP, RIGHT) == ()


def test_another_right_placement_is_accepted() -> None:
    assert verify(SHOP, place(SHOP, {"log": OUT, "limit": OUT, "again": OUT})) == ()


def _set_adm(what: Placement, adm: Adm) -> Placement:
    return replace(what, adms=tuple(adm if there.service == adm.service else there for there in what.adms))


def _level(what: Placement, at: int, level: ObjectiveValue) -> Placement:
    return replace(what, objectives=(*what.objectives[:at], level, *what.objectives[at + 1 :]))


def _split_receiver(what: Placement) -> Placement:
    """`log` at the egress of `a` for its call, and at ingress for the rest."""
    whole = decision(what, "log", "d")
    one = replace(whole, place=OUT, calls=whole.calls[:1], ruled_out={INGRESS: None})
    other = replace(whole, calls=whole.calls[1:])
    kept = without(what, "log", "d")
    return replace(kept, decisions=(one, other, *kept.decisions))


WRONG: dict[str, tuple[Rule | None, Callable[[Placement], Placement]]] = {
    "a decision is missing": (Rule.COVERAGE, lambda p: without(p, "limit", "e")),
    "every decision is missing": (Rule.COVERAGE, lambda p: replace(p, decisions=(), adms=())),
    "a decision is there twice": (Rule.COVERAGE, lambda p: replace(p, decisions=(*p.decisions, p.decisions[-1]))),
    "both ends for a kind that needs one": (
        Rule.COVERAGE,
        lambda p: change(p, "limit", "d", place=Place.BOTH, ruled_out={}),
    ),
    "a call is left out": (Rule.COVERAGE, lambda p: change(p, "log", "d", calls=(1, 2))),
    "a call of another scope": (Rule.COVERAGE, lambda p: change(p, "limit", "d", calls=(1, 2))),
    "calls out of order": (Rule.COVERAGE, lambda p: change(p, "log", "d", calls=(3, 2, 1))),
    "an unknown policy": (
        Rule.COVERAGE,
        lambda p: replace(p, decisions=(*p.decisions, Decision("other", "d", IN, (1,), {EGRESS: None}))),
    ),
    "a destination out of scope": (
        Rule.COVERAGE,
        lambda p: replace(p, decisions=(*p.decisions, Decision("front", "d", IN, (1,), {EGRESS: None}))),
    ),
    "undeclared callers are forgotten": (Rule.COVERAGE, lambda p: change(p, "log", "d", open=False)),
    "undeclared callers are invented": (Rule.COVERAGE, lambda p: change(p, "limit", "d", open=True)),
    "a port is left out": (Rule.COVERAGE, lambda p: change(p, "log", "d", ports=())),
    "the place not taken is not explained": (Rule.COVERAGE, lambda p: change(p, "limit", "d", ruled_out={})),
    "the place taken is ruled out": (
        Rule.COVERAGE,
        lambda p: change(p, "limit", "d", ruled_out={EGRESS: Reason(Rule.STATE, "no")}),
    ),
    "decisions out of order": (Rule.COVERAGE, lambda p: replace(p, decisions=tuple(reversed(p.decisions)))),
    "a receiver is split": (Rule.ATOMICITY, _split_receiver),
    "a receiver is split the other way": (
        Rule.ATOMICITY,
        lambda p: replace(
            p,
            decisions=(
                replace(decision(p, "log", "d"), calls=(1, 3)),
                replace(decision(p, "log", "d"), calls=(2,), place=OUT, ruled_out={INGRESS: None}),
                *without(p, "log", "d").decisions,
            ),
        ),
    ),
    "an ADM is missing": (Rule.COVERAGE, lambda p: replace(p, adms=p.adms[1:])),
    "an ADM has nothing to do": (Rule.COVERAGE, lambda p: replace(p, adms=(*p.adms, Adm("e")))),
    "an ADM with a policy has nothing to do": (
        Rule.COVERAGE,
        lambda p: replace(p, adms=(*p.adms, Adm("e", ingress=("limit",)))),
    ),
    "an ADM at a service that is not there": (Rule.HOST, lambda p: replace(p, adms=(*p.adms, Adm("z")))),
    "an ADM at an external": (Rule.HOST, lambda p: replace(p, adms=(*p.adms, Adm("internet", egress=("front",))))),
    "ADMs out of order": (Rule.COVERAGE, lambda p: replace(p, adms=tuple(reversed(p.adms)))),
    "two ADMs for a service": (Rule.COVERAGE, lambda p: replace(p, adms=(p.adms[0], *p.adms))),
    "a policy is left out of an ADM": (Rule.COVERAGE, lambda p: _set_adm(p, Adm("a", ("front",), ("limit",)))),
    "a policy is added to an ADM": (Rule.COVERAGE, lambda p: _set_adm(p, Adm("d", ("log", "limit")))),
    "a policy is twice in an ADM": (Rule.COVERAGE, lambda p: _set_adm(p, Adm("d", ("log", "log")))),
    "a policy is in the other direction": (
        Rule.COVERAGE,
        lambda p: _set_adm(p, Adm("a", ("front", "limit"), ("again",))),
    ),
    "policies of an ADM out of order": (Rule.ORDER, lambda p: _set_adm(p, Adm("a", ("front",), ("again", "limit")))),
    "a destination is closed for nothing": (Rule.CLOSED, lambda p: replace(p, closed=("d",))),
    "a decision asks for closing for nothing": (Rule.CLOSED, lambda p: change(p, "log", "d", closes=True)),
    "a decision that is not open asks for closing": (Rule.CLOSED, lambda p: change(p, "limit", "e", closes=True)),
    "a better objective value than it has": (
        None,
        lambda p: _level(p, 0, ObjectiveValue("adms", 1, 1)),
    ),
    "a worse objective value than it has": (
        None,
        lambda p: _level(p, 1, ObjectiveValue("sidecars", 99, 99)),
    ),
    "a bound above its value": (None, lambda p: _level(p, 0, ObjectiveValue("adms", 2, 3))),
    "objectives in another order": (None, lambda p: replace(p, objectives=tuple(reversed(p.objectives)))),
    "an objective is missing": (None, lambda p: replace(p, objectives=p.objectives[:-1])),
    "fewer closed destinations than there are": (None, lambda p: _level(p, 2, ObjectiveValue("closed", -1, -1))),
    "fewer requests at hops than there are": (None, lambda p: _level(p, 3, ObjectiveValue("hops", 0, 0))),
    "optimal with a gap": (None, lambda p: _level(p, 0, ObjectiveValue("adms", 2, 1))),
    "feasible without a gap": (None, lambda p: replace(p, status=Status.FEASIBLE)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_placement_is_rejected(what: str) -> None:
    rule, mutate = WRONG[what]
    wrong = mutate(RIGHT)
    assert wrong != RIGHT
    assert rule in rules(SHOP, wrong)


def test_a_feasible_placement_with_a_gap_is_accepted() -> None:
    levels = (ObjectiveValue("adms", 2, 1), *RIGHT.objectives[1:])
    assert verify(SHOP, replace(RIGHT, status=Status.FEASIBLE, objectives=levels)) == ()


def test_open_decisions_at_egress_need_their_destination_closed() -> None:
    of = program(TRUSTED, TWO, [Spec("p", COUNT, "*", {"d"})])
    right = place(of, {"p": OUT})
    assert right.closed == ("d",)
    assert verify(of, right) == ()
    assert rules(of, replace(right, closed=())) == {Rule.CLOSED}
    assert rules(of, change(right, "p", "d", closes=False)) == {Rule.CLOSED}
    assert rules(of, replace(right, closed=("d", "d"))) == {Rule.CLOSED}


def test_an_open_decision_without_calls_closes_its_destination() -> None:
    of = program([service("d")], [], [Spec("p", COUNT, "*", {"d"})])
    right = place(of, {"p": OUT})
    assert right.adms == ()
    assert verify(of, right) == ()
    assert Rule.COVERAGE in rules(of, replace(right, decisions=()))


def test_scopes_are_derived_again() -> None:
    """Calls that the resolver forgot or added do not mislead the verifier."""
    for wrong in ((), tuple(range(len(SHOP.calls)))):
        of = replace(SHOP, policies=tuple(replace(policy, calls=wrong) for policy in SHOP.policies))
        assert verify(of, RIGHT) == ()


def test_both_ends() -> None:
    of = program(TRUSTED, TWO, [Spec("m", MTLS, {"a"}, {"d"})])
    right = place(of, {"m": Place.BOTH})
    assert verify(of, right) == ()
    for wrong in (IN, OUT):
        assert Rule.COVERAGE in rules(of, place(of, {"m": wrong}))


def test_a_request_level_policy_does_not_hold_on_tcp() -> None:
    of = program([service("a"), service("d", PORTS[1])], [("a", "d")], [Spec("p", ONLY_HTTP, {"a"}, {"d"})])
    assert rules(of, place(of, {"p": IN})) == {Rule.CAPABILITY}
    assert rules(of, place(of, {"p": OUT})) == {Rule.CAPABILITY}


def test_capacity_is_judged_where_profiles_exist() -> None:
    of = program(
        [service("a", capacity=0.5), service("d", capacity=0.1)], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]
    )
    shares = {("a", EGRESS, "p", "d"): Cost(300_000_000), ("d", INGRESS, "p", "d"): Cost(50_000_001)}
    costs = Costs({"a": Cost(200_000_000), "d": Cost(50_000_000)}, shares, known=True)
    assert rules(of, place(of, {"p": OUT}, costs), costs) == set()
    assert rules(of, place(of, {"p": IN}, costs), costs) == {Rule.CAPACITY}
    unknown = replace(costs, known=False)
    assert rules(of, place(of, {"p": IN}, unknown), unknown) == set()
    more = replace(costs, adm={"a": Cost(200_000_001)})
    assert rules(of, place(of, {"p": OUT}, more), more) == {Rule.CAPACITY}


def test_objective_values_follow_the_costs() -> None:
    of = program(
        TRUSTED,
        TWO,
        [Spec("p", COUNT, {"a", "b"}, {"d"})],
        objective=[Metric.CPU, Metric.LATENCY, Metric.OVERHEAD, Metric.SIDECARS],
        rates={("b", "d", 8080): 0.1},
    )
    costs = Costs({"a": Cost(5, 7), "d": Cost(1, 2)}, {("b", EGRESS, "p", "d"): Cost(11, 13)})
    right = place(of, {"p": OUT}, costs)
    assert [level.value for level in right.objectives] == [16, 20, 16, 2, 0, 3_600 + 360]
    assert verify(of, right, costs) == ()
    assert rules(of, right) == {None}
    for index, level in enumerate(right.objectives):
        levels = [*right.objectives]
        levels[index] = level._replace(value=level.value + 1, bound=level.value + 1)
        assert rules(of, replace(right, objectives=tuple(levels)), costs) == {None}


def test_requests_at_hops_are_counted_again() -> None:
    """At ingress every call to the port passes the hop, once for all policies; at egress those of the sender."""
    calls = [("a", "d", 8080), ("b", "d", 8080), ("a", "d", 9000), ("a", "b", 8080)]
    of = program(
        [service("a"), service("b"), service("d", *PORTS)],
        calls,
        [
            Spec("p", COUNT, {"a"}, {"d"}, ports=frozenset({8080})),
            Spec("q", COUNT, {"a"}, {"d"}, ports=frozenset({8080})),
        ],
        rates={calls[0]: 2.5, calls[1]: 40.0, calls[2]: 7.0},
    )
    for sides, requests in ((IN, 42.5), (OUT, 2.5)):
        right = place(of, {"p": sides, "q": sides})
        assert right.objectives[-1] == (Metric.HOPS, requests * 3600, requests * 3600)
        assert verify(of, right) == ()
    both = place(of, {"p": IN, "q": OUT})
    assert both.objectives[-1].value == (42.5 + 2.5) * 3600
    assert verify(of, both) == ()


def test_wrong_sums_of_every_level_are_rejected() -> None:
    """One more or one less in any level, and the sums that a forgotten share would give."""
    of = program(TRUSTED, TWO, [Spec("p", COUNT, "*", {"d"}), Spec("q", COUNT, "*", {"d"})])
    for sides in ({"p": IN, "q": IN}, {"p": OUT, "q": OUT}, {"p": IN, "q": OUT}):
        right = place(of, sides)
        assert [level.metric for level in right.objectives] == ["adms", "closed", "overhead", "hops"]
        assert verify(of, right) == ()
        for at, level in enumerate(right.objectives):
            for value in {level.value + 1, level.value - 1, 2 * level.value, 0} - {level.value}:
                changed = [*right.objectives]
                changed[at] = level._replace(value=value, bound=value)
                assert rules(of, replace(right, objectives=tuple(changed))) == {None}, (level, value)


def test_a_large_placement_is_verified_in_linear_time() -> None:
    """Three policies on `* -> *`, one of them order against the others, on a few thousand services."""
    size, per_service = 4_000, 3
    names = [f"s{n:05}" for n in range(size)]
    port = Port(8080, Protocol.HTTP, 8080)
    few = program([service("a")], [], [])
    span = few.services["a"].span
    edges = sorted((names[(n * k + k) % size], names[n]) for n in range(size) for k in range(1, per_service + 1))
    specs = [Spec("again", RETRY, "*", "*"), Spec("late", TIMEOUT, "*", "*"), Spec("all", COUNT, "*", "*")]
    small = program([service("a")], [], specs)
    of = replace(
        small,
        services={name: service(name) for name in names},
        calls=tuple(Call(source, destination, port, span) for destination, source in dict.fromkeys(edges)),
    )
    every = tuple(range(len(of.calls)))
    of = replace(
        of,
        policies=tuple(
            replace(policy, sources=frozenset(names), destinations=tuple(names), calls=every)
            for policy in small.policies
        ),
    )
    arriving: dict[str, list[int]] = {name: [] for name in names}
    for index, call in enumerate(of.calls):
        arriving[call.destination].append(index)
    decisions = tuple(
        Decision(
            policy.name,
            name,
            IN if policy.name == "all" else OUT,
            tuple(arriving[name]),
            {EGRESS if policy.name == "all" else INGRESS: None},
            open=True,
            ports=(8080,),
            closes=policy.name != "all",
        )
        for policy in of.policies
        for name in names
    )
    what = Placement(
        decisions=decisions,
        adms=tuple(Adm(name, ("all",), ("again", "late")) for name in names),
        closed=tuple(names),
        status=Status.OPTIMAL,
        objectives=tuple(
            ObjectiveValue(metric, value, value)
            for metric, value in (
                (Metric.ADMS, size),
                (Metric.CLOSED, size),
                (Metric.OVERHEAD, 0),
                (Metric.HOPS, 2 * 3_600 * len(of.calls)),
            )
        ),
    )
    before = time.process_time()
    found = verify(of, what)
    took = time.process_time() - before
    assert found == ()
    assert took < 3, "a placement a tenth of the largest took longer than the largest may"
