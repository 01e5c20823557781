"""A small application whose policies change sides, the steps that they take, and what must have become of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from admc.transition.marker import MARKER
from admc.transition.model import Placed
from admc.transition.steps import steps
from dsl import load_text
from solver.place import place
from tests.testbed.ports import program_port
from tests.transition.bed import Bed
from tests.transition.callers import Keeper, answered, more

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.serve.server_process import Served

PORT: Final = program_port()
KEY: Final = b"a key of the server"
AMOUNT: Final = 15
"""Requests in each step."""
SIDES = pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])

PROGRAM: Final = """
app move
service shop { http PORT }
service till { http PORT }
service cart { http PORT }
call shop, till -> cart
policy once    = add_request_header(name: "x-once", value: "1") on {shop, till} -> cart
policy closed  = deny() on {shop, till} -> cart when header("x-out") == "1"
policy slow    = timeout(after: 20s) on {shop, till} -> cart
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till} -> cart
pin once at SIDE
pin closed at SIDE
"""


def text(side: str) -> str:
    return PROGRAM.replace("SIDE", side).replace("PORT", str(PORT))


def placed(side: str) -> Placed:
    program = load_text(text(side))
    return Placed(program, place(program))


BETWEEN: Final = """
app move
service shop, till { http PORT }
service cart { http web PORT }
call shop, till -> cart
POLICIES
policy breaker = circuit_breaking(max_connections: 1000) on {shop, till} -> cart
"""
"""Without redirection listeners have to be there before what moves to them: they are instead of the service's own."""


def ends(policies: str, sides: tuple[str, str]) -> tuple[Placed, Placed]:
    """Two programs with these policies; `SIDE` is where something is pinned in each."""

    def end(side: str) -> Placed:
        written = BETWEEN.replace("POLICIES", policies).replace("SIDE", side).replace("PORT", str(PORT))
        program = load_text(written)
        return Placed(program, place(program))

    return end(sides[0]), end(sides[1])


def walk(bed: Bed, ends: tuple[Placed, Placed], callers: Sequence[Keeper]) -> None:
    """Take all steps, each for some requests of every caller."""
    for step in steps(*ends, KEY):
        bed.publish(step)
        more(callers, AMOUNT)


def once(bed: Bed, passed: Sequence[Keeper], refused: Sequence[Keeper]) -> None:
    """Every request that may pass did and met the policy `once` once, no other arrived, and none with the marker."""
    names = answered(passed, 200)
    answered(refused, 403)
    seen = bed.services.record.all()
    assert len(seen) == len(names)
    assert {each.header("x-once") for each in seen} == {("1",)}
    assert not any(each.header(MARKER) for each in seen)


def phases(server: Served) -> list[str]:
    """The steps that a server has taken, by its log."""
    return [event["phase"] for event in server.events("transition_step")]
