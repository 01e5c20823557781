"""The verifier on guards in the network: each wrong placement differs from a right one in one fact, or by hand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from dsl.match import Comparison, Field, Operator
from dsl.program import Element, External, Kind, Metric, Place, Program, Service, Stage, Verb
from solver.placement import Adm, ObjectiveValue, Placement, Rule
from solver.verify.verifier import verify
from tests.solver.build import EGRESS, EVERYONE, INGRESS, NETWORK, Spec, effect, external, kind, program, service
from tests.solver.generate import ADMIN, ADMIT, AGAIN, ALIAS, AUTHZ, EJECT, REFUSE, WEB
from tests.solver.samples import COUNT, MIRROR, QUOTA, RETRY, change, place, rules

PATH = Comparison(Field("path"), Operator.EQUALS, "/a")
BREAKER = kind("breaker", ingress=Stage.CLUSTER, egress=Stage.CLUSTER, effects=[effect(Verb.COUNTS)])
UNLISTED = replace(ADMIT, network=False)
"""The guard without `@network`."""


def guarded(
    *,
    parties: Sequence[Service | External] = (),
    calls: Sequence[tuple[str, str] | tuple[str, str, int]] = (),
    there: Service | External | None = None,
    ports: Collection[int] | None = None,
    guard: Kind = ADMIT,
    callers: Sequence[str] = ("a", "b"),
    before: Sequence[Spec] = (),
    after: Sequence[Spec] = (),
    pins: Sequence[tuple[str, Place, str]] = (),
    enforced: bool = True,
    accepts: bool = False,
    **fields: Any,
) -> Program:
    """`a` and `b` call `d` at all its ports, and the guard `g` of every caller admits them."""
    there = there or service("d")
    return program(
        [service("a"), service("b"), there, *parties],
        [*((source, there.name, port.number) for source in "ab" for port in there.ports), *calls],
        [
            *before,
            Spec(
                "g",
                guard,
                fields.pop("sources", EVERYONE),
                {there.name},
                {} if guard is REFUSE else {"callers": tuple(callers)},
                ports=None if ports is None else frozenset(ports),
                **fields,
            ),
            *after,
        ],
        pins,
        network_policies=enforced,
        accepts_host_network=accepts,
    )


class Fault(NamedTuple):
    rule: Rule | set[Rule]
    wrong: Mapping[str, Any]
    right: Mapping[str, Any] = {}
    """What makes the program right again; by default nothing is special about it."""
    at: Mapping[str, Place] = {}
    """Places of other policies than the guard, and of the guard where it is not in the network."""
    instead: Mapping[str, Place] | None = None
    """The places that are right, if these make the difference."""


NODE = service("h", host_network=True)
ALL = ["0.0.0.0/1", "128.0.0.0/1"]
DROP = {"accepts_drop": True, "callers": ("a",)}
LARGE, SMALL = external("x", cidrs=["10.9.0.0/16"]), external("y", cidrs=["10.9.1.0/24"])
INNER_LEFT_OUT = {
    "there": service("d", WEB, ADMIN),
    "parties": [LARGE, SMALL],
    "excluded": frozenset({"x", "y"}),
}
TWICE = service("d", WEB, ALIAS)
REPEAT = Spec("r", AGAIN, {"b"}, {"d"}, {"on": ("connect_failure",)})
LIMIT = Spec("q", QUOTA, {"b"}, {"d"})
LIMITS = Spec("q", QUOTA, {"a", "b"}, {"d"})
BREAK = Spec("q", BREAKER, EVERYONE, {"d"})

FAULTS: dict[str, Fault] = {
    "refuses a declared call": Fault(Rule.CLOSED, {"callers": ("a",)}, DROP),
    "refuses every declared call": Fault(Rule.CLOSED, {"guard": REFUSE}, {"guard": REFUSE, "accepts_drop": True}),
    "has a match": Fault(Rule.CAPABILITY, {"match": PATH, "reads": (effect(Verb.READS, Element.PATH),)}),
    "is narrowed to ingress": Fault(Rule.CAPABILITY, {"place": INGRESS}),
    "is narrowed to egress": Fault(Rule.CAPABILITY, {"place": EGRESS}),
    "has an exception": Fault(Rule.CAPABILITY, {"excluded": frozenset({"b"})}),
    "has an exception without a call": Fault(
        Rule.CAPABILITY,
        {"excluded": frozenset({"z"}), "parties": [service("z")]},
        {"parties": [service("z")]},
    ),
    "has named sources": Fault(Rule.CAPABILITY, {"sources": {"a", "b"}}),
    "has named sources without a call": Fault(
        Rule.CAPABILITY,
        {"sources": {"a", "z"}, "parties": [service("z")]},
        {"parties": [service("z")]},
    ),
    "is of a kind without the network": Fault(Rule.CAPABILITY, {"guard": UNLISTED}),
    "cuts a second port with the same target": Fault(
        Rule.CLOSED, {"there": TWICE, "ports": {WEB.number}}, {"there": TWICE}
    ),
    "cuts the other port with the same target": Fault(
        Rule.CLOSED,
        {"there": service("d", WEB, ALIAS, ADMIN), "ports": {ALIAS.number, ADMIN.number}},
        {"there": service("d", WEB, ALIAS, ADMIN), "ports": {WEB.number, ALIAS.number}},
    ),
    "has an external destination": Fault(Rule.OUTSIDE, {"there": external("d", WEB, cidrs=["10.8.0.0/16"])}),
    "lacks the statement": Fault({Rule.CAPABILITY, Rule.CLOSED}, {"enforced": False}),
    "is at a destination on the network of its node": Fault(
        Rule.CLOSED,
        {"there": service("d", host_network=True), "accepts": True},
        {"accepts": True},
    ),
    "is called from the network of a node": Fault(
        Rule.CLOSED,
        {**DROP, "parties": [NODE], "calls": [("h", "d")], "accepts": True},
        {**DROP, "parties": [NODE], "accepts": True},
    ),
    "is called by an external without addresses": Fault(
        Rule.CLOSED,
        {**DROP, "parties": [external("x")], "calls": [("x", "d")]},
        {**DROP, "parties": [external("x", cidrs=["10.9.0.0/16"])], "calls": [("x", "d")]},
    ),
    "is called by an external of all addresses": Fault(
        Rule.CLOSED,
        {**DROP, "parties": [external("x", cidrs=["0.0.0.0/0"])], "calls": [("x", "d")]},
        {**DROP, "parties": [external("x", cidrs=["0.0.0.0/2"])], "calls": [("x", "d")]},
    ),
    "is called by an external of both halves of all addresses": Fault(
        Rule.CLOSED,
        {**DROP, "parties": [external("x", cidrs=ALL)], "calls": [("x", "d")]},
        {**DROP, "parties": [external("x", cidrs=ALL[:1])], "calls": [("x", "d")]},
    ),
    "is called by an external with another one inside": Fault(
        Rule.CLOSED,
        {**DROP, "parties": [LARGE, SMALL], "calls": [("x", "d")]},
        {**DROP, "parties": [LARGE, SMALL], "calls": [("x", "d"), ("y", "d")]},
    ),
    "is at egress, and the external inside a sender calls another port": Fault(
        Rule.CLOSED,
        {**INNER_LEFT_OUT, "calls": [("x", "d", WEB.number), ("y", "d", ADMIN.number)]},
        {**INNER_LEFT_OUT, "calls": [("x", "d", WEB.number), ("y", "d", WEB.number), ("y", "d", ADMIN.number)]},
        at={"g": EGRESS},
    ),
    "has a sender that dials one port of a target": Fault(
        Rule.CLOSED,
        {"there": TWICE, "parties": [service("z")], "calls": [("z", "d", ALIAS.number)], "callers": ("a", "b", "z")},
        {
            "there": TWICE,
            "parties": [service("z")],
            "calls": [("z", "d", WEB.number), ("z", "d", ALIAS.number)],
            "callers": ("a", "b", "z"),
        },
    ),
    "is called from inside ADMs for authorization": Fault(
        Rule.CLOSED,
        {"parties": [service("z")], "calls": [("a", "z")], "after": [Spec("o", AUTHZ, {"a"}, {"z"}, {"service": "d"})]},
        {"parties": [service("z")], "calls": [("a", "z")], "after": [Spec("o", AUTHZ, {"a"}, {"z"}, {"service": "b"})]},
        at={"o": INGRESS},
    ),
    "is the target of a mirror that its sender does not call": Fault(
        Rule.CLOSED,
        {
            "parties": [service("y"), service("z")],
            "calls": [("z", "y")],
            "after": [Spec("m", MIRROR, {"z"}, {"y"}, {"to": "d"})],
        },
        {
            "parties": [service("y"), service("z")],
            "calls": [("z", "y"), ("z", "d")],
            "callers": ("a", "b", "z"),
            "after": [Spec("m", MIRROR, {"z"}, {"y"}, {"to": "d"})],
        },
        at={"m": EGRESS},
    ),
    "is passed from the network of some node": Fault(
        Rule.CLOSED, {"parties": [NODE]}, {"parties": [NODE], "accepts": True}
    ),
    "admits a party without addresses": Fault(
        Rule.CLOSED,
        {"parties": [external("x")], "callers": ("a", "b", "x")},
        {"parties": [external("x", cidrs=["10.9.0.0/16"])], "callers": ("a", "b", "x")},
    ),
    "admits a party of all addresses": Fault(
        Rule.CLOSED,
        {"parties": [external("x", cidrs=ALL)], "callers": ("a", "b", "x")},
        {"parties": [external("x", cidrs=ALL)]},
    ),
    "admits a party on the network of a node": Fault(
        Rule.CLOSED,
        {"parties": [NODE], "callers": ("a", "b", "h"), "accepts": True},
        {"parties": [NODE], "accepts": True},
    ),
    "drops a call that is repeated": Fault(
        Rule.CLOSED,
        {**DROP, "before": [REPEAT]},
        {**DROP, "before": [replace(REPEAT, arguments={"on": ("retriable",)})]},
        at={"r": EGRESS},
    ),
    "drops a call that is repeated for all": Fault(
        Rule.CLOSED,
        {**DROP, "before": [replace(REPEAT, sources=EVERYONE)]},
        {**DROP, "before": [replace(REPEAT, sources={"a"})]},
        at={"r": EGRESS},
    ),
    "drops a call that is counted as a failure": Fault(
        Rule.CLOSED,
        {**DROP, "after": [Spec("e", EJECT, {"b"}, {"d"})]},
        {**DROP, "after": [Spec("e", EJECT, {"a"}, {"d"})]},
        at={"e": EGRESS},
    ),
    "drops a call of the destination to itself": Fault(
        Rule.CLOSED,
        {"calls": [("d", "d")], "accepts_drop": True},
        {"calls": [("d", "d")], "callers": ("a", "b", "d")},
    ),
    "is pinned at ingress": Fault(Rule.PIN, {"pins": [("g", INGRESS, "d")]}, {"pins": [("g", NETWORK, "d")]}),
    "is pinned at egress": Fault(Rule.PIN, {"pins": [("g", EGRESS, "d")]}, {"pins": [("g", NETWORK, "d")]}),
    "is at ingress and pinned at the network": Fault(
        Rule.PIN, {"pins": [("g", NETWORK, "d")]}, {"pins": [("g", INGRESS, "d")]}, at={"g": INGRESS}
    ),
    "is at egress and pinned at the network": Fault(
        Rule.PIN, {"pins": [("g", NETWORK, "d")]}, {"pins": [("g", EGRESS, "d")]}, at={"g": EGRESS}
    ),
    "is pinned at the network without the statement": Fault(
        Rule.PIN, {"pins": [("g", NETWORK, "d")], "enforced": False}, {"enforced": False}, at={"g": INGRESS}
    ),
    "comes after a policy at ingress": Fault(
        Rule.ORDER,
        {**DROP, "before": [LIMIT]},
        {**DROP, "before": [LIMIT]},
        at={"q": INGRESS},
        instead={"q": EGRESS},
    ),
    "comes before a policy at egress": Fault(
        Rule.ORDER,
        {**DROP, "after": [LIMIT]},
        {**DROP, "after": [LIMIT]},
        at={"q": EGRESS},
        instead={"q": INGRESS},
    ),
    "comes before a retry of a caller that it refuses": Fault(
        Rule.ORDER,
        {**DROP, "after": [Spec("q", RETRY, {"b"}, {"d"})]},
        {**DROP, "after": [Spec("q", RETRY, {"a"}, {"d"})]},
        at={"q": EGRESS},
    ),
    "admits one of two senders only": Fault(
        Rule.ORDER,
        {"before": [LIMITS], **DROP},
        {"before": [LIMITS]},
        at={"q": INGRESS},
    ),
    "admits all senders, and another counts strangers first": Fault(
        Rule.ORDER,
        {"before": [BREAK]},
        {"before": [replace(BREAK, kind=COUNT)]},
        at={"q": INGRESS},
    ),
    "admits all senders, and another counts strangers first but not by name": Fault(
        Rule.ORDER,
        {"before": [BREAK]},
        {"before": [replace(BREAK, sources={"a", "b"})]},
        at={"q": INGRESS},
    ),
    "follows at egress, is narrowed, and is not excused": Fault(
        Rule.ORDER, {"before": [LIMITS], "place": EGRESS}, {"before": [LIMITS]}, at={"q": INGRESS, "g": EGRESS}
    ),
    "follows at egress, lacks the statement, and is not excused": Fault(
        Rule.ORDER, {"before": [LIMITS], "enforced": False}, {"before": [LIMITS]}, at={"q": INGRESS, "g": EGRESS}
    ),
    "follows at egress, has a match, and is not excused": Fault(
        Rule.ORDER,
        {"before": [LIMITS], "match": PATH, "reads": (effect(Verb.READS, Element.PATH),)},
        {"before": [LIMITS]},
        at={"q": INGRESS, "g": EGRESS},
    ),
    "follows at egress, is of another kind, and is not excused": Fault(
        Rule.ORDER, {"before": [LIMITS], "guard": UNLISTED}, {"before": [LIMITS]}, at={"q": INGRESS, "g": EGRESS}
    ),
}


def _rules(of: Program, at: Mapping[str, Place]) -> set[Rule | None]:
    return rules(of, place(of, {"g": NETWORK, **at}))


@pytest.mark.parametrize("what", FAULTS)
def test_one_fact_makes_a_placement_wrong(what: str) -> None:
    fault = FAULTS[what]
    expected = fault.rule if isinstance(fault.rule, set) else {fault.rule}
    assert _rules(guarded(**fault.right), fault.at if fault.instead is None else fault.instead) == set()
    assert _rules(guarded(**fault.wrong), fault.at) == expected


RIGHT: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Place]]] = {
    "every declared call is refused": ({"guard": REFUSE, "accepts_drop": True}, {}),
    "an admitted party without a call": ({"parties": [service("z")], "callers": ("a", "b", "z")}, {}),
    "a destination without ADM": ({"there": service("d", hosts_adm=False)}, {}),
    "a sender with the addresses of another external": (
        {**DROP, "parties": [LARGE, external("y", cidrs=["10.9.0.0/16"])], "calls": [("x", "d")]},
        {},
    ),
    "an untrusted sender": ({"parties": [service("z", trusted=False)], "calls": [("z", "d")], **DROP}, {}),
    "before a policy at ingress": ({**DROP, "after": [LIMIT]}, {"q": INGRESS}),
    "after a policy at egress": ({**DROP, "before": [LIMIT]}, {"q": EGRESS}),
    "before a retry of all callers that it admits": ({"after": [Spec("q", RETRY, EVERYONE, {"d"})]}, {"q": EGRESS}),
    "before a count of strangers at egress": ({"after": [BREAK]}, {"q": EGRESS}),
    "beside a second guard": ({"after": [Spec("q", REFUSE, EVERYONE, {"d"}, accepts_drop=True)]}, {"q": NETWORK}),
}


@pytest.mark.parametrize("what", RIGHT)
def test_a_right_placement_is_accepted(what: str) -> None:
    fields, at = RIGHT[what]
    assert _rules(guarded(**fields), at) == set()


# `g` guards `d` at one port and `h` at the other; `e` has a quota, and nothing closes it.
TWO_GUARDS = program(
    [service("a"), service("b"), service("d", WEB, ADMIN), service("e")],
    [("a", "d", WEB.number), ("b", "d", ADMIN.number), ("a", "e")],
    [
        Spec("g", ADMIT, EVERYONE, {"d"}, {"callers": ("a",)}, ports=frozenset({WEB.number})),
        Spec("h", ADMIT, EVERYONE, {"d"}, {"callers": ("b",)}, ports=frozenset({ADMIN.number})),
        Spec("limit", QUOTA, {"a"}, {"e"}),
    ],
    objective=[Metric.ADMS, Metric.SIDECARS],
    network_policies=True,
)
BOTH_THERE = place(TWO_GUARDS, {"g": NETWORK, "h": NETWORK, "limit": INGRESS})
ONE_THERE = place(TWO_GUARDS, {"g": NETWORK, "h": INGRESS, "limit": INGRESS})


def _level(what: Placement, metric: Metric, value: int) -> Placement:
    levels = [ObjectiveValue(metric, value, value) if level.metric == metric else level for level in what.objectives]
    return replace(what, objectives=tuple(levels))


Mutant = tuple[Rule | None, Callable[[Placement], Placement]]
HAND: dict[str, Mutant] = {
    "nothing is closed": (Rule.CLOSED, lambda p: replace(p, closed=())),
    "another destination is closed": (Rule.CLOSED, lambda p: replace(p, closed=("e",))),
    "one more destination is closed": (Rule.CLOSED, lambda p: replace(p, closed=("d", "e"))),
    "a destination is closed twice": (Rule.CLOSED, lambda p: replace(p, closed=("d", "d"))),
    "the first guard does not ask for closing": (Rule.CLOSED, lambda p: change(p, "g", "d", closes=False)),
    "the second guard does not ask for closing": (Rule.CLOSED, lambda p: change(p, "h", "d", closes=False)),
    "a decision at ingress asks for closing": (Rule.CLOSED, lambda p: change(p, "limit", "e", closes=True)),
    "an ADM at the destination": (
        Rule.COVERAGE,
        lambda p: replace(p, adms=(Adm("d", ingress=("g",)), *p.adms)),
    ),
    "an ADM at a sender": (Rule.COVERAGE, lambda p: replace(p, adms=(Adm("a", egress=("g",)), *p.adms))),
    "an ADM without work at the destination": (Rule.COVERAGE, lambda p: replace(p, adms=(Adm("d"), *p.adms))),
    "the guard is listed at another ADM": (
        Rule.COVERAGE,
        lambda p: replace(p, adms=(Adm("e", ingress=("g", "limit")),)),
    ),
    "hops are counted": (None, lambda p: _level(p, Metric.HOPS, 3 * 3600)),
    "hops of the quota are not counted": (None, lambda p: _level(p, Metric.HOPS, 0)),
    "an ADM is counted": (None, lambda p: _level(p, Metric.ADMS, 2)),
    "a sidecar is counted": (None, lambda p: _level(p, Metric.SIDECARS, 2)),
    "the closing is not counted": (None, lambda p: _level(p, Metric.CLOSED, 0)),
    "the closing is counted for each guard": (None, lambda p: _level(p, Metric.CLOSED, 2)),
    "nothing is explained": (Rule.COVERAGE, lambda p: change(p, "g", "d", ruled_out={})),
    "egress is not explained": (Rule.COVERAGE, lambda p: change(p, "g", "d", ruled_out={INGRESS: None})),
    "ingress is not explained": (Rule.COVERAGE, lambda p: change(p, "g", "d", ruled_out={EGRESS: None})),
    "the network is explained where it is taken": (
        Rule.COVERAGE,
        lambda p: change(p, "g", "d", ruled_out={INGRESS: None, EGRESS: None, NETWORK: None}),
    ),
    "the network is explained for a kind without it": (
        Rule.COVERAGE,
        lambda p: change(p, "limit", "e", ruled_out={EGRESS: None, NETWORK: None}),
    ),
    "a guard moves to ingress without an ADM": (
        Rule.COVERAGE,
        lambda p: change(p, "h", "d", place=INGRESS, closes=False, ruled_out={EGRESS: None, NETWORK: None}),
    ),
    "a quota is in the network": (
        Rule.CAPABILITY,
        lambda p: change(p, "limit", "e", place=NETWORK, ruled_out={INGRESS: None, EGRESS: None}),
    ),
    "both ends for a guard in the network": (Rule.COVERAGE, lambda p: change(p, "g", "d", place=Place.BOTH)),
    "undeclared callers are forgotten": (Rule.COVERAGE, lambda p: change(p, "g", "d", open=False)),
    "a port is left out": (Rule.COVERAGE, lambda p: change(p, "g", "d", ports=())),
    "a port of the other guard": (Rule.COVERAGE, lambda p: change(p, "g", "d", ports=(WEB.number, ADMIN.number))),
    "a call is left out": (Rule.COVERAGE, lambda p: change(p, "g", "d", calls=())),
}


@pytest.mark.parametrize("what", HAND)
def test_a_placement_changed_by_hand_is_rejected(what: str) -> None:
    rule, mutate = HAND[what]
    assert verify(TWO_GUARDS, BOTH_THERE) == ()
    wrong = mutate(BOTH_THERE)
    assert wrong != BOTH_THERE
    assert rule in rules(TWO_GUARDS, wrong)


HAND_OF_ONE: dict[str, Mutant] = {
    "the closing is lost as a second guard comes": (Rule.CLOSED, lambda p: replace(p, closed=())),
    "the second guard asks for closing": (Rule.CLOSED, lambda p: change(p, "h", "d", closes=True)),
    "the network is not explained": (Rule.COVERAGE, lambda p: change(p, "h", "d", ruled_out={EGRESS: None})),
    "the second guard moves to the network, and its ADM stays": (
        Rule.COVERAGE,
        lambda p: change(p, "h", "d", place=NETWORK, closes=True, ruled_out={INGRESS: None, EGRESS: None}),
    ),
    "the first guard is at the ADM as well": (
        Rule.COVERAGE,
        lambda p: replace(p, adms=(Adm("d", ingress=("g", "h")), *p.adms[1:])),
    ),
    "the hop of the first guard is counted": (None, lambda p: _level(p, Metric.HOPS, 3 * 3600)),
}


@pytest.mark.parametrize("what", HAND_OF_ONE)
def test_beside_a_guard_at_ingress(what: str) -> None:
    rule, mutate = HAND_OF_ONE[what]
    assert verify(TWO_GUARDS, ONE_THERE) == ()
    wrong = mutate(ONE_THERE)
    assert wrong != ONE_THERE
    assert rule in rules(TWO_GUARDS, wrong)


def test_without_the_statement_a_pin_asks_for_an_explanation() -> None:
    of = guarded(enforced=False, pins=[("g", NETWORK, "d")])
    right = place(of, {"g": INGRESS})
    assert set(right.decisions[0].ruled_out) == {EGRESS, NETWORK}
    assert rules(of, right) == {Rule.PIN}
    assert rules(of, change(right, "g", "d", ruled_out={EGRESS: None})) == {Rule.PIN, Rule.COVERAGE}


def test_without_statement_and_pin_the_network_is_not_explained() -> None:
    of = guarded(enforced=False)
    right = place(of, {"g": INGRESS})
    assert set(right.decisions[0].ruled_out) == {EGRESS}
    assert verify(of, right) == ()
    assert rules(of, change(right, "g", "d", ruled_out={EGRESS: None, NETWORK: None})) == {Rule.COVERAGE}
