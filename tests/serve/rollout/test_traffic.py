"""Real Envoys under constant traffic, while policies change sides: each request meets each policy once."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING

import pytest

from admc.serve.rollout.marker import MARKER
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.steps import steps
from admc.testbed.envoys import envoy_binary
from dsl import load_text
from solver.place import place
from tests.serve.rollout.bed import KEY, Bed
from tests.testbed.callers import caller, http_connection, names_with_status, wait_for_answers
from tests.testbed.ports import program_port

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

ENVOY = envoy_binary()
PORT = program_port()
AMOUNT = 15
"""Requests of each caller in each step."""
FORGED = "0" * 64
NEEDS_ENVOY = pytest.mark.skipif(ENVOY is None, reason="needs Envoy")

PROGRAM = """
app move
service shop { http PORT }
service till { http PORT }
service cart { http PORT }
call shop, till -> cart
policy once    = add_request_header(name: "x-once", value: "ONCE") on {shop, till} -> cart
policy closed  = deny() on {shop, till} -> cart when header("x-out") == "1"
policy other   = add_request_header(name: "x-other", value: "1") on {shop, till} -> cart
policy slow    = timeout(after: 20s) on {shop, till} -> cart
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> cart
pin once at SIDE
pin closed at SIDE
pin other at OTHER
"""


def placed(side: str, other: str, once: str = "1") -> Placed:
    text = PROGRAM.replace("PORT", str(PORT)).replace("SIDE", side).replace("OTHER", other).replace("ONCE", once)
    program = load_text(text)
    return Placed(program, place(program))


DIRECTIONS = {
    "to senders": (("ingress", "ingress"), ("egress", "ingress")),
    "to the receiver": (("egress", "egress"), ("ingress", "egress")),
}


class Callers:
    """Callers that may pass, and one that may not."""

    def __init__(self, bed: Bed) -> None:
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        self.passed = [
            caller(shop, {}),
            caller(till, {MARKER: FORGED}),
            caller(shop, {}, protocol="h2c"),
        ]
        self.refused = [caller(shop, {"x-out": "1"})]
        self.all = [*self.passed, *self.refused]

    def __enter__(self) -> Callers:
        for each in self.all:
            each.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.all:
            each.__exit__()


def judge(bed: Bed, callers: Callers, values: frozenset[str]) -> None:
    """Every request that may pass did and met each policy once, no other arrived, and none with the marker."""
    names = names_with_status(callers.passed, 200)
    names_with_status(callers.refused, 403)
    seen = bed.services.record.all()
    assert len(seen) == len(names)
    assert {each.header("x-once") for each in seen} == {(value,) for value in values}
    assert {each.header("x-other") for each in seen} == {("1",)}
    # At rest a header of that name is one like any other.
    assert {each.header(MARKER) for each in seen} <= {(), (FORGED,)}


@NEEDS_ENVOY
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_each_request_meets_each_policy_once(tmp_path: Path, alone: None, direction: str) -> None:
    assert ENVOY is not None
    old, new = (placed(*sides) for sides in DIRECTIONS[direction])
    with Bed(old, tmp_path, ENVOY) as bed, Callers(bed) as callers:
        wait_for_answers(callers.all, AMOUNT)
        for _ in bed.follow(old, new):
            wait_for_answers(callers.all, AMOUNT)
    judge(bed, callers, frozenset("1"))


@NEEDS_ENVOY
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_request_meets_one_plan_where_policies_move_and_change(tmp_path: Path, alone: None, direction: str) -> None:
    assert ENVOY is not None
    sides = DIRECTIONS[direction]
    old, new = placed(*sides[0]), placed(*sides[1], once="2")
    with Bed(old, tmp_path, ENVOY) as bed, Callers(bed) as callers:
        wait_for_answers(callers.all, AMOUNT)
        for _ in bed.follow(old, new):
            wait_for_answers(callers.all, AMOUNT)
    judge(bed, callers, frozenset("12"))


@NEEDS_ENVOY
@pytest.mark.parametrize("turn", [StepName.SENDERS, StepName.RELEASE])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_request_sees_that_a_rollout_is_taken_back(
    tmp_path: Path, alone: None, direction: str, turn: StepName
) -> None:
    assert ENVOY is not None
    old, new = (placed(*sides) for sides in DIRECTIONS[direction])
    names = tuple(StepName)[: tuple(StepName).index(turn) + 1]
    with Bed(old, tmp_path, ENVOY) as bed, Callers(bed) as callers:
        found = steps(old, new, KEY)
        for name in bed.follow(old, new, between=names):
            wait_for_answers(callers.all, AMOUNT)
            if name is turn:
                break
        for name in names[-2::-1]:
            bed.take(found[name])
            wait_for_answers(callers.all, AMOUNT)
        bed.rest(new, old)
        wait_for_answers(callers.all, AMOUNT)
    judge(bed, callers, frozenset("1"))


@NEEDS_ENVOY
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_guard_that_changes_its_side_and_its_match_admits_one_caller_in_each_step(
    tmp_path: Path, alone: None, direction: str
) -> None:
    """Both versions at once would refuse all requests, and neither would admit all."""
    assert ENVOY is not None

    def guarded(side: str, key: str) -> Placed:
        deny = f'policy closed  = deny() on {{shop, till}} -> cart when not header("x-key") == "{key}"'
        text = PROGRAM.replace(PROGRAM.splitlines()[7], deny).replace("PORT", str(PORT)).replace("OTHER", "ingress")
        program = load_text(text.replace("SIDE", side).replace("ONCE", "1"))
        return Placed(program, place(program))

    sides = ("ingress", "egress") if direction == "to senders" else ("egress", "ingress")
    old, new = guarded(sides[0], "1"), guarded(sides[1], "2")
    with Bed(old, tmp_path, ENVOY) as bed:
        dial = bed.egress("shop", "cart")
        callers = [caller(dial, {"x-key": "1"}), caller(dial, {"x-key": "2"})]
        with callers[0], callers[1]:
            wait_for_answers(callers, AMOUNT)
            for _ in bed.follow(old, new):
                wait_for_answers(callers, 3)
                before = [len(each.answered) for each in callers]
                wait_for_answers(callers, AMOUNT)
                seen = [
                    {request.status for request in each.answered[at:]} for each, at in zip(callers, before, strict=True)
                ]
                assert sorted(map(sorted, seen)) == [[200], [403]]
        statuses = [[request.status for request in each.answered] for each in callers]
        assert statuses[0] == sorted(statuses[0])
        assert statuses[1] == sorted(statuses[1], reverse=True)


@NEEDS_ENVOY
def test_a_revocation_reaches_older_connections_whose_chain_changes(tmp_path: Path, alone: None) -> None:
    assert ENVOY is not None

    def admits(callers: str, before: str) -> Placed:
        program = load_text(
            PROGRAM.partition("policy once")[0].replace("PORT", str(PORT))
            + before
            + f"policy who = allow(callers: [{callers}]) on {{shop, till}} -> cart\npin who at egress\n"
            + "policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> cart\n"
        )
        return Placed(program, place(program))

    header = 'policy mark = set_response_header(name: "x-mark", value: "1") on {shop, till} -> cart\n'
    old, new = admits("shop, till", header + "pin mark at egress\n"), admits("shop", "")
    with Bed(old, tmp_path, ENVOY) as bed:
        dial = bed.egress("till", "cart")

        def asked(connection: http.client.HTTPConnection) -> tuple[int, bool]:
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            return answer.status, "x-mark" in answer.headers

        kept = http_connection(dial)
        assert asked(kept) == (200, True)
        bed.rest(old, new)
        time.sleep(0.2)
        # The older chain has its other filters as before.
        assert asked(kept) == (403, True)
        kept.close()
        fresh = http_connection(dial)
        assert asked(fresh) == (403, False)
        fresh.close()
