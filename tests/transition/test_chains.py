"""A plan that begins before older connections are gone takes no policy from them.

Plans follow one another while connections of every earlier one are open, some of them left before their transition was
over. What is the same policy in all of them, whatever it is called, must be met by every request meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st

from admc.transition.change import Change, acts_once, alike
from admc.transition.model import Phase
from admc.transition.older import dropped, names
from admc.transition.schedule import single
from admc.transition.steps import outlasting, steps
from dsl.program import Protocol
from emitters.errors import EmitError
from solver.rules.effects import commute
from tests.transition.test_walks import (
    APP,
    APPS,
    KINDS,
    MATCHES,
    PLAIN,
    SIDES,
    Line,
    enforced,
    judge_asked,
    lines,
    placed,
)
from tests.transition.world import Leg, chain, ways

if TYPE_CHECKING:
    from admc.transition.model import Placed
    from dsl.program import Policy

NEW = "_new"
LEFT = (None, Phase.FINAL, Phase.FINAL, Phase.FINAL, Phase.PREPARE, Phase.RECEIVERS)


def base(name: str) -> str:
    """What stays of a name."""
    return name.removesuffix(NEW)


@st.composite
def following(draw: st.DrawFn, old: list[Line]) -> list[Line]:
    """A program that is made from another: policies stay, change, get another name and get it back, go, come, move,
    and give their name to another."""
    new: list[Line] = []
    for line in old:
        what = draw(st.sampled_from(("stay", "stay", "move", "change", "rename", "rename", "swap", "drop")))
        if what == "drop":
            continue
        after = line
        if what in ("rename", "swap"):
            after = line._replace(name=base(line.name) if line.name.endswith(NEW) else line.name + NEW)
        elif what == "move":
            after = line._replace(side=draw(st.sampled_from(SIDES)))
        elif what == "change" and line.scope != PLAIN:
            after = line._replace(match=draw(st.sampled_from(MATCHES)), kind=draw(st.sampled_from(KINDS)))
        new.append(after)
        if what == "swap" and line.scope != PLAIN:
            new.append(line._replace(match=draw(st.sampled_from(MATCHES)), side=draw(st.sampled_from(SIDES))))
    taken = {line.name for line in new}
    for line in draw(st.one_of(st.just([]), st.just([]), lines("ax"))):
        # What comes may have a name that was there before.
        name = draw(st.sampled_from((line.name, line.name + NEW)))
        if name not in taken:
            taken.add(name)
            new.insert(draw(st.integers(0, len(new))), line._replace(name=name))
    return new


@st.composite
def chains(draw: st.DrawFn) -> list[list[Line]]:
    found = [draw(lines("abc"))]
    for _ in range(draw(st.integers(2, 3))):
        again = draw(st.booleans()) and len(found) > 1
        found.append(found[-2] if again else draw(following(found[-1])))
    return found


def judge(first: Placed, legs: list[Leg]) -> None:
    plans = [first, *(leg.new for leg in legs)]
    try:
        told = chain(first, legs)
    except EmitError:
        event("refused: no order for what ADMs ask")
        return
    judge_asked(told, plans)
    once = [frozenset[tuple[str, str]](), *_once(first, legs)]
    calls = {(call.source, call.destination, call.port.number): call for plan in plans for call in plan.program.calls}
    for call in calls.values():
        here = [enforced(plan, call) for plan in plans]
        kept = [policy for policy in here[0].values() if all(_like(policy, other) for other in here)]
        named = [policy for policy in kept if all(policy.name in other for other in here)]
        named = [policy for policy in named if all(_same(policy, other[policy.name]) for other in here)]
        turned = list(_turned(named, plans))
        for met in ways(told, call):
            moment = told[met.moment]
            names = ", ".join(f"{each.name}@{side}" for side, each in met.policies) or "nothing"
            at = f"{moment.walk}/{moment.phase} {call.source} -> {call.destination}: {names} {met.how}"
            assert not met.lost, f"a connection has lost what it needs at {at}"
            for policy in kept:
                assert any(_same(policy, each.content) for _, each in met.policies), f"a gap of `{policy.name}` at {at}"
            order = [each.policy for _, each in met.policies]
            for policy in named:
                if (policy.name, call.destination) in once[moment.walk] and call.port.protocol is not Protocol.TCP:
                    assert order.count(policy.name) == 1, f"twice `{policy.name}` at {at}"
            for one, two in turned:
                assert order.index(one) < order.index(two), f"`{two}` before `{one}` at {at}"


def _once(first: Placed, legs: list[Leg]) -> list[frozenset[tuple[str, str]]]:
    """For each leg the policies, and their destinations, that the marker keeps single. After one that a refusal ended
    it does not: connections have both sides in their listeners."""
    found: list[frozenset[tuple[str, str]]] = []
    old, refused = first, False
    for leg in legs:
        change = Change(old, leg.new)
        entries = (*change.coming, *change.leaving)
        moved = (each for each in entries if acts_once(each.policy) and single(change, each))
        found.append(
            frozenset() if refused else frozenset((each.policy.name, each.decision.destination) for each in moved)
        )
        refused = refused or bool(change.crossing and leg.end is Phase.FINAL)
        if leg.end in (None, Phase.FINAL) or not change.crossing:
            old = leg.new
    return found


def _like(policy: Policy, others: dict[str, Policy]) -> bool:
    return any(_same(policy, other) for other in others.values())


def _same(one: Policy, other: Policy) -> bool:
    """Also where it is for everybody, and there are more of them. Both are about the call that is looked at."""
    return alike(one, other) or (one.open_sources and alike(replace(one, sources=other.sources), other))


def _turned(named: list[Policy], plans: list[Placed]) -> list[tuple[str, str]]:
    orders = [[policy.name for policy in plan.program.policies] for plan in plans]
    return [
        (one.name, two.name)
        for one, two in combinations(sorted(named, key=lambda policy: orders[0].index(policy.name)), 2)
        if all(order.index(one.name) < order.index(two.name) for order in orders)
        and not commute(one.effects, two.effects)
    ]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    written=chains(),
    apps=st.one_of(st.just([APP] * 4), st.lists(st.sampled_from(APPS), min_size=4, max_size=4)),
    left=st.lists(st.sampled_from(LEFT), min_size=3, max_size=3),
)
def test_no_chain_has_a_gap(written: list[list[Line]], apps: list[str], left: list[Phase | None]) -> None:
    plans = [placed(each, app) for each, app in zip(written, apps, strict=False)]
    assume(all(plan is not None for plan in plans))
    first, *others = (plan for plan in plans if plan is not None)
    texts = (app + "".join(line.text for line in each) for each, app in zip(written, apps, strict=False))
    note(" ->\n".join(texts) + str(left))
    judge(first, [Leg(plan, end) for plan, end in zip(others, left, strict=False)])


QUOTA = "rate_limit(requests: 5, per: 1s)"
WRITES = 'set_request_header(name: "x-z", value: "1")'
OTHER = 'set_request_header(name: "x-q", value: "2")'


def line(name: str, kind: str, side: str) -> Line:
    return Line(name, kind, "s -> d:web", "", side)


@pytest.mark.parametrize("side", ["ingress", "egress"])
def test_a_name_that_comes_back_is_not_skipped_in_connections_that_still_have_it(side: str) -> None:
    written = (
        [line("a", WRITES, side), line("m", QUOTA, "egress")],
        [line("a_new", WRITES, side), line("m", QUOTA, "egress")],
        [line("a", WRITES, side), line("m", QUOTA, "ingress")],
    )
    first, second, third = map(known, written)
    assert names(dropped({}, first, second), second, third) == {"a": "a~2"}
    judge(first, [Leg(second, Phase.FINAL), Leg(third)])


def test_a_name_is_not_given_to_another_policy_while_connections_have_the_one_before() -> None:
    written = (
        [line("a", WRITES, "ingress")],
        [line("a_new", WRITES, "ingress")],
        [line("a", OTHER, "ingress"), line("a_new", WRITES, "ingress")],
    )
    first, second, third = map(known, written)
    assert names(dropped({}, first, second), second, third) == {"a": "a~2"}
    judge(first, [Leg(second, Phase.FINAL), Leg(third)])


def test_a_policy_that_was_dropped_comes_back_at_once() -> None:
    quota = line("m", QUOTA, "egress")
    first, second = known([line("a", WRITES, "ingress"), quota]), known([quota])
    assert names(dropped({}, first, second), second, first) == {}
    judge(first, [Leg(second, Phase.FINAL), Leg(first)])


@pytest.mark.parametrize("end", [None, Phase.FINAL])
@pytest.mark.parametrize("side", ["ingress", "egress"])
def test_a_name_that_goes_to_another_policy_leaves_older_connections_what_they_have(
    side: str, end: Phase | None
) -> None:
    quota, again = "rate_limit(requests: 9, per: 1s)", "rate_limit(requests: 7, per: 1s)"
    first = known([line("a", QUOTA, "ingress")])
    second = known([line("b", QUOTA, side), line("a", quota, "ingress")])
    third = known([line("c", QUOTA, side), line("b", quota, "ingress"), line("a", again, "ingress")])
    assert names({}, first, second) == {"a": "a~2"}
    judge(first, [Leg(second, end), Leg(third, end), Leg(first)])


def test_a_name_that_goes_to_another_policy_while_there_are_more_to_call() -> None:
    here = Line("a", QUOTA, "* -> {d:web, e}", "", "ingress")
    other = here._replace(match=MATCHES[3])
    first, second = placed([here], APPS[0]), placed([here._replace(name="b"), other], APPS[1])
    assert first is not None
    assert second is not None
    assert names({}, first, second) == {"a": "a~2"}
    judge(first, [Leg(second, Phase.FINAL), Leg(first)])


def test_two_policies_may_change_names_with_each_other() -> None:
    quota = "rate_limit(requests: 9, per: 1s)"
    first = known([line("a", QUOTA, "ingress"), line("b", quota, "ingress")])
    second = known([line("b", QUOTA, "ingress"), line("a", quota, "ingress")])
    assert names({}, first, second) == {"a": "a~2", "b": "b~2"}
    judge(first, [Leg(second)])
    judge(first, [Leg(second, Phase.FINAL), Leg(first, Phase.FINAL), Leg(second)])


@pytest.mark.parametrize("end", [None, Phase.FINAL, Phase.SENDERS, Phase.RECEIVERS])
@pytest.mark.parametrize(
    ("kind", "sides"),
    [
        ("deny()", ("ingress", "ingress", "ingress")),
        ("deny()", ("ingress", "ingress", "egress")),
        ("deny()", ("egress", "egress", "ingress")),
        ("deny()", ("egress", "ingress", "egress")),
        (QUOTA, ("ingress", "ingress", "ingress")),
        (QUOTA, ("ingress", "ingress", "egress")),
    ],
)
def test_one_policy_becomes_two_and_two_become_one(kind: str, sides: tuple[str, str, str], end: Phase | None) -> None:
    both, own, other = sides
    one = known([Line("m", kind, "{s, t} -> d:web", "", both)])
    two = known([Line("m", kind, "s -> d:web", "", own), Line("n", kind, "t -> d:web", "", other)])
    for first, second in ((one, two), (two, one)):
        assert names({}, first, second)["m"] == "m~2"
        told = chain(first, [Leg(second, end), Leg(first)])
        for call in first.program.calls:
            for met in ways(told, call) if call.port.name == "web" else ():
                concerned = (call.source in each.content.sources for _, each in met.policies)
                assert any(concerned), f"a gap of {call.source} at {told[met.moment].phase} {met.how}"


def test_a_policy_that_changes_keeps_its_name() -> None:
    first, second = known([line("a", WRITES, "ingress")]), known([line("a", OTHER, "ingress")])
    assert names({}, first, second) == {}


@pytest.mark.parametrize("back", ["ingress", "egress"])
def test_what_moved_comes_back_though_a_proxy_refuses(back: str) -> None:
    first, second = known([line("m", QUOTA, "egress")]), known([line("m", QUOTA, "ingress")])
    third = known([line("m", QUOTA, back), line("n", WRITES, "ingress")])
    judge(first, [Leg(second, Phase.FINAL), Leg(third)])


def test_a_service_that_loses_its_last_policy_keeps_what_older_connections_have() -> None:
    first, second = known([line("a", WRITES, "egress"), line("m", QUOTA, "egress")]), known([])
    judge(first, [Leg(second)])
    judge(first, [Leg(second, Phase.FINAL), Leg(first)])


def test_the_last_wait_is_for_those_too_whom_an_earlier_plan_left_behind() -> None:
    elsewhere = Line("e", QUOTA, "d -> e", "", "ingress")
    here = line("a", WRITES, "egress")
    first, second = known([here, line("y", OTHER, "egress"), elsewhere]), known([here, elsewhere])
    third = known([here, elsewhere._replace(match=MATCHES[1])])
    made = steps(second, third, b"key")
    assert [step.awaits for step in made if step.phase is Phase.FINAL] == [("e",)]
    waiting = outlasting(made, frozenset("s"))
    assert [step.awaits for step in waiting if step.phase is Phase.FINAL] == [("e", "s")]
    judge(first, [Leg(second, Phase.FINAL), Leg(third)])


def test_what_a_transition_that_was_taken_back_would_skip_is_not_skipped_by_the_next() -> None:
    first = known([line("a", WRITES, "ingress"), line("m", QUOTA, "egress")])
    second = known([line("b", WRITES, "ingress"), line("m", QUOTA, "ingress")])
    third = known([line("b", WRITES, "ingress"), line("m", QUOTA, "egress")])
    back = steps(first, second, b"key")
    about = frozenset(name for step in back for name in step.awaits)
    after = steps(first, third, b"key", about)
    assert [step.phase for step in after] == [Phase.ANNOUNCE, Phase.FINAL, Phase.CLEAN]
    assert frozenset(after[0].awaits) == about
    assert not any(part.toggles for part in after[0].parts.values())
    judge(first, [Leg(second, Phase.PREPARE), Leg(third)])


def known(written: list[Line]) -> Placed:
    found = placed(written)
    assert found is not None
    return found
