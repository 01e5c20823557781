"""A real Envoy rejects a step of a rollout: each request meets the old plan, and the next good plan goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from admc.serve.rollout.model import Placed
from admc.testbed.envoys import envoy_binary
from dsl import load
from solver.place import place
from tests.serve.rollout import envoy_bed, move
from tests.serve.server_process import served
from tests.serve.test_server import write
from tests.testbed.callers import caller, wait_for_answers
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

KIND = '@egress\nkind lane(kbps: int) for http template "lane.yaml"\n'
LANE = """
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
default_source_code: {inline_string: "assert(${kbps} > 0, 'too narrow')"}
"""
"""With 0 it fails when it runs, and only Envoy runs it."""
AMOUNT = 15


def program(side: str, kbps: int) -> str:
    """The policy `narrow` is the outermost one, so it may stay at the sender while the others move."""
    first = f"{KIND}policy narrow = lane(kbps: {kbps}) on shop -> cart\n"
    return move.text(side).replace("policy once", f"{first}policy once", 1)


def steps(events: list[dict[str, object]]) -> list[object]:
    return [event["step"] for event in events]


@pytest.mark.parametrize("aborts", [False, True])
def test_a_rejected_step_stays_until_a_good_plan_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], alone: None, aborts: bool
) -> None:
    """`aborts`: the operator takes the rollout back before."""
    (tmp_path / "lane.yaml").write_text(LANE)
    path = tmp_path / "policies.adm"
    path.write_text(program("ingress", 1))
    found = load(path)
    port = free_port()
    assert ENVOY is not None
    with (
        served(tmp_path, "policies.adm", "--mode", "explicit", "--state", "kept", xds=f"127.0.0.1:{port}") as server,
        envoy_bed.Bed(Placed(found, place(found)), tmp_path, ENVOY, port) as bed,
    ):

        def command(*words: str) -> str:
            capsys.readouterr()
            assert main([*words, "--server", f"http://{server.ops}"]) == 0
            return capsys.readouterr().out

        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed = [caller(shop, {}), caller(till, {})]
        refused = [caller(shop, {"x-out": "1"}), caller(till, {"x-out": "1"})]
        with passed[0], passed[1], refused[0], refused[1]:
            wait_for_answers([*passed, *refused], AMOUNT)
            write(path, program("egress", 0))
            server.until(lambda: "`shop`: 1 of 1 proxies refused it" in command("rollout"))
            wait_for_answers([*passed, *refused], AMOUNT)
            assert steps(server.events("rollout_step")) == ["prepare"]
            shown = command("status")
            assert "refused TypedExtensionConfig: " in shown
            assert "too narrow" in shown
            if aborts:
                assert " is aborted, and proxies go back to state " in command("rollout", "abort")
                server.until_event("rollout_over")
                time.sleep(1.0)
                assert steps(server.events("rollout_step")) == ["prepare", "plan"]
                wait_for_answers([*passed, *refused], AMOUNT)
            write(path, program("egress", 2))
            server.until(
                lambda: steps(server.events("rollout_step"))[-4:] == ["senders", "receivers", "release", "plan"]
            )
            server.until(lambda: "nothing is under way" in command("rollout"))
            wait_for_answers([*passed, *refused], AMOUNT)
        move.once(bed, passed, refused)
