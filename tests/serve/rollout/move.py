"""A small application whose policies change sides, and the check of all its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from admc.serve.rollout.marker import MARKER
from admc.serve.rollout.model import Placed
from dsl import load_text
from solver.place import place
from tests.serve.rollout.envoy_bed import Bed
from tests.testbed.callers import names_with_status
from tests.testbed.ports import program_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.serve.server_process import Served
    from tests.testbed.callers import Caller

PORT: Final = program_port()
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


def once(bed: Bed, passed: Sequence[Caller], refused: Sequence[Caller]) -> None:
    """Each request that may pass has passed and met `once` exactly once; no other arrived, and none with the marker."""
    names = names_with_status(passed, 200)
    names_with_status(refused, 403)
    seen = bed.services.record.all()
    assert len(seen) == len(names)
    assert {each.header("x-once") for each in seen} == {("1",)}
    assert not any(each.header(MARKER) for each in seen)


def phases(server: Served) -> list[str]:
    """The steps that a server has taken, by its log."""
    return [event["step"] for event in server.events("rollout_step")]
