"""Redirection that is loaded when the server asks for it, and replicas among which a sender's ADM chooses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.rollout.model import StepName
from tests.serve.traffic.judge import Cut
from tests.serve.traffic.pod_bed import SPREAD, PodBed, asks
from tests.serve.traffic.programs import EGRESS, INGRESS, Variant
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, NEEDS_MESH]

AT_SENDERS = Variant(cart=EGRESS)


def asked(bed: PodBed, service: str) -> None:
    """The server waits for redirection of a service."""
    bed.until_step(StepName.PREPARE)
    bed.server.until(lambda: service in bed.pods.asked())


def test_replicas_come_and_go_while_a_sender_chooses_among_them(tmp_path: Path) -> None:
    with PodBed(tmp_path, ("shop/0", "cart/0"), more=SPREAD, first=AT_SENDERS) as bed:

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
        bed.settle()
        bed.quiet()
        verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])


def test_pods_that_are_not_ready_get_no_requests_and_those_that_were_told_so_get_them_again(tmp_path: Path) -> None:
    with PodBed(tmp_path, ("shop/0", "cart/0", "cart/1"), more=SPREAD, first=AT_SENDERS) as bed:

        def reached(count: int = 30) -> set[str]:
            """Who gets the next requests, of so many at least."""
            before = len(bed.mesh.arrivals("cart"))
            bed.server.until(lambda: len(bed.mesh.arrivals("cart")) >= before + count)
            now = time.monotonic()
            return {each.place for each in bed.mesh.arrivals("cart") if began <= each.at <= now}

        began = time.monotonic()
        bed.server.until(lambda: reached() == {"cart/0", "cart/1"})
        for unready, ready in (
            (("cart/1",), {"cart/0"}),
            # Whoever has nobody else still asks these.
            (("cart/0", "cart/1"), {"cart/0", "cart/1"}),
            ((), {"cart/0", "cart/1"}),
        ):
            bed.unready(*unready)
            began = time.monotonic()
            if len(ready) == 2:
                bed.server.until(lambda: reached() == {"cart/0", "cart/1"})
            assert reached() == ready
        bed.quiet()
        verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])
    assert verdict.requests > 200


def test_a_service_gets_an_adm_in_pods_that_run_and_loses_it_with_its_pods(tmp_path: Path) -> None:
    receivers = ("cart/0", "cart/1")
    with PodBed(tmp_path, ("shop/0", *receivers), more="", first=AT_SENDERS, bare=(*receivers, "cart/2")) as bed:
        bed.write(replace(bed.variant, cart=INGRESS, once="2"))
        asked(bed, "cart")
        for pod in receivers:
            bed.equip(pod)
        bed.server.until(lambda: "its interception" in bed.server.status()["server"]["why"])
        # What is open when rules are loaded is reset. The sender's ADM learns of it by the request that it sends next.
        opened, before = bed.pods.connections("shop/0")
        loading = time.monotonic()
        bed.pods.load_asked("cart", *receivers)
        reset = opened + bed.pods.connections("shop/0")[1] - before
        bed.pods.confirm("cart")
        bed.over()
        bed.timeline.cuts.append(Cut(frozenset(receivers), loading, time.monotonic(), 503))
        # And back: the sender's redirection is still there. Meanwhile connections have passed its ADM untouched, and it
        # cannot tell callers to close them.
        passed = time.monotonic()
        bed.write(replace(bed.variant, cart=EGRESS, once="3"))
        asked(bed, "shop")
        bed.until_acknowledged()
        newer = time.monotonic()
        bed.pods.confirm("shop")
        bed.over()
        bed.timeline.cuts.append(Cut(frozenset({"shop/0"}), passed, time.monotonic(), None, newer))
        bed.join("cart/2")
        for pod in receivers:
            bed.leave(pod)
        time.sleep(0.5)
        bed.quiet()
        verdict = bed.verdict()
    assert (verdict.failed, verdict.unenforced) == ([], [])
    assert verdict.cut[503] <= reset
    assert verdict.cut[None] <= sum(keep for _, keep in asks()) * len(receivers)


def test_a_service_gets_an_adm_when_its_pods_are_replaced(tmp_path: Path) -> None:
    before = ("cart/0", "cart/1")
    with PodBed(tmp_path, ("shop/0", *before), more="", first=AT_SENDERS, bare=before) as bed:
        bed.write(replace(bed.variant, cart=INGRESS, once="2"))
        asked(bed, "cart")
        bed.join("cart/2")
        for pod in before:
            bed.leave(pod)
        bed.server.until(lambda: "its interception" in bed.server.status()["server"]["why"])
        bed.pods.confirm("cart")
        bed.over()
        wrong = bed.refused()
        bed.quiet()
        verdict = bed.verdict()
    assert (wrong, verdict.failed, verdict.unenforced) == ([], [], [])
