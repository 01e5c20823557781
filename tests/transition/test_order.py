"""What does not move and what does are met in the order in which they were declared, in every step and on every way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from tests.transition.bed import Bed
from tests.transition.callers import Answers, Http2Keeper, Keeper, answered
from tests.transition.move import SIDES, ends, walk

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

ORDER = """
policy one   = add_request_header(name: "x-way", value: "one") on {shop, till} -> cart:web
policy back1 = add_response_header(name: "x-back", value: "one") on {shop, till} -> cart:web
policy two   = add_request_header(name: "x-way", value: "two") on {shop, till} -> cart:web
policy back2 = add_response_header(name: "x-back", value: "two") on {shop, till} -> cart:web
policy stop  = deny() on {shop, till} -> cart:web when header("x-stop") == "1"
policy go    = set_request_header(name: "x-stop", value: "1") on {shop, till} -> cart:web
policy three = add_request_header(name: "x-way", value: "three") on {shop, till} -> cart:web
policy back3 = add_response_header(name: "x-back", value: "three") on {shop, till} -> cart:web
policy last  = deny() on {shop, till} -> cart:web when not header("x-stop") == "1"
policy four  = add_request_header(name: "x-way", value: "four") on {shop, till} -> cart:web
policy back4 = add_response_header(name: "x-back", value: "four") on {shop, till} -> cart:web
pin one at egress
pin back1 at egress
pin two at SIDE
pin back2 at SIDE
pin stop at SIDE
pin go at SIDE
pin three at SIDE
pin back3 at SIDE
pin last at ingress
pin four at ingress
pin back4 at ingress
"""
NAMES = ("one", "two", "three", "four")


@SIDES
def test_declared_order_holds_in_every_step(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(ORDER, sides)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed:
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed = [Keeper(shop, {"x-who": "1"}), Http2Keeper(till, {"x-who": "1"})]
        refused = [Keeper(till, {"x-stop": "1"}), Http2Keeper(shop, {"x-stop": "1"})]
        answers = [Answers(shop, "x-back", {}), Answers(till, "x-back", {}, keeps=False)]
        turned = Answers(shop, "x-back", {"x-stop": "1"})
        with passed[0], passed[1], refused[0], refused[1], answers[0], answers[1], turned:
            walk(bed, both, [*passed, *refused])
        names = answered(passed, 200)
        answered(refused, 403)
        arrived = bed.services.record.all()
        assert {each.header("x-way") for each in arrived} == {NAMES}
        # Each once, and none that was refused.
        counted = sum(len(each.answers) for each in answers)
        assert sorted(each.header("x-echo-id")[0] for each in arrived if each.header("x-who")) == sorted(names)
        assert len(arrived) == len(names) + counted
        # On the way back the order is the other one, and a refusal passes only what is outside of who refuses.
        assert {seen for each in answers for seen in each.answers} == {(200, NAMES[::-1])}
        assert set(turned.answers) == {(403, ("two", "one"))}
