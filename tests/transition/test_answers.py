"""What is done to answers is done on every connection, however old, when policies come before it in the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from admc.transition.steps import steps
from tests.transition.bed import Bed
from tests.transition.callers import Answers, more
from tests.transition.move import AMOUNT, KEY, SIDES, ends

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

ANSWERS = """
policy slow    = timeout(after: 20s) on {shop, till} -> cart:web
policy moved   = deny() on shop -> cart:web when header("x-out") == "1"
policy answers = set_response_header(name: "x-answer", value: "1") on shop -> cart:web
pin moved at SIDE
pin answers at ingress
"""


@SIDES
def test_older_connections_keep_what_is_done_to_answers(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(ANSWERS, sides)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed, Answers(bed.egress("shop", "cart"), "x-answer", {}) as caller:
        more([caller], AMOUNT)
        for step in steps(*both, KEY):
            bed.publish(step)
            more([caller], AMOUNT)
    assert set(caller.answers) == {(200, ("1",))}
