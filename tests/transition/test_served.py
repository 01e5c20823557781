"""`admc serve` moves a policy under traffic, step by step, and is killed in the middle of it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.serve.serving import served
from tests.testbed.envoys import envoy_binary
from tests.transition.bed import DRAIN_SECONDS, Bed, Keeper, free_port
from tests.transition.test_moves import placed, text

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.serving import Served

ENVOY = envoy_binary()
pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")


def phases(server: Served) -> list[str]:
    return [event["phase"] for event in server.events("transition_step")]


def once(bed: Bed, passed: list[Keeper], refused: list[Keeper]) -> None:
    """Every request that may pass did and met the policy once, and no other arrived."""
    answers = [answer for keeper in passed for answer in keeper.answers]
    assert {status for _, status, _ in answers} == {200}, [a for a in answers if a[1] != 200][:5]
    turned = [answer for keeper in refused for answer in keeper.answers]
    assert {status for _, status, _ in turned} == {403}, [a for a in turned if a[1] != 403][:5]
    seen = bed.services.record.all()
    assert len(seen) == len(answers)
    assert {each.header("x-once") for each in seen} == {("1",)}
    assert not any(each.header("x-admc-met") for each in seen)


@pytest.mark.parametrize("killed_at", ["", "prepare", "senders", "receivers", "release", "final"])
def test_a_policy_moves_whoever_kills_the_server(killed_at: str, tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(text("ingress"))
    port = free_port()
    xds = f"127.0.0.1:{port}"
    options = ("policies.adm", "--mode", "explicit", "--state", "kept", "--drain", str(DRAIN_SECONDS))
    assert ENVOY is not None
    with served(tmp_path, *options, xds=xds) as server, Bed(placed("ingress"), tmp_path, ENVOY, port) as bed:
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed = [Keeper(shop, {}), Keeper(till, {})]
        refused = [Keeper(shop, {"x-out": "1"}), Keeper(till, {"x-out": "1", "x-admc-met": "guess"})]
        with passed[0], passed[1], refused[0], refused[1]:
            time.sleep(0.5)
            program.write_text(text("egress"))
            if killed_at:
                server.until(lambda: killed_at in phases(server))
                server.stop(signal.SIGKILL)
                time.sleep(0.5)
                with served(tmp_path, *options, xds=xds) as again:
                    again.until_event("transition_over")
                    assert phases(again)[0] == killed_at
            else:
                server.until_event("transition_over")
                assert phases(server) == ["announce", "prepare", "senders", "receivers", "release", "final", "clean"]
            time.sleep(0.5)
        once(bed, passed, refused)
        assert not (tmp_path / "kept" / "transition.json").exists()


def test_a_plan_is_taken_back_in_the_middle(tmp_path: Path) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(text("egress"))
    port = free_port()
    options = ("policies.adm", "--mode", "explicit", "--drain", str(DRAIN_SECONDS))
    assert ENVOY is not None
    with (
        served(tmp_path, *options, xds=f"127.0.0.1:{port}") as server,
        Bed(placed("egress"), tmp_path, ENVOY, port) as bed,
    ):
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed, refused = [Keeper(shop, {}), Keeper(till, {})], [Keeper(shop, {"x-out": "1"})]
        with passed[0], passed[1], refused[0]:
            program.write_text(text("ingress"))
            server.until(lambda: "prepare" in phases(server))
            program.write_text(text("egress"))
            server.until(lambda: phases(server)[-1] == "announce" and len(phases(server)) > 2)
            server.until(lambda: server.events("transition_undone"))
            time.sleep(0.5)
        once(bed, passed, refused)
