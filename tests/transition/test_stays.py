"""What can sit at one side only never moves: where something else does, one of two takes the other's place at once."""

from __future__ import annotations

import pytest

from admc.transition.change import Change
from admc.transition.model import Phase, Placed, Step
from admc.transition.resources import resources
from admc.transition.steps import steps
from dsl import load_text
from emitters.addresses import loopback
from emitters.envoy import Mode
from emitters.hops import hops
from solver.place import place

pytestmark = pytest.mark.long

PROGRAM = """
app stays
service s, d, e, f { http 80 }
call s -> d, e, f
policy m = request_count() on s -> d when path == "/m"
pin m at SIDE
"""
KINDS = {
    "timeout": ("timeout(after: 1s)", "timeout(after: 2s)"),
    "retry": ("retry(attempts: 2)", "retry(attempts: 3)"),
    "split": ("split(to: e, percent: 5%)", "split(to: f, percent: 5%)"),
    "load_balancing": ("load_balancing(policy: random)", "load_balancing(policy: round_robin)"),
    "circuit_breaking": ("circuit_breaking(max_requests: 9)", "circuit_breaking(max_requests: 8)"),
}
PARTLY = ("timeout", "retry", "split")
"""Kinds that can be for some requests; a split does not commute with what moves here, for the same ones."""


def placed(side: str, name: str, kind: str, what: str) -> Placed:
    match = ' when path == "/r"' if kind in PARTLY else ""
    program = load_text(PROGRAM.replace("SIDE", side) + f"policy {name} = {what} on s -> d{match}\n")
    return Placed(program, place(program))


def names(step: Step) -> set[tuple[str, ...]]:
    """Of what does not move, in each hop to the destination."""
    found = set()
    for service, part in step.parts.items():
        for hop in hops(*part.placed).get(service, ()):
            own = tuple(policy.name for policy in hop.policies if policy.name != "m")
            found.add(own)
    return found - {()}


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_no_step_has_both(kind: str, other: int, sides: tuple[str, str]) -> None:
    old = placed(sides[0], "one", kind, KINDS[kind][0])
    new = placed(sides[1], "two", kind, KINDS[kind][other])
    assert Change(old, new).crossing == {"d"}
    walked = steps(old, new, b"key")
    for step in walked:
        assert names(step) in ({("one",)}, {("two",)}), step.phase
        assert resources(step, loopback(new.program), Mode.REDIRECT)
    assert (names(walked[0]), names(walked[-1])) == ({("one",)}, {("two",)})
    assert [step.phase for step in walked] == list(Phase)


@pytest.mark.parametrize("back", [False, True])
def test_what_has_no_like_beside_it_holds_until_the_other_does(back: bool) -> None:
    """A breaker takes the place of outliers that are put out, at the other side and of another kind."""
    app = "app stays\nservice s, d { http 80 }\ncall s -> d\n"
    texts = (
        "policy one = outlier_detection() on s -> d\n",
        "policy two = circuit_breaking(max_requests: 9) on s -> d\n",
    )
    ends = [load_text(app + text) for text in texts]
    old, new = (Placed(program, place(program)) for program in (reversed(ends) if back else ends))
    walked = steps(old, new, b"key")
    assert [step.phase for step in walked] == list(Phase)
    came, went = ("one", "two") if back else ("two", "one")
    has = {step.phase: {name for each in names(step) for name in each} for step in walked}
    assert all(came in has[phase] for phase in tuple(Phase)[1:])
    assert went in has[Phase.SENDERS]
    assert (went in has[Phase.RECEIVERS]) is (went == "one")


UPSTREAM = """
@egress(upstream)
@effect(writes(header))
kind stamped() for http, grpc template "stamped.yaml"
"""
STAMPED = b"""
"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
mutations: {request_mutations: [{append: {header: {key: "x-stamp", value: "1"}}}]}
"""
TCP = """
app stays
service s, d { tcp 80 }
call s -> d
FIRST
policy m = allow(callers: [s]) on s -> d
LAST
pin m at SIDE
"""
LIMIT = "policy NAME = connection_rate_limit(connections: 9, per: 1h) on s -> d"
NO_MARKER = {
    "upstream": PROGRAM + UPSTREAM + "policy NAME = stamped() on s -> d\n",
    "tcp egress": TCP.replace("FIRST", LIMIT).replace("LAST", "pin NAME at egress"),
    "tcp ingress": TCP.replace("LAST", LIMIT).replace("FIRST", "pin NAME at ingress"),
}
"""What no marker tells apart."""


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
@pytest.mark.parametrize("what", NO_MARKER)
def test_what_only_gets_another_name_is_met_once(what: str, sides: tuple[str, str]) -> None:
    def with_name(side: str, name: str) -> Placed:
        text = NO_MARKER[what].replace("SIDE", side).replace("NAME", name)
        loaded = load_text(text, "test.adm", lambda _: STAMPED)
        return Placed(loaded, place(loaded))

    old, new = with_name(sides[0], "one"), with_name(sides[1], "two")
    assert Change(old, new).crossing == {"d"}
    for step in steps(old, new, b"key"):
        assert names(step) in ({("one",)}, {("two",)}), step.phase
