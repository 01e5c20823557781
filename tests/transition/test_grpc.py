"""gRPC calls while policies change sides: on connections that are kept, with statuses of gRPC, and from a stranger."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from admc.testbed.envoys import envoy_binary
from admc.transition.marker import MARKER
from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load_text
from solver.place import place
from tests.transition.bed import Bed
from tests.transition.callers import SECONDS, GrpcKeeper, answered, more
from tests.transition.move import AMOUNT, KEY, PORT, SIDES

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

PERMISSION_DENIED, RESOURCE_EXHAUSTED = 7, 8
QUOTA: Final = 10
STRANGER: Final = "127.255.254.253"
"""No service and no outside party has this address."""
BESIDE: Final = {"ingress": (Phase.ANNOUNCE, Phase.SENDERS), "egress": (Phase.RECEIVERS, Phase.CLEAN)}
"""From which step on, and up to which, the ingress keeps strangers out; by the side from where policies move."""
PROGRAM: Final = f"""
app move
service shop, till, cart {{ grpc {PORT} }}
call shop, till -> cart
policy known   = allow(callers: [shop, till]) on * -> cart
policy few     = rate_limit(requests: {QUOTA}, per: 1h) on shop -> cart when header("x-few") == "1"
policy once    = add_request_header(name: "x-once", value: "1") on {{shop, till}} -> cart
policy closed  = deny() on {{shop, till}} -> cart when header("x-out") == "1"
pin known at SIDE
pin few at SIDE
pin once at SIDE
pin closed at SIDE
policy slow    = timeout(after: 20s) on {{shop, till}} -> cart
policy breaker = circuit_breaking(max_requests: 1000) on {{shop, till}} -> cart
"""


def placed(side: str) -> Placed:
    program = load_text(PROGRAM.replace("SIDE", side))
    return Placed(program, place(program))


def forged(old: Placed, new: Placed) -> list[str]:
    """What somebody may take for the marker's value: also that of another transition, and parts of this one's."""
    (secret,) = steps(old, new, KEY)[0].secrets
    (other,) = steps(old, new, b"another key")[0].secrets
    return ["", "1", "0" * 64, other, secret[:-1], secret.upper(), f"{secret}, {secret}"]


@SIDES
def test_calls_meet_what_moves_once_and_strangers_stay_out(sides: tuple[str, str], tmp_path: Path) -> None:
    old, new = placed(sides[0]), placed(sides[1])
    assert ENVOY is not None
    with Bed(old, tmp_path, ENVOY) as bed:
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        address = bed.addresses.service_addresses("cart")[0]
        passed = [GrpcKeeper(shop, {}), GrpcKeeper(till, {MARKER: "1"})]
        refused = [GrpcKeeper(shop, {"x-out": "1"}), GrpcKeeper(till, {"x-out": "1"})]
        counted = [GrpcKeeper(shop, {"x-few": "1"})]
        strangers = [
            GrpcKeeper(lambda: socket.create_connection((address, PORT), SECONDS, (STRANGER, 0)), {MARKER: value}, 0.05)
            for value in forged(old, new)
        ]
        # Before the ingress lets go, or once it has taken over: in between a NetworkPolicy has to keep strangers out.
        begins, ends = BESIDE[sides[0]]
        with ExitStack() as stack, ExitStack() as outside:
            for keeper in (*passed, *refused, *counted):
                stack.enter_context(keeper)
            for step in steps(old, new, KEY):
                bed.publish(step)
                if step.phase is begins:
                    for keeper in strangers:
                        outside.enter_context(keeper)
                more([*passed, *refused, *counted], AMOUNT)
                if step.phase is ends:
                    more(strangers, 5)
                    outside.close()
        names = answered(passed, 0)
        answered(refused, PERMISSION_DENIED)
        answered(strangers, PERMISSION_DENIED)
        statuses = Counter(status for _, status, _ in counted[0].answers)
        assert statuses.keys() == {0, RESOURCE_EXHAUSTED}
        assert statuses[0] == 2 * QUOTA  # each side's bucket was full once
        seen = bed.services.record.all()
        assert len(seen) == len(names) + statuses[0]
        assert {each.header("x-once") for each in seen} == {("1",)}
        # Where nothing moves, what an application sends under the name is a header as any other.
        assert {each.header(MARKER) for each in seen} <= {(), ("1",)}
        assert {each.protocol for each in seen} == {"grpc"}
