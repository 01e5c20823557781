"""Where a plan takes the long way: only where what comes to one side may take the place of what leaves the other."""

from __future__ import annotations

import pytest

from admc.transition.change import Change
from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load_text
from solver.place import place

APP = """
app crossing
service s, t { http 80 }
service d { http web 80  http admin 81  http again 82 -> 80 }
call s, t -> d:web
call s, t -> d:admin
call s -> d:again
@ingress @egress
kind own() for http template "own.yaml"
"""
TEMPLATE = b"""
"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
mutations: {request_mutations: [{append: {header: {key: x-own, value: "1"}}}]}
"""
LEAVES = "deny() on s -> d:web"
CASES = {
    "the same under another name": (LEAVES, LEAVES, True),
    "another guard": (LEAVES, "allow(callers: [s, t]) on {s, t} -> d:web", True),
    "a guard of others": (LEAVES, "deny() on t -> d:web", False),
    "a guard of another port": (LEAVES, "deny() on s -> d:admin", False),
    "a guard of a port that leads to the same": (LEAVES, "deny() on s -> d:again", True),
    "what refuses and does more": (LEAVES, "rate_limit(requests: 5, per: 1s) on s -> d:web", True),
    "what refuses nobody": (LEAVES, "timeout(after: 1s) on s -> d:web", False),
    "what only counts": (LEAVES, "request_count() on s -> d:web", False),
    "what writes something else": (
        'set_request_header(name: "x-a", value: "1") on s -> d:web',
        'set_request_header(name: "x-b", value: "1") on s -> d:web',
        True,
    ),
    "what says nothing of what it does": (LEAVES, "own() on s -> d:web", True),
}


def placed(policy: str, name: str, side: str) -> Placed:
    pin = "" if policy.startswith("timeout") else f"pin {name} at {side}\n"
    program = load_text(f"{APP}policy {name} = {policy}\n{pin}", read=lambda _: TEMPLATE)
    return Placed(program, place(program))


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_long_way_is_for_what_may_take_the_place_of_another(case: str, back: bool) -> None:
    leaves, comes, crosses = CASES[case]
    ends = placed(leaves, "old", "ingress"), placed(comes, "new", "egress")
    old, new = reversed(ends) if back else ends
    assert Change(old, new).crossing == ({"d"} if crosses else set())
    phases = [step.phase for step in steps(old, new, b"key")]
    assert phases == (list(Phase) if crosses else [Phase.FINAL, Phase.CLEAN])


def test_one_name_is_one_policy_whatever_becomes_of_it() -> None:
    old, new = placed(LEAVES, "one", "ingress"), placed("request_count() on t -> d:admin", "one", "egress")
    assert Change(old, new).crossing == {"d"}
