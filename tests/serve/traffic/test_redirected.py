"""Redirection that is loaded when the server asks for it, and replicas among which a sender's ADM chooses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from admc.transition.model import Phase
from tests.serve.traffic.pod_bed import SPREAD, PodBed
from tests.serve.traffic.programs import EGRESS, INGRESS, Variant
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_MESH

AT_SENDERS = Variant(cart=EGRESS)


def asked(bed: PodBed, service: str) -> None:
    """The server waits for redirection of a service."""
    bed.until_step(Phase.PREPARE)
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
        kept = bed.pods.open_connections("shop/0")
        bed.server.until(lambda: "its interception" in bed.server.status()["server"]["why"])
        cut = time.monotonic()
        bed.pods.load_asked("cart", *receivers)
        loaded = time.monotonic()
        bed.pods.confirm("cart")
        bed.over()
        # And back: the sender's redirection is still there.
        bed.write(replace(bed.variant, cart=EGRESS, once="3"))
        asked(bed, "shop")
        bed.pods.confirm("shop")
        bed.over()
        bed.join("cart/2")
        for pod in receivers:
            bed.leave(pod)
        time.sleep(0.5)
        bed.quiet()
        verdict = bed.verdict()
    assert verdict.unenforced == []
    # Whatever was open when rules were loaded is reset, and fails no more than the request that it is used for next.
    assert len(verdict.failed) <= kept, (cut, loaded, verdict.failed)
    assert all(cut - 1 <= float(each.partition(" ")[0]) <= loaded + 2 for each in verdict.failed), verdict.failed


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
