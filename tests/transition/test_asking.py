"""Real proxies that ask services by themselves, while what these enforce on the askers changes sides."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from admc.transition.marker import MARKER
from admc.transition.model import Placed
from dsl import load_text
from emitters.addresses.dialing import sender
from solver.place import place
from tests.transition.bed import Bed
from tests.transition.callers import Dial, Keeper, answered
from tests.transition.move import PORT, walk

if TYPE_CHECKING:
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

APP = f"""
app asking
service shop, cart, depot, judge, clerk {{ http {PORT} }}
call shop -> cart, depot
call cart -> judge
call depot -> clerk
policy told  = add_request_header(name: "x-told", value: "1") on cart -> judge
policy noted = add_request_header(name: "x-noted", value: "1") on depot -> clerk
"""
BUSY = "policy busy = circuit_breaking(max_requests: 1000) on * -> *\n"
"""Without redirection listeners have to be there before what moves to them: they are instead of the service's own."""
STOPS = "policy judged = external_authorization(service: judge, timeout: 10s) on shop -> cart\npin judged at ingress\n"
BEGINS = "policy known = external_authorization(service: clerk, timeout: 10s) on shop -> depot\npin known at ingress\n"


def placed(asks: str, told: str, noted: str) -> Placed:
    program = load_text(f"{APP}{asks}pin told at {told}\npin noted at {noted}\n{BUSY}")
    return Placed(program, place(program))


def test_every_question_meets_what_moves(tmp_path: Path) -> None:
    """The ADM of `cart` stops asking and that of `depot` begins, in one walk; connections are kept all the time."""
    old, new = placed(STOPS, "ingress", "egress"), placed(BEGINS, "egress", "ingress")
    assert ENVOY is not None
    with Bed(old, tmp_path, ENVOY) as bed:

        def dial(destination: str) -> Dial:
            address, own = bed.addresses.service_addresses(destination)[0], sender(bed.addresses, "shop")
            return lambda: socket.create_connection((address, PORT), 10, (own, 0))

        kept = [Keeper(dial("cart"), {}), Keeper(dial("depot"), {})]
        fresh = [Keeper(dial(name), {"connection": "close"}) for name in ("cart", "depot")]
        with kept[0], kept[1], fresh[0], fresh[1]:
            walk(bed, (old, new), [*kept, *fresh])
        answered([*kept, *fresh], 200)
        seen = bed.services.record.all()
        asked = {name: [each for each in seen if each.service == name] for name in ("judge", "clerk")}
        assert all(asked.values())
        assert {each.header("x-told") for each in asked["judge"]} == {("1",)}
        assert {each.header("x-noted") for each in asked["clerk"]} == {("1",)}
        assert not any(each.header(MARKER) for each in seen)
