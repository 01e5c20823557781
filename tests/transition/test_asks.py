"""What an ADM asks by itself meets no filter of its own and carries no marker: whoever is asked enforces by itself for
as long as anybody may ask."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load_text
from emitters.errors import EmitError
from solver.place import place
from tests.serve.server_process import served
from tests.transition.test_walks import judge, judge_asked
from tests.transition.world import Leg, asked, chain, moments

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

APP = """
app asks
service s, t, a, b, h, i, j { http 80 }
call s, t -> a, b
call a, b, s -> h, i
call h -> j
"""
UNDECLARED = APP.replace("call h -> j", "call h -> j\ncall t -> h").replace("call a, b, s -> h, i", "call b, s -> h")
QUOTA = 'add_request_header(name: "x-once", value: "1")'


def placed(text: str, app: str = APP) -> Placed:
    program = load_text(app + text)
    return Placed(program, place(program))


def held(name: str, helper: str, side: str, sources: str = "a", kind: str = QUOTA) -> str:
    """A policy on calls to who is asked, at one side."""
    return f"policy {name} = {kind} on {sources} -> {helper}\npin {name} at {side}\n"


def asks(name: str, helper: str, scope: str = "s -> a", side: str = "ingress", note: str = "") -> str:
    """A policy for which an ADM asks."""
    return f"{note}policy {name} = external_authorization(service: {helper}) on {scope}\npin {name} at {side}\n"


GUARD = 'policy g = deny() on s -> a when path == "/no"\npin g at ingress\n'
ONLY_IN, ONLY_OUT = "@ingress\n", "@egress\n"
CASES = {
    "it is dropped": (asks("p", "h") + held("q", "h", "ingress"), held("q", "h", "egress")),
    "it comes": (held("q", "h", "egress"), asks("p", "h") + held("q", "h", "ingress")),
    "it is dropped at the sender": (
        asks("p", "h", side="egress") + held("q", "h", "ingress", "s"),
        held("q", "h", "egress", "s"),
    ),
    "it comes at the sender": (
        held("q", "h", "egress", "s"),
        asks("p", "h", side="egress") + held("q", "h", "ingress", "s"),
    ),
    "it asks another": (
        asks("p", "h") + held("q", "h", "ingress") + held("r", "i", "egress"),
        asks("p", "i") + held("q", "h", "egress") + held("r", "i", "ingress"),
    ),
    "it asks another from the sender": (
        asks("p", "h", side="egress") + held("q", "h", "ingress", "s") + held("r", "i", "egress", "s"),
        asks("p", "i", side="egress") + held("q", "h", "egress", "s") + held("r", "i", "ingress", "s"),
    ),
    "it moves to the sender, where something moves to its helper": (
        asks("p", "h", note=ONLY_IN) + held("r", "h", "egress", "s"),
        asks("p", "h", side="egress", note=ONLY_OUT) + held("r", "h", "ingress", "s"),
    ),
    "it moves to the receiver, where something moves to its helper": (
        asks("p", "h", side="egress", note=ONLY_OUT) + held("r", "h", "egress", "a"),
        asks("p", "h", note=ONLY_IN) + held("r", "h", "ingress", "a"),
    ),
    "it moves from the receiver, where something leaves its helper": (
        asks("p", "h", note=ONLY_IN) + held("r", "h", "ingress", "a"),
        asks("p", "h", side="egress", note=ONLY_OUT) + held("r", "h", "egress", "a"),
    ),
    "it moves from the sender, where something leaves its helper": (
        asks("p", "h", side="egress", note=ONLY_OUT) + held("r", "h", "ingress", "s"),
        asks("p", "h", note=ONLY_IN) + held("r", "h", "egress", "s"),
    ),
    "who is asked asks somebody else": (
        asks("p", "h") + held("q", "h", "ingress") + asks("o", "j", "a -> h") + held("z", "j", "ingress", "h"),
        held("q", "h", "egress") + held("z", "j", "egress", "h"),
    ),
    "another guard takes its place": (asks("p", "h") + held("q", "h", "ingress"), GUARD + held("q", "h", "egress")),
    "it holds twice": (
        asks("p", "h") + held("q", "h", "ingress", kind="deny()"),
        held("q", "h", "egress", kind="deny()"),
    ),
    "for some of its callers": (
        asks("p", "h", "{s, t} -> {a, b}", "egress", ONLY_OUT) + held("q", "h", "ingress", "{a, s}"),
        asks("p", "h", "t -> {a, b}", "egress", ONLY_OUT) + held("q", "h", "egress", "{a, s}"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_nobody_is_asked_past_what_it_enforces(case: str) -> None:
    old, new = placed(CASES[case][0]), placed(CASES[case][1])
    for one, other in ((old, new), (new, old)):
        walked = steps(one, other, b"key")
        assert judge_asked(moments(walked, one), [one, other])
        for turn in range(1, len(walked) - 2):
            judge_asked(moments(walked, one, turn), [one, other])


@pytest.mark.parametrize("case", CASES)
def test_nothing_else_has_a_gap(case: str) -> None:
    old, new = placed(CASES[case][0]), placed(CASES[case][1])
    judge(old, new, None)
    judge(new, old, Phase.RELEASE)


UNORDERED = {
    "one asker stops and another begins": (
        asks("p", "h", note=ONLY_IN) + held("q", "h", "ingress", "a") + held("r", "h", "egress", "s"),
        asks("p", "h", side="egress", note=ONLY_OUT) + held("q", "h", "egress", "a") + held("r", "h", "ingress", "s"),
    ),
    "they ask each other": (
        asks("p", "i", "s -> h")
        + asks("o", "h", "s -> i")
        + held("q", "h", "ingress", "i")
        + held("r", "i", "ingress", "h"),
        held("q", "h", "egress", "i") + held("r", "i", "egress", "h"),
    ),
}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("case", UNORDERED)
def test_what_has_no_order_is_refused_in_words(case: str, back: bool) -> None:
    app = APP + "call h -> i\ncall i -> h\n"
    old, new = placed(UNORDERED[case][back], app), placed(UNORDERED[case][not back], app)
    with pytest.raises(EmitError) as refused:
        steps(old, new, b"key")
    (found,) = refused.value.diagnostics
    assert found.code == "ADM855"
    assert found.span is not None


def test_the_way_round_that_is_proposed_is_one() -> None:
    """Pins at the ingress first, then who asks, then no pins any more: each of them has an order."""
    old, new = UNORDERED["one asker stops and another begins"]
    pinned = [old.replace("pin r at egress", "pin r at ingress"), new.replace("pin q at egress", "pin q at ingress")]
    for one, other in pairwise(map(placed, (old, *pinned, new))):
        walked = steps(one, other, b"key")
        judge_asked(moments(walked, one), [one, other])


def test_rounds_are_only_where_somebody_begins_or_stops_to_ask() -> None:
    both = [asks("p", "h") + held("q", "i", side) + held("r", "h", "ingress") for side in ("ingress", "egress")]
    assert [step.phase for step in steps(placed(both[0]), placed(both[1]), b"key")] == list(Phase)
    old, new = (placed(text) for text in CASES["it is dropped"])
    walked = steps(old, new, b"key")
    order = list(Phase)
    assert [step.phase for step in walked] == [*order[:5], *order[2:]]
    assert [step.phase for step in walked if step.drain] == [Phase.PREPARE, Phase.RELEASE, Phase.FINAL]
    (why,) = walked[4].reasons
    assert (
        "what leaves the ingress of `h` holds there until connections are closed on which `a` may still ask it" in why
    )
    (why,) = steps(new, old, b"key")[4].reasons
    assert "`a` asks `h` for `p` once what comes to the ingress of `h` is there" in why


@pytest.mark.parametrize("end", [None, Phase.FINAL])
@pytest.mark.parametrize("scope", ["a", "*"])
def test_a_plan_that_follows_before_older_connections_are_closed(scope: str, end: Phase | None) -> None:
    """The first one drops what is asked for, and nothing changes sides; the next one moves what held there."""
    first = asks("p", "h") + held("q", "h", "ingress", scope)
    texts = (first, held("q", "h", "ingress", scope), held("q", "h", "egress", scope))
    old, middle, new = (placed(text, APP if scope == "a" else UNDECLARED) for text in texts)
    found = list(asked(chain(old, [Leg(middle, end), Leg(new)])))
    assert found
    assert all(any(one.policy == "q" for one in each.policies) for each in found)


def test_a_server_refuses_what_has_no_order_and_says_why(tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    old, new = UNORDERED["one asker stops and another begins"]
    program.write_text(APP + old)
    with served(tmp_path, "policies.adm", "--mode", "explicit", xds="127.0.0.1:0") as server:
        before = server.until_event("compiled")["state"]
        program.write_text(APP + new)
        server.until(lambda: bool(server.events("finding")))
        (found,) = server.events("finding")
        assert found["code"] == "ADM855"
        assert [event["state"] for event in server.events("published")] == [before]
        assert not server.events("transition_step")
