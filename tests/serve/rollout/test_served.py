"""`admc serve` moves a policy under traffic, step by step, and is killed in the middle of it."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from admc.serve.files.state_dir import UNDER_WAY
from admc.testbed.envoys import envoy_binary
from tests.serve.rollout.envoy_bed import Bed
from tests.serve.rollout.move import once, phases, placed, text
from tests.serve.server_process import served
from tests.serve.test_server import write
from tests.testbed.callers import caller, wait_for_answers
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.server_process import Served

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]


WALK = ("prepare", "senders", "receivers", "release", "plan")
AMOUNT = 15
"""Requests in each step."""


def until_taken(server: Served, step: str) -> None:
    server.until(lambda: step in phases(server))


def test_a_policy_moves_though_the_server_is_killed_in_each_step(tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(text("ingress"))
    port = free_port()
    options = ("policies.adm", "--mode", "explicit", "--state", "kept")
    assert ENVOY is not None
    with ExitStack() as stack:

        def start() -> Served:
            return stack.enter_context(served(tmp_path, *options, xds=f"127.0.0.1:{port}"))

        server = start()
        bed = stack.enter_context(Bed(placed("ingress"), tmp_path, ENVOY, port))
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed = [caller(shop, {}), caller(till, {})]
        refused = [caller(shop, {"x-out": "1"}), caller(till, {"x-out": "1", "x-admc-met": "guess"})]
        with passed[0], passed[1], refused[0], refused[1]:
            wait_for_answers([*passed, *refused], AMOUNT)
            write(program, text("egress"))
            seen: list[str] = []
            for step in WALK[:-1]:
                if step not in seen:
                    until_taken(server, step)
                server.stop(signal.SIGKILL)
                seen += phases(server)
                wait_for_answers([*passed, *refused], AMOUNT)
                server = start()
            server.until_event("rollout_over")
            seen += phases(server)
            # A killed server may have published one more step than it logged. No step comes twice or in another order.
            assert seen == [step for step in WALK if step in seen]
            assert seen[-1] == "plan"
            wait_for_answers([*passed, *refused], AMOUNT)
        once(bed, passed, refused)
        server.until(lambda: not (tmp_path / "kept" / UNDER_WAY).exists())


def test_a_plan_is_taken_back_in_the_middle(tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(text("egress"))
    port = free_port()
    options = ("policies.adm", "--mode", "explicit")
    assert ENVOY is not None
    with (
        served(tmp_path, *options, xds=f"127.0.0.1:{port}") as server,
        Bed(placed("egress"), tmp_path, ENVOY, port) as bed,
    ):
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed, refused = [caller(shop, {}), caller(till, {})], [caller(shop, {"x-out": "1"})]
        with passed[0], passed[1], refused[0]:
            write(program, text("ingress"))
            server.until(lambda: "prepare" in phases(server))
            write(program, text("egress"))
            server.until_event("rollout_over")
            assert phases(server) == ["prepare", "plan"]
            assert len(server.events("rollout_undoing")) == 1
            wait_for_answers([*passed, *refused], AMOUNT)
        once(bed, passed, refused)
