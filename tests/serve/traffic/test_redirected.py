"""Redirection that is loaded when the server requests it, and replicas among which the ADM of a sender chooses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.serve.rollout.model import StepName
from tests.serve.traffic.judge import Cut
from tests.serve.traffic.pod_bed import SPREAD, PodBed, specs
from tests.serve.traffic.programs import EGRESS, INGRESS, Variant
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, NEEDS_MESH]

AT_SENDERS = Variant(cart=EGRESS)


def wait_for_requested_redirection(bed: PodBed, service: str) -> None:
    """Wait until the server waits for the redirection of a service."""
    bed.until_step(StepName.PREPARE)
    bed.server.until(lambda: service in bed.pods.unconfirmed())


def test_replicas_start_and_end_while_a_sender_chooses_among_them(tmp_path: Path) -> None:
    with PodBed(tmp_path, ("shop/0", "cart/0"), extra=SPREAD, first=AT_SENDERS) as bed:

        def reach(replica: int) -> bool:
            before = count(replica)
            time.sleep(0.3)
            return count(replica) > before

        def count(replica: int) -> int:
            return sum(each.place == f"cart/{replica}" for each in bed.mesh.arrivals("cart"))

        bed.server.until(lambda: reach(0))
        assert not reach(1)
        bed.join("cart/1")
        bed.server.until(lambda: reach(0) and reach(1))
        bed.leave("cart/0")
        assert not reach(0)
        # Another argument, while the server is away.
        bed.kill_server()
        bed.write(replace(bed.variant, once="2"))
        bed.serve()
        bed.wait_until_in_force()
        bed.stop_callers()
        verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])


def test_pods_that_are_not_ready_receive_requests_only_if_no_pod_is_ready(tmp_path: Path) -> None:
    with PodBed(tmp_path, ("shop/0", "cart/0", "cart/1"), extra=SPREAD, first=AT_SENDERS) as bed:

        def reached(count: int = 30) -> set[str]:
            """The pods that receive the next requests, of so many at least."""
            before = len(bed.mesh.arrivals("cart"))
            bed.server.until(lambda: len(bed.mesh.arrivals("cart")) >= before + count)
            now = time.monotonic()
            return {each.place for each in bed.mesh.arrivals("cart") if began <= each.at <= now}

        began = time.monotonic()
        bed.server.until(lambda: reached() == {"cart/0", "cart/1"})
        for unready, ready in (
            (("cart/1",), {"cart/0"}),
            # Envoy sends to pods that are not ready if there are no others.
            (("cart/0", "cart/1"), {"cart/0", "cart/1"}),
            ((), {"cart/0", "cart/1"}),
        ):
            bed.unready(*unready)
            began = time.monotonic()
            if len(ready) == 2:
                bed.server.until(lambda: reached() == {"cart/0", "cart/1"})
            assert reached() == ready
        bed.stop_callers()
        verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])
    assert verdict.requests > 200


def test_running_pods_of_a_service_get_an_adm_and_lose_it_when_they_are_replaced(tmp_path: Path) -> None:
    receivers = ("cart/0", "cart/1")
    with PodBed(
        tmp_path, ("shop/0", *receivers), extra="", first=AT_SENDERS, without_proxy=(*receivers, "cart/2")
    ) as bed:
        bed.write(replace(bed.variant, cart=INGRESS, once="2"))
        wait_for_requested_redirection(bed, "cart")
        for pod in receivers:
            bed.add_proxy(pod)
        bed.server.until(lambda: "its interception" in bed.server.status()["server"]["why"])
        # Loading rules resets open connections. The ADM of the sender sees the reset when it sends the next request.
        opened, before = bed.pods.connections("shop/0")
        loading = time.monotonic()
        bed.pods.load_requested("cart", *receivers)
        reset = opened + bed.pods.connections("shop/0")[1] - before
        bed.pods.confirm("cart")
        bed.wait_until_at_rest()
        bed.timeline.cuts.append(Cut(frozenset(receivers), loading, time.monotonic(), 503))
        # And back: the redirection of the sender is still loaded. Meanwhile its ADM has passed connections on as bytes,
        # so it cannot send a GOAWAY on them.
        passed = time.monotonic()
        bed.write(replace(bed.variant, cart=EGRESS, once="3"))
        wait_for_requested_redirection(bed, "shop")
        bed.until_acknowledged()
        newer = time.monotonic()
        bed.pods.confirm("shop")
        bed.wait_until_at_rest()
        bed.timeline.cuts.append(Cut(frozenset({"shop/0"}), passed, time.monotonic(), None, newer))
        bed.join("cart/2")
        for pod in receivers:
            bed.leave(pod)
        time.sleep(0.5)
        bed.stop_callers()
        verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])
    assert verdict.cut[503] <= reset
    assert verdict.cut[None] <= sum(keep for _, keep in specs()) * len(receivers)


def test_a_service_gets_an_adm_when_its_pods_are_replaced(tmp_path: Path) -> None:
    before = ("cart/0", "cart/1")
    with PodBed(tmp_path, ("shop/0", *before), extra="", first=AT_SENDERS, without_proxy=before) as bed:
        bed.write(replace(bed.variant, cart=INGRESS, once="2"))
        wait_for_requested_redirection(bed, "cart")
        bed.join("cart/2")
        for pod in before:
            bed.leave(pod)
        bed.server.until(lambda: "its interception" in bed.server.status()["server"]["why"])
        bed.pods.confirm("cart")
        bed.wait_until_at_rest()
        wrong = bed.update_rejections()
        bed.stop_callers()
        verdict = bed.verdict()
    assert (wrong, verdict.failed, verdict.unenforced) == ([], [], [])
