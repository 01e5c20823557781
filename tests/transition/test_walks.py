"""No walk between any two plans has a moment at which some request meets a policy neither before nor after it moved."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st

from admc.transition.change import Change, acts_once, alike
from admc.transition.model import Phase, Placed
from admc.transition.older import names, renamed
from admc.transition.schedule import single
from admc.transition.steps import steps
from dsl import load_text
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Protocol, Verb
from emitters.errors import EmitError
from solver.place import place
from solver.placement import PlacementError
from solver.rules.effects import commute
from tests.transition.world import Asked, Met, Moment, asked, moments, ways

if TYPE_CHECKING:
    from dsl.program import Call, Policy

pytestmark = pytest.mark.long

APP = """
app walks
service s { http 80 }
service t { http 80 }
service d { http web 80  http admin 81  tcp plain 90 }
service e { http 80 }
call s -> d:web, d:plain
call t -> d:web, d:admin
call s -> e
call d -> e
"""
APPS = (
    APP,
    APP + "service n { http 80 }\ncall n -> d:web\ncall n -> e\ncall d -> n\n",
    APP + "external x\ncall x -> d:web\n",
    APP.replace("service e { http 80 }", "service e { grpc 80 -> 8080  replicas 3 }"),
    APP.replace("call t -> d:web, d:admin\n", "call t -> d:admin\n"),
)
"""The same application with more services, with fewer calls, and with a port that speaks otherwise."""
SCOPES = ("s -> d:web", "{s, t} -> d:web", "t -> {d:web, d:admin}", "{s, d} -> e", "* except d -> d", "* -> {d:web, e}")
PLAIN = "s -> d:plain"
KINDS = (
    "rate_limit(requests: 5, per: 1s)",
    "deny()",
    "allow(callers: [s, t, d])",
    'set_request_header(name: "x-a", value: "1")',
    'add_request_header(name: "x-a", value: "2")',
    'remove_request_header(name: "x-b")',
    'set_response_header(name: "x-r", value: "1")',
    "request_count()",
    "access_log()",
    "fault_abort(status: 503, percent: 50%)",
    "fault_delay(delay: 1ms)",
    "external_authorization(service: e)",
)
CONNECTION_KINDS = ("deny()", "connection_rate_limit(connections: 5, per: 1s)", "access_log()")
MATCHES = ("", ' when header("x-a") == "1"', ' when not (header("x-b") == "1")', ' when path == "/p"')
SIDES = ("ingress", "egress", "")


class Line(NamedTuple):
    """A policy of a program, and where it is pinned."""

    name: str
    kind: str
    scope: str
    match: str
    side: str

    @property
    def text(self) -> str:
        pin = f"pin {self.name} at {self.side}\n" if self.side else ""
        return f"policy {self.name} = {self.kind} on {self.scope}{self.match}\n{pin}"


def lines(names: str) -> st.SearchStrategy[list[Line]]:
    requests = st.tuples(st.sampled_from(KINDS), st.sampled_from(SCOPES), st.sampled_from(MATCHES))
    connections = st.tuples(st.sampled_from(CONNECTION_KINDS), st.just(PLAIN), st.just(""))
    what = st.one_of(requests, requests, requests, connections)
    one = st.tuples(what, st.sampled_from(SIDES))
    return st.lists(one, min_size=1, max_size=len(names)).map(
        lambda found: [Line(name, *what, side) for name, (what, side) in zip(names, found, strict=False)]
    )


@st.composite
def ends(draw: st.DrawFn) -> tuple[list[Line], list[Line]]:
    """Two programs, the second made from the first: policies move, change, go, come, get other names, and give theirs
    to others."""
    old = draw(lines("abcd"))
    new: list[Line] = []
    for line in old:
        what = draw(st.sampled_from(("move", "move", "move", "stay", "change", "rename", "swap", "drop")))
        if what == "drop":
            continue
        side = line.side if what == "stay" else draw(st.sampled_from(SIDES))
        after = line._replace(side=side)
        if what in ("rename", "swap"):
            after = after._replace(name=f"{line.name}_new")
        elif what == "change" and line.scope != PLAIN:
            after = after._replace(match=draw(st.sampled_from(MATCHES)), kind=draw(st.sampled_from(KINDS)))
        new.append(after)
        if what == "swap" and line.scope != PLAIN:
            new.append(line._replace(match=draw(st.sampled_from(MATCHES)), side=draw(st.sampled_from(SIDES))))
    for line in draw(st.one_of(st.just([]), lines("xy"))):
        new.insert(draw(st.integers(0, len(new))), line)
    return old, new


def placed(written: list[Line], app: str = APP) -> Placed | None:
    try:
        program = load_text(app + "".join(line.text for line in written))
        return Placed(program, place(program))
    except (ProgramError, PlacementError):
        return None


def enforced(placed: Placed, call: Call) -> dict[str, Policy]:
    """The policies that requests of a call meet."""
    key = (call.source, call.destination, call.port.number)
    found = {}
    for decision in placed.placement.decisions:
        calls = (placed.program.calls[index] for index in decision.calls)
        if any((each.source, each.destination, each.port.number) == key for each in calls):
            found[decision.policy] = placed.program.policy_by_name[decision.policy]
    return found


def judge(old: Placed, new: Placed, turn: Phase | None, again: Phase | None = None) -> None:
    try:
        walked = steps(old, renamed(new, names({}, old, new)), b"key")
    except EmitError:
        event("refused: no order for what ADMs ask")
        return
    walk = moments(walked, old, turn if any(step.phase is turn for step in walked) else None, again)
    judge_asked(walk, [old, new])
    change = Change(old, new)
    once = {
        (entry.policy.name, entry.decision.destination)
        for entry in (*change.coming, *change.leaving)
        if entry.decision.destination in change.crossing and acts_once(entry.policy) and single(change, entry)
    }
    for call in change.program.calls:
        before, after = enforced(old, call), enforced(new, call)
        # What is the same before and after must be so in between, whatever it is called.
        same = [
            (name, other)
            for name, policy in before.items()
            for other, second in after.items()
            if (name == other or f"{name}_new" == other) and alike(policy, second)
        ]
        order = [policy.name for policy in old.program.policies], [policy.name for policy in new.program.policies]
        fixed = [name for name, other in same if name == other]
        turned = [
            (one, two)
            for one, two in combinations(sorted(fixed, key=order[0].index), 2)
            if order[1].index(one) < order[1].index(two) and not commute(before[one].effects, before[two].effects)
        ]
        for met in ways(walk, call):
            at = walk[met.moment].phase
            said = f"{at} {call.source} -> {call.destination}:{call.port.number}: {told(met)} {met.how}"
            for name, other in same:
                # Another one that does the same is as good.
                like = {name, other} | {each for each, policy in after.items() if alike(before[name], policy)}
                count = sum(each.policy in (name, other) for _, each in met.policies)
                assert any(each.policy in like for _, each in met.policies), f"a gap of `{name}` at {said}"
                if name == other and (name, call.destination) in once and call.port.protocol is not Protocol.TCP:
                    assert count == 1, f"twice `{name}` at {said}"
            order_met = [each.policy for _, each in met.policies]
            for one, two in turned:
                assert order_met.index(one) < order_met.index(two), f"`{two}` before `{one}` at {said}"
                if call.port.protocol is not Protocol.TCP and (writes(before[one]) or writes(before[two])):
                    last = len(order_met) - 1 - order_met[::-1].index(one)
                    assert last < order_met.index(two), f"`{one}` once more behind `{two}` at {said}"


def judge_asked(told: list[Moment], plans: list[Placed]) -> list[Asked]:
    """All questions that ADMs ask by themselves: each meets what every plan enforces on calls of who asks."""
    calls = {(call.source, call.destination, call.port.number): call for plan in plans for call in plan.program.calls}
    found = list(asked(told))
    for each in found:
        call = calls.get((each.asker, each.helper, each.port))
        if call is None:
            continue
        first, *others = (enforced(plan, call) for plan in plans)
        for policy in first.values():
            if all(any(alike(policy, one) for one in other.values()) for other in others):
                at = f"{told[each.moment].phase} {each.how}: {[one.name for one in each.policies]}"
                met = any(alike(policy, one.content) for one in each.policies)
                assert met, f"`{each.asker}` asks `{each.helper}` without `{policy.name}` at {at}"
    return found


def writes(policy: Policy) -> bool:
    return any(effect.verb is Verb.WRITES for effect in policy.effects or ())


def told(met: Met) -> str:
    return ", ".join(f"{each.name}@{side}" for side, each in met.policies) or "nothing"


TURNS = (None, Phase.PREPARE, Phase.SENDERS, Phase.RECEIVERS, Phase.RELEASE)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(ends=ends(), turn=st.sampled_from(TURNS))
def test_no_walk_has_a_gap(ends: tuple[list[Line], list[Line]], turn: Phase | None) -> None:
    old, new = placed(ends[0]), placed(ends[1])
    assume(old is not None and new is not None)
    assert old is not None
    assert new is not None
    note("".join(line.text for line in ends[0]) + "->\n" + "".join(line.text for line in ends[1]))
    event(f"crossing: {bool(Change(old, new).crossing)}")
    judge(old, new, turn)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(ends=ends(), turns=st.sampled_from(tuple(combinations(tuple(Phase)[:5], 2))))
def test_no_walk_has_a_gap_that_goes_forward_again_from_a_step_back(
    ends: tuple[list[Line], list[Line]], turns: tuple[Phase, Phase]
) -> None:
    old, new = placed(ends[0]), placed(ends[1])
    assume(old is not None and new is not None)
    assert old is not None
    assert new is not None
    assume(Change(old, new).crossing)
    note("".join(line.text for line in ends[0]) + "->\n" + "".join(line.text for line in ends[1]))
    judge(old, new, turns[1], turns[0])
