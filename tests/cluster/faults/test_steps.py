"""A step that is taken twice is found, in what is stored, in what is announced, and in what proxies are to have."""

from __future__ import annotations

from dataclasses import replace

from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import STEPS, Holding, Label, RolloutState
from tests.cluster.faults.steps import Announced, Wanted, taken_twice

SECRET = bytes(32)
BEFORE = RolloutState(Label("a"), (Holding(Label("a"), frozenset()),), moves=3, secret=SECRET)
MOVE = [
    BEFORE,
    replace(BEFORE, queued="b"),
    *(replace(BEFORE, now=Label("a", "b", step, 4), moves=4) for step in STEPS),
    replace(BEFORE, now=Label("b"), moves=4),
]
ANNOUNCED = [Announced("one", step) for step in ("prepare", "senders", "receivers", "release", "plan")]


def test_a_move_in_order_is_none() -> None:
    assert taken_twice(MOVE, ANNOUNCED) == []


def test_a_server_may_go_on_where_another_one_was() -> None:
    announced = [*ANNOUNCED[:2], *(Announced("two", each.step) for each in ANNOUNCED[2:])]
    assert taken_twice([*MOVE[:4], MOVE[3], *MOVE[4:]], announced) == []


def test_a_step_that_is_stored_after_its_successor_is_found() -> None:
    found = taken_twice([*MOVE[:5], MOVE[3], *MOVE[4:]], ANNOUNCED)
    assert found == ["`senders` was stored after `receivers`"]


def test_a_step_that_is_left_out_is_found() -> None:
    assert taken_twice([*MOVE[:3], *MOVE[4:]], ANNOUNCED)[0] == "`receivers` was stored after `prepare`"


def test_a_move_that_begins_anew_is_found() -> None:
    again = [replace(each, now=replace(each.now, move=5)) for each in MOVE[2:6]]
    assert taken_twice([*MOVE[:4], BEFORE, *again, MOVE[-1]], ANNOUNCED)[0] == "`plan` was stored after `senders`"
    anew = [replace(each, secret=bytes([1] * 32)) for each in MOVE[3:]]
    assert taken_twice([*MOVE[:3], *anew], ANNOUNCED) == ["the rollout was begun anew, with another secret"]


def test_another_move_has_another_number() -> None:
    same = [replace(each, now=replace(each.now, move=3)) for each in MOVE[2:3]]
    assert taken_twice([*MOVE[:2], *same], []) == ["`prepare` was stored after `plan`"]


def test_a_step_that_two_servers_announce_is_found() -> None:
    announced = [*ANNOUNCED[:2], Announced("two", "senders"), *ANNOUNCED[2:]]
    assert taken_twice(MOVE, announced) == ["two announced `senders` after one had announced `senders`"]
    late = [*ANNOUNCED[:3], Announced("two", "senders"), *ANNOUNCED[3:]]
    assert taken_twice(MOVE, late) == ["two announced `senders` after one had announced `receivers`"]


def test_a_step_that_was_not_stored_is_found() -> None:
    assert taken_twice(MOVE[:3], ANNOUNCED[:2]) == ["one announced `senders`, which was not stored"]


def test_a_way_back_is_found() -> None:
    announced = [*ANNOUNCED[:2], Announced("one", "prepare", back=True)]
    assert "one took the move back at `prepare`" in taken_twice(MOVE[:4], announced)


def test_a_step_with_another_content_is_found() -> None:
    one = Wanted("one", StepName.SENDERS, "web", (("RouteConfiguration", "1"),))
    other = one._replace(server="two", content=(("RouteConfiguration", "2"),))
    assert taken_twice(MOVE, ANNOUNCED, [one, one._replace(server="two")]) == []
    assert taken_twice(MOVE, ANNOUNCED, [one, other]) == ["`senders` of `web` is not the same at one and two"]
    # A look may come between a step and its announcement.
    assert taken_twice(MOVE, ANNOUNCED, [one, one, other._replace(server="one")]) == []
    # What older connections need is there for a while.
    assert taken_twice(MOVE, ANNOUNCED, [each._replace(step="prepare") for each in (one, other)]) == []
