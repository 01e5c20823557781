"""Steps and waits of a change, as docs/rollout.md has them."""

from __future__ import annotations

import dsl
from admc.review.diff.model import Steps
from admc.review.diff.steps import steps_of
from admc.serve.rollout.model import Placed
from solver.place import place
from tests.review.diff.test_causes import HOTEL, MORE_CALLERS, changed


def placed(text: str) -> Placed:
    program = dsl.load_text(text)
    return Placed(program, place(program))


def steps(base: str, head: str) -> Steps:
    return steps_of(placed(base), placed(head))


def test_no_change_takes_no_step() -> None:
    assert steps(HOTEL, HOTEL + "// a comment\n") == Steps(0, 0, None)


def test_an_argument_is_published_at_once() -> None:
    assert steps(HOTEL, changed(HOTEL, ("requests: 90,", "requests: 900,"))) == Steps(1, 0, None)


def test_a_policy_that_changes_sides_takes_four_steps_and_one_wait() -> None:
    assert steps(HOTEL, changed(HOTEL, *MORE_CALLERS)) == Steps(4, 1, None)


def test_where_no_steps_are_safe_the_reason_is_given() -> None:
    text = """app shop
service web, api { http 80 }
call web -> api
policy one = set_request_header(name: "x-a", value: "b") on web -> api
policy two = access_log() on web -> api
"""
    found = steps(text + "pin one at ingress\npin two at egress\n", text + "pin one at egress\npin two at ingress\n")
    assert found.steps == 0
    assert found.refused is not None
    assert "`one` goes to the senders" in found.refused
