"""Policies change sides under constant traffic: every request meets them once."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from admc.transition.model import Placed
from admc.transition.steps import steps
from dsl import load_text
from solver.place import place
from tests.testbed.envoys import envoy_binary
from tests.transition.bed import Bed, Http2Keeper, Keeper

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
PORT = 20_000 + os.getpid() % 8_000
"""Others may run a bed on the same loopback addresses at the same time."""
KEY = b"a key of the server"

PROGRAM = """
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


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_every_request_meets_a_policy_once(sides: tuple[str, str], tmp_path: Path) -> None:
    old, new = placed(sides[0]), placed(sides[1])
    assert ENVOY is not None
    with Bed(old, tmp_path, ENVOY) as bed:
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        walked = steps(old, new, KEY)
        # Even an application that has learnt the secret cannot use it: its ADM takes the marker away.
        (secret,) = walked[0].secrets
        with (
            Keeper(shop, {}) as first,
            Http2Keeper(till, {}) as second,
            Http2Keeper(shop, {"x-out": "1"}) as out,
            Keeper(till, {"x-out": "1", "x-admc-met": secret}) as forged,
        ):
            for step in walked:
                before = len(first.answers)
                bed.publish(step)
                until = time.monotonic() + 10
                while len(first.answers) < before + 20:
                    assert time.monotonic() < until
                    time.sleep(0.01)
        passed = [answer for keeper in (first, second) for answer in keeper.answers]
        refused = [answer for keeper in (out, forged) for answer in keeper.answers]
        assert {status for _, status, _ in passed} == {200}, [a for a in passed if a[1] != 200][:5]
        assert {status for _, status, _ in refused} == {403}, [a for a in refused if a[1] != 403][:5]
        seen = bed.services.record.all()
        assert len(seen) == len(passed)
        assert {each.header("x-once") for each in seen} == {("1",)}
        assert not any(each.header("x-admc-met") for each in seen)


QUOTA = """
app move
service shop { http PORT }
service cart { http PORT }
call shop -> cart
policy few     = rate_limit(requests: 20, per: 1h) on shop -> cart
policy slow    = timeout(after: 20s) on shop -> cart
policy breaker = circuit_breaking(max_requests: 1000) on shop -> cart
pin few at SIDE
"""


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_a_quota_is_enforced_throughout_and_starts_with_one_more_bucket_at_most(
    sides: tuple[str, str], tmp_path: Path
) -> None:
    ends = []
    for side in sides:
        program = load_text(QUOTA.replace("SIDE", side).replace("PORT", str(PORT)))
        ends.append(Placed(program, place(program)))
    assert ENVOY is not None
    with Bed(ends[0], tmp_path, ENVOY) as bed, Keeper(bed.egress("shop", "cart"), {}, 0.02) as caller:
        admitted = []
        for step in steps(ends[0], ends[1], KEY):
            bed.publish(step)
            before = len(caller.answers)
            until = time.monotonic() + 20
            while len(caller.answers) < before + 50:
                assert time.monotonic() < until
                time.sleep(0.01)
            admitted.append(len(bed.services.record.all()))
    # The first bucket was empty all the time; the second one begins full, at its new side, and is not filled again.
    assert admitted[0] == 20
    assert admitted[-1] == 40
    assert {status for _, status, _ in caller.answers} == {200, 429}
