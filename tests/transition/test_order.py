"""What does not move and what does are met in the order in which they were declared, in every step and on every way."""

from __future__ import annotations

import threading
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from tests.testbed.envoys import envoy_binary
from tests.transition.bed import Bed, Http2Keeper, Keeper
from tests.transition.test_kinds import SIDES, ends, walk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.transition.bed import Dial

ENVOY = envoy_binary()
pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

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


class Answers:
    """A caller that notes in which order its answers met policies: on a connection that it keeps, or new ones."""

    def __init__(self, dial: Dial, headers: dict[str, str], *, keeps: bool) -> None:
        self._dial, self._headers, self._keeps = dial, headers, keeps
        self._stop = threading.Event()
        self.seen: list[tuple[int, tuple[str, ...]]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Answers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        connection: HTTPConnection | None = None
        while not self._stop.wait(0.01):
            if connection is None:
                connection = HTTPConnection("cart", timeout=10)
                connection.sock = self._dial()
            connection.request("GET", "/", headers=self._headers)
            answer = connection.getresponse()
            answer.read()
            self.seen.append((answer.status, tuple(answer.headers.get_all("x-back", ()))))
            if answer.will_close or not self._keeps:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()


@SIDES
def test_declared_order_holds_in_every_step(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(ORDER, sides, tmp_path)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed:
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        passed = [Keeper(shop, {}), Http2Keeper(till, {})]
        refused = Keeper(till, {"x-stop": "1"})
        answers = [Answers(shop, {}, keeps=True), Answers(till, {}, keeps=False)]
        turned = Answers(shop, {"x-stop": "1"}, keeps=True)
        with passed[0], passed[1], refused, answers[0], answers[1], turned:
            walk(bed, both, [*passed, refused])
        assert {answer[1] for keeper in passed for answer in keeper.answers} == {200}
        assert {answer[1] for answer in refused.answers} == {403}
        assert {each.header("x-way") for each in bed.services.record.all()} == {NAMES}
        # On the way back the order is the other one, and a refusal passes only what is outside of who refuses.
        assert {seen for each in answers for seen in each.seen} == {(200, NAMES[::-1])}
        assert set(turned.seen) == {(403, ("two", "one"))}
