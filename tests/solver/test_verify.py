"""The verifier accepts right placements and rejects each kind of wrong one, naming the rule.

Every wrong placement is a right one changed by hand in one place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from dsl.match import And, Comparison, Field, Match, Not, Operator, Or
from dsl.program import Call, Element, Metric, Port, Program, Protocol, Side, Stage, Verb
from solver.placement import Adm, Cost, Costs, Decision, ObjectiveValue, Placement, Reason, Rule, Status
from solver.verify import verify
from solver.verify_match import can_both_hold
from solver.verify_order import effects_commute
from tests.solver import oracle
from tests.solver.build import EGRESS, INGRESS, Spec, effect, external, kind, placement, program, service, tasks

QUOTA = kind("quota", effects=[effect(Verb.COUNTS), effect(Verb.REJECTS)], state=True)
RETRY = kind("retry", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.REPEATS)])
TIMEOUT = kind("timeout", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.TIMES_OUT)])
BREAKER = kind("breaker", ingress=Stage.CLUSTER, egress=None, effects=[effect(Verb.COUNTS)], per_replica=True)
DELAY = kind("delay", effects=[effect(Verb.DELAYS)])
COUNT = kind("count", effects=[effect(Verb.COUNTS)])
ALLOW = kind("allow", effects=[effect(Verb.REJECTS)], guard=True, takes={"callers": "caller"})
DENY = kind("deny", effects=[effect(Verb.REJECTS)], guard=True)
AUTHZ = kind("authz", effects=[effect(Verb.REJECTS)], guard=True, takes={"service": "service"})
MIRROR = kind("mirror", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.COPIES)], takes={"to": "service"})
SPLIT = kind("split", ingress=None, egress=Stage.ROUTING, effects=[effect(Verb.ROUTES)], takes={"to": "service"})
HEADER = kind("header", effects=[effect(Verb.WRITES, Element.HEADER, "x-a")])
MTLS = kind("mtls", effects=[], both=True)
LUA = kind("lua", effects=None)
REQUESTS = (Protocol.HTTP, Protocol.GRPC)
ONLY_HTTP = kind("only_http", effects=[], protocols=REQUESTS)

IN, OUT = (INGRESS,), (EGRESS,)
Sides = Mapping[str, tuple[Side, ...]]


def place(of: Program, sides: Sides, costs: Costs | None = None) -> Placement:
    """A placement by `policy@destination`, or by policy where it has one side everywhere."""
    chosen = {task.key: sides.get("@".join(task.key), sides.get(task.policy.name, IN)) for task in tasks(of)}
    return placement(of, chosen, costs)


def rules(of: Program, what: Placement, costs: Costs | None = None) -> set[Rule | None]:
    return {violation.rule for violation in verify(of, what, costs or Costs())}


# a, b and c call d; a calls e; the outside calls a. One quota for each destination, one retry.
SHOP = program(
    [service("a"), service("b", replicas=3), service("c"), service("d"), service("e"), external("internet")],
    [("a", "d"), ("b", "d"), ("c", "d"), ("a", "e"), ("internet", "a")],
    [
        Spec("limit", QUOTA, {"a"}, {"d", "e"}),
        Spec("again", RETRY, {"a"}, {"e"}),
        Spec("log", COUNT, "*", {"d"}),
        Spec("front", DENY, {"internet"}, {"a"}),
    ],
    objective=[Metric.ADMS, Metric.SIDECARS],
)
RIGHT = place(SHOP, {"limit": OUT, "again": OUT})


def change(what: Placement, policy: str, destination: str, **fields: object) -> Placement:
    """The placement with other fields in one decision; what follows from it is left as it was."""
    decisions = [
        replace(decision, **fields) if (decision.policy, decision.destination) == (policy, destination) else decision  # type: ignore[arg-type]
        for decision in what.decisions
    ]
    return replace(what, decisions=tuple(decisions))


def without(what: Placement, policy: str, destination: str) -> Placement:
    kept = [d for d in what.decisions if (d.policy, d.destination) != (policy, destination)]
    return replace(what, decisions=tuple(kept))


def decision(what: Placement, policy: str, destination: str) -> Decision:
    return next(d for d in what.decisions if (d.policy, d.destination) == (policy, destination))


def test_the_right_placement_is_accepted() -> None:
    assert verify(SHOP, RIGHT) == ()


def test_another_right_placement_is_accepted() -> None:
    assert verify(SHOP, place(SHOP, {"log": OUT, "limit": OUT, "again": OUT})) == ()


def _set_adm(what: Placement, adm: Adm) -> Placement:
    return replace(what, adms=tuple(adm if there.service == adm.service else there for there in what.adms))


def _split_receiver(what: Placement) -> Placement:
    """`log` at the egress of `a` for its call, and at ingress for the rest."""
    whole = decision(what, "log", "d")
    one = replace(whole, sides=OUT, calls=whole.calls[:1], ruled_out={INGRESS: None})
    other = replace(whole, calls=whole.calls[1:])
    kept = without(what, "log", "d")
    return replace(kept, decisions=(one, other, *kept.decisions))


WRONG: dict[str, tuple[Rule | None, Callable[[Placement], Placement]]] = {
    "a decision is missing": (Rule.COVERAGE, lambda p: without(p, "limit", "e")),
    "every decision is missing": (Rule.COVERAGE, lambda p: replace(p, decisions=(), adms=())),
    "a decision is there twice": (Rule.COVERAGE, lambda p: replace(p, decisions=(*p.decisions, p.decisions[-1]))),
    "both sides for a kind that needs one": (
        Rule.COVERAGE,
        lambda p: change(p, "limit", "d", sides=(INGRESS, EGRESS), ruled_out={}),
    ),
    "no side at all": (
        Rule.COVERAGE,
        lambda p: change(p, "limit", "d", sides=(), ruled_out={INGRESS: None, EGRESS: None}),
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
    "the side not taken is not explained": (Rule.COVERAGE, lambda p: change(p, "limit", "d", ruled_out={})),
    "the side taken is ruled out": (
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
                replace(decision(p, "log", "d"), calls=(2,), sides=OUT, ruled_out={INGRESS: None}),
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
        lambda p: replace(p, objectives=(ObjectiveValue("adms", 1, 1), p.objectives[1])),
    ),
    "a worse objective value than it has": (
        None,
        lambda p: replace(p, objectives=(p.objectives[0], ObjectiveValue("sidecars", 99, 99))),
    ),
    "a bound above its value": (None, lambda p: replace(p, objectives=(ObjectiveValue("adms", 2, 3), p.objectives[1]))),
    "objectives in another order": (None, lambda p: replace(p, objectives=tuple(reversed(p.objectives)))),
    "an objective is missing": (None, lambda p: replace(p, objectives=p.objectives[:1])),
    "optimal with a gap": (None, lambda p: replace(p, objectives=(ObjectiveValue("adms", 2, 1), p.objectives[1]))),
    "feasible without a gap": (None, lambda p: replace(p, status=Status.FEASIBLE)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_placement_is_rejected(what: str) -> None:
    rule, mutate = WRONG[what]
    wrong = mutate(RIGHT)
    assert wrong != RIGHT
    assert rule in rules(SHOP, wrong)


def test_a_feasible_placement_with_a_gap_is_accepted() -> None:
    levels = (ObjectiveValue("adms", 2, 1), RIGHT.objectives[1])
    assert verify(SHOP, replace(RIGHT, status=Status.FEASIBLE, objectives=levels)) == ()


# Sides that a rule forbids: the program, right sides, wrong sides, and the rule that the wrong ones break.
TRUSTED = [service("a"), service("b"), service("d")]
PORTS = (Port(8080, Protocol.HTTP, 8080), Port(9000, Protocol.TCP, 9000))
TWO = [("a", "d"), ("b", "d")]

FORBIDDEN: dict[str, tuple[Program, Sides, Sides, set[Rule | None]]] = {
    "R3 external at egress": (
        program([service("d"), external("x", cidrs=["10.0.0.0/8"])], [("x", "d")], [Spec("p", COUNT, "*", {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.OUTSIDE},
    ),
    "R3 external beside internal senders": (
        program(
            [service("a"), service("d"), external("x", cidrs=["10.0.0.0/8"])],
            [("x", "d"), ("a", "d")],
            [Spec("p", COUNT, {"a", "x"}, {"d"})],
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.OUTSIDE},
    ),
    "R3 external destination at ingress": (
        program([service("a"), external("x", PORTS[0])], [("a", "x")], [Spec("p", COUNT, "*", {"x"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.OUTSIDE},
    ),
    "R4 side of the kind at egress": (
        program(TRUSTED, TWO, [Spec("p", replace(BREAKER, per_replica=False), {"a"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 side of the kind at ingress": (
        program(TRUSTED, TWO, [Spec("p", RETRY, "*", {"d"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.CAPABILITY},
    ),
    "R4 narrowing to ingress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"}, side=INGRESS)]),
        {"p": IN},
        {"p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 narrowing to egress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"}, side=EGRESS)]),
        {"p": OUT},
        {"p": IN},
        {Rule.CAPABILITY},
    ),
    "R4 target of a mirror": (
        program(
            TRUSTED,
            [("a", "b"), ("a", "d")],
            [Spec("m", MIRROR, {"a"}, {"b"}, {"to": "d"}), Spec("p", COUNT, {"a"}, {"d"})],
        ),
        {"m": OUT, "p": IN},
        {"m": OUT, "p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 target of a split": (
        program(
            TRUSTED,
            [("a", "b"), ("a", "d"), ("b", "d")],
            [Spec("p", COUNT, "*", {"d"}), Spec("m", SPLIT, {"a"}, {"b"}, {"to": "d"})],
        ),
        {"m": OUT, "p": IN},
        {"m": OUT, "p": OUT},
        {Rule.CAPABILITY},
    ),
    "R5 two senders at egress": (
        program(TRUSTED, TWO, [Spec("p", QUOTA, {"a", "b"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.STATE},
    ),
    "R5 every sender at egress": (
        program(TRUSTED, TWO, [Spec("p", QUOTA, "*", {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.STATE},
    ),
    "R5 per replica at egress": (
        program(TRUSTED, TWO, [Spec("p", kind("k", effects=[], per_replica=True), {"a"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.STATE},
    ),
    "R6 counts attempts, not requests": (
        program(TRUSTED, TWO, [Spec("q", QUOTA, {"a"}, {"d"}), Spec("r", RETRY, {"a"}, {"d"})]),
        {"q": OUT, "r": OUT},
        {"q": IN, "r": OUT},
        {Rule.ORDER},
    ),
    "R6 counts requests, not attempts": (
        program(TRUSTED, TWO, [Spec("r", RETRY, {"a"}, {"d"}), Spec("q", QUOTA, {"a"}, {"d"})]),
        {"q": IN, "r": OUT},
        {"q": OUT, "r": OUT},
        {Rule.ORDER},
    ),
    "R6 the same header": (
        program(TRUSTED, TWO, [Spec("h", HEADER, {"a"}, {"d"}), Spec("i", HEADER, {"a", "b"}, {"d"})]),
        {"h": OUT, "i": IN},
        {"h": IN, "i": OUT},
        {Rule.ORDER},
    ),
    "R6 nothing is known of a kind": (
        program(TRUSTED, TWO, [Spec("l", LUA, {"a"}, {"d"}), Spec("c", COUNT, {"a"}, {"d"})]),
        {"l": OUT, "c": IN},
        {"l": IN, "c": OUT},
        {Rule.ORDER},
    ),
    "R7 guard without calls": (
        program([*TRUSTED, service("e")], TWO, [Spec("g", DENY, {"e"}, {"d"})]),
        {"g": IN},
        {"g": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: a sender without address": (
        program(
            [*TRUSTED, external("x")], [*TWO, ("x", "d")], [Spec("p", COUNT, "*", {"d"}, excluded=frozenset({"x"}))]
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: a sender with everybody's address": (
        program(
            [*TRUSTED, external("x", cidrs=["10.9.0.0/16", "::/0"])],
            [*TWO, ("x", "d")],
            [Spec("p", COUNT, "*", {"d"}, excluded=frozenset({"x"}))],
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: another port with the same target": (
        program(
            [service("a"), service("d", PORTS[0], Port(8081, Protocol.HTTP, 8080))],
            [("a", "d", 8080)],
            [Spec("p", COUNT, "*", {"d"})],
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: called from inside a sidecar": (
        program(
            TRUSTED,
            [("a", "b"), ("b", "d")],
            [Spec("z", AUTHZ, "*", {"b"}, {"service": "d"}), Spec("p", COUNT, "*", {"d"})],
        ),
        {"z": IN, "p": IN},
        {"z": IN, "p": OUT},
        {Rule.CLOSED},
    ),
    "R7 guard behind an untrusted sender": (
        program([service("a", trusted=False), service("d")], [("a", "d")], [Spec("g", DENY, {"a"}, {"d"})]),
        {"g": IN},
        {"g": OUT},
        {Rule.CLOSED},
    ),
    "R7 quota behind an untrusted sender": (
        program([service("a", trusted=False), service("d")], [("a", "d")], [Spec("q", QUOTA, {"a"}, {"d"})]),
        {"q": IN},
        {"q": OUT},
        {Rule.CLOSED},
    ),
    "R7 unknown effects behind an untrusted sender": (
        program([service("a", trusted=False), service("d")], [("a", "d")], [Spec("l", LUA, {"a"}, {"d"})]),
        {"l": IN},
        {"l": OUT},
        {Rule.CLOSED},
    ),
    "R7 a caller that no address tells": (
        program(
            [*TRUSTED, service("h", host_network=True)],
            [("a", "d"), ("h", "d")],
            [Spec("p", COUNT, {"a"}, {"d"})],
        ),
        {"p": OUT},
        {"p": IN},
        {Rule.CLOSED},
    ),
    "R7 second port is a way round": (
        program(
            [service("a"), service("d", *PORTS), service("h", host_network=True)],
            [("a", "d", 8080), ("h", "d", 9000)],
            [Spec("c", COUNT, "*", {"d"}), Spec("g", kind("k", effects=[], guard=True), {"a"}, {"d"}, side=EGRESS)],
        ),
        {"c": IN, "g": OUT},
        {"c": IN, "g": OUT},
        {Rule.CLOSED},
    ),
    "R8 no adm at ingress": (
        program([service("a"), service("d", hosts_adm=False)], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.HOST},
    ),
    "R8 no adm at egress": (
        program([service("a", hosts_adm=False), service("d")], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.HOST},
    ),
    "R8 host network": (
        program([service("a"), service("d", host_network=True)], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.HOST},
    ),
    "R10 pinned at ingress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"})], pins=[("p", INGRESS, "d")]),
        {"p": IN},
        {"p": OUT},
        {Rule.PIN},
    ),
    "R10 pinned at egress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"})], pins=[("p", EGRESS, "d")]),
        {"p": OUT},
        {"p": IN},
        {Rule.PIN},
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_forbidden_side_is_rejected(what: str) -> None:
    of, right, wrong, expected = FORBIDDEN[what]
    if right != wrong:
        assert verify(of, place(of, right)) == ()
    assert rules(of, place(of, wrong)) == expected


def test_closing_is_asked_for_where_undeclared_callers_are_meant() -> None:
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


def test_scopes_are_worked_out_again() -> None:
    """Calls that the resolver forgot or added do not mislead the verifier."""
    for wrong in ((), tuple(range(len(SHOP.calls)))):
        of = replace(SHOP, policies=tuple(replace(policy, calls=wrong) for policy in SHOP.policies))
        assert verify(of, RIGHT) == ()


def test_both_ends() -> None:
    of = program(TRUSTED, TWO, [Spec("m", MTLS, {"a"}, {"d"})])
    right = place(of, {"m": (INGRESS, EGRESS)})
    assert verify(of, right) == ()
    for wrong in (IN, OUT):
        assert Rule.COVERAGE in rules(of, place(of, {"m": wrong}))
    assert Rule.COVERAGE in rules(of, place(of, {"m": (EGRESS, INGRESS)}))


def test_a_request_level_policy_does_not_hold_on_tcp() -> None:
    of = program([service("a"), service("d", PORTS[1])], [("a", "d")], [Spec("p", ONLY_HTTP, {"a"}, {"d"})])
    assert rules(of, place(of, {"p": IN})) == {Rule.CAPABILITY}
    assert rules(of, place(of, {"p": OUT})) == {Rule.CAPABILITY}


def test_capacity_is_judged_where_profiles_exist() -> None:
    of = program(
        [service("a", capacity=0.5), service("d", capacity=0.1)], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]
    )
    shares = {("a", EGRESS, "p", "d"): Cost(300_000), ("d", INGRESS, "p", "d"): Cost(50_001)}
    costs = Costs({"a": Cost(200_000), "d": Cost(50_000)}, shares, known=True)
    assert rules(of, place(of, {"p": OUT}, costs), costs) == set()
    assert rules(of, place(of, {"p": IN}, costs), costs) == {Rule.CAPACITY}
    unknown = replace(costs, known=False)
    assert rules(of, place(of, {"p": IN}, unknown), unknown) == set()
    more = replace(costs, adm={"a": Cost(200_001)})
    assert rules(of, place(of, {"p": OUT}, more), more) == {Rule.CAPACITY}


def test_objective_values_follow_the_costs() -> None:
    of = program(
        TRUSTED,
        TWO,
        [Spec("p", COUNT, {"a", "b"}, {"d"})],
        objective=[Metric.CPU, Metric.LATENCY, Metric.OVERHEAD, Metric.SIDECARS],
    )
    costs = Costs({"a": Cost(5, 7), "d": Cost(1, 2)}, {("b", EGRESS, "p", "d"): Cost(11, 13)})
    right = place(of, {"p": OUT}, costs)
    assert [level.value for level in right.objectives] == [16, 20, 16, 2]
    assert verify(of, right, costs) == ()
    assert rules(of, right) == {None}
    for index, level in enumerate(right.objectives):
        levels = [*right.objectives]
        levels[index] = level._replace(value=level.value + 1, bound=level.value + 1)
        assert rules(of, replace(right, objectives=tuple(levels)), costs) == {None}


def test_at_one_stage_the_router_decides_the_order() -> None:
    def of(first: Spec, second: Spec) -> Program:
        return program([*TRUSTED, service("t")], [*TWO, ("a", "t")], [first, second])

    mirror = Spec("m", MIRROR, {"a"}, {"d"}, {"to": "t"})
    retry, limit = Spec("r", RETRY, {"a"}, {"d"}), Spec("t", TIMEOUT, {"a"}, {"d"})
    right = {"m": OUT, "r": OUT, "t": OUT}
    assert verify(of(mirror, retry), place(of(mirror, retry), right)) == ()
    assert rules(of(retry, mirror), place(of(retry, mirror), right)) == {Rule.ORDER}
    for one, other in ((retry, limit), (limit, retry)):
        assert verify(of(one, other), place(of(one, other), right)) == ()


def test_a_timeout_covers_a_delay_at_the_receiver_only() -> None:
    of = program(TRUSTED, TWO, [Spec("t", TIMEOUT, {"a"}, {"d"}), Spec("x", DELAY, {"a"}, {"d"})])
    assert verify(of, place(of, {"t": OUT, "x": IN})) == ()
    assert rules(of, place(of, {"t": OUT, "x": OUT})) == {Rule.ORDER}


def _path(value: str, operator: Operator = Operator.EQUALS) -> Comparison:
    return Comparison(Field("path"), operator, value)


def _header(value: str, operator: Operator = Operator.EQUALS) -> Comparison:
    return Comparison(Field("header", "x-a"), operator, value)


PREFIX, OTHER, REGEX = Operator.STARTS_WITH, Operator.NOT_EQUALS, Operator.MATCHES
EXCLUSIVE: list[tuple[Match, Match]] = [
    (_path("/a"), _path("/b")),
    (_path("/a"), _path("/a", OTHER)),
    (_path("/a"), Not(_path("/a"))),
    (_path("/a"), _path("/b", PREFIX)),
    (_path("/a", PREFIX), _path("/b", PREFIX)),
    (_path("/a/b", PREFIX), Not(_path("/a", PREFIX))),
    (_path("/a/b"), Not(_path("/a", PREFIX))),
    (_path("/a.*", REGEX), Not(_path("/a.*", REGEX))),
    (_header("1"), _header("2")),
    (And((_path("/a"), _header("1"))), And((_path("/a"), _header("2")))),
    (Or((_path("/a"), _path("/b"))), Or((_path("/c"), _path("/d")))),
    (Not(Or((_path("/a"), _path("/b")))), Or((_path("/a"), _path("/b")))),
    (Not(And((_path("/a"), _header("1")))), And((_header("1"), _path("/a")))),
    (Not(_path("", PREFIX)), _header("1")),
    (_header(".*", REGEX), Not(_header("", PREFIX))),
]
COMPATIBLE: list[tuple[Match, Match]] = [
    (_path("/a"), _path("/a")),
    (_path("/a"), _header("1")),
    (_path("/a"), _path("/b", OTHER)),
    (_path("/a/b", PREFIX), _path("/a", PREFIX)),
    (_path("/a", PREFIX), Not(_path("/a/b", PREFIX))),
    (_path("/a"), _path("/b.*", REGEX)),
    (_header("1", OTHER), _header("2", OTHER)),
    (Not(_header("", PREFIX)), _path("/a")),
    (Or((_path("/a"), _path("/b"))), Or((_path("/b"), _path("/c")))),
    (Not(And((_path("/a"), _header("1")))), _path("/a")),
]


@pytest.mark.parametrize(("one", "other"), EXCLUSIVE)
def test_matches_that_exclude_each_other(one: Match, other: Match) -> None:
    nothing = frozenset[Field | None]()
    assert not can_both_hold(one, other, nothing)
    assert not can_both_hold(other, one, nothing)
    assert can_both_hold(one, None, nothing)
    assert can_both_hold(one, other, frozenset({Field("path"), Field("header"), Field("method")}))
    assert can_both_hold(one, other, frozenset({None}))


@pytest.mark.parametrize(("one", "other"), COMPATIBLE)
def test_matches_that_can_both_hold(one: Match, other: Match) -> None:
    assert can_both_hold(one, other, frozenset())
    assert can_both_hold(other, one, frozenset())


def test_a_huge_match_counts_as_possible() -> None:
    wide = And((*(Or((_path(f"/{n}", OTHER), _header(f"{n}", OTHER))) for n in range(40)), _path("/a"), _path("/b")))
    assert can_both_hold(wide, _path("/a"), frozenset())


def test_a_match_proves_nothing_about_what_is_rewritten() -> None:
    """The first policy turns requests of the one match into requests of the other."""
    rewrite = kind("rewrite", effects=[effect(Verb.WRITES, Element.PATH)])
    of = program(
        TRUSTED,
        TWO,
        [
            Spec("w", rewrite, {"a"}, {"d"}, match=_path("/old"), reads=(effect(Verb.READS, Element.PATH),)),
            Spec("q", QUOTA, {"a"}, {"d"}, match=_path("/new"), reads=(effect(Verb.READS, Element.PATH),)),
        ],
    )
    assert verify(of, place(of, {"w": OUT, "q": IN})) == ()
    assert rules(of, place(of, {"w": IN, "q": OUT})) == {Rule.ORDER}


def test_exclusive_matches_may_be_met_in_any_order() -> None:
    of = program(
        TRUSTED,
        TWO,
        [
            Spec("q", QUOTA, {"a"}, {"d"}, match=_path("/a")),
            Spec("r", RETRY, {"a"}, {"d"}, match=_path("/b")),
        ],
    )
    assert verify(of, place(of, {"q": IN, "r": OUT})) == ()


def test_a_match_reads_what_it_compares_even_where_the_effects_forget_it() -> None:
    of = program(
        TRUSTED,
        TWO,
        [Spec("h", HEADER, {"a"}, {"d"}), Spec("c", COUNT, {"a"}, {"d"}, match=_header("1"))],
    )
    assert rules(of, place(of, {"h": IN, "c": OUT})) == {Rule.ORDER}


def test_the_table_of_effects_agrees_with_the_one_written_for_tests() -> None:
    elements = [effect(verb, element) for verb in (Verb.READS, Verb.WRITES) for element in Element]
    named = [
        effect(verb, element, name)
        for verb in (Verb.READS, Verb.WRITES)
        for element in (Element.HEADER, Element.RESPONSE_HEADER)
        for name in ("x-a", "x-b")
    ]
    every = [*elements, *named, *(effect(verb) for verb in Verb if verb not in (Verb.READS, Verb.WRITES))]
    for one in every:
        for other in every:
            assert effects_commute(one, other) == oracle.effects_commute(one, other), (one, other)


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
        objectives=(ObjectiveValue(Metric.ADMS, size, size), ObjectiveValue(Metric.OVERHEAD, 0, 0)),
    )
    before = time.process_time()
    found = verify(of, what)
    took = time.process_time() - before
    assert found == ()
    assert took < 3, "a placement a tenth of the largest took longer than the largest may"
