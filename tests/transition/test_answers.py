"""What is done to answers is done on every connection, however old, when policies come before it in the chain."""

from __future__ import annotations

import http.client
import threading
from typing import TYPE_CHECKING

import pytest

from admc.transition.steps import steps
from tests.testbed.envoys import envoy_binary
from tests.transition.bed import Bed
from tests.transition.test_kinds import SIDES, ends
from tests.transition.test_moves import KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.transition.bed import Dial

ENVOY = envoy_binary()
pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

ANSWERS = """
policy slow    = timeout(after: 20s) on {shop, till} -> cart:web
policy moved   = deny() on shop -> cart:web when header("x-out") == "1"
policy answers = set_response_header(name: "x-answer", value: "1") on shop -> cart:web
pin moved at SIDE
pin answers at ingress
"""


class Asking:
    """Asks again and again on a connection that it keeps, and notes a header of the answers."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._stop = threading.Event()
        self.seen: list[str | None] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.wait(0.01):
            if connection is None:
                connection = http.client.HTTPConnection("cart", timeout=10)
                connection.sock = self._dial()
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            self.seen.append(answer.getheader("x-answer"))
            if answer.will_close:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()


@SIDES
def test_older_connections_keep_what_is_done_to_answers(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(ANSWERS, sides, tmp_path)
    assert ENVOY is not None
    with Bed(both[0], tmp_path, ENVOY) as bed, Asking(bed.egress("shop", "cart")) as caller:
        for step in steps(*both, KEY):
            bed.publish(step)
    assert len(caller.seen) > len(steps(*both, KEY))
    assert set(caller.seen) == {"1"}
