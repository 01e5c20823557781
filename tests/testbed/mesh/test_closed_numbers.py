"""A NetworkPolicy, read from the emitted file and enforced: callers that it admits, to which number, and from when."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import dsl
from solver.place import place
from tests.testbed.mesh import Family, Mesh, Transport
from tests.testbed.mesh.needed import NEEDS_MESH
from tests.testbed.network_policies import Refusal

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

pytestmark = NEEDS_MESH
CLOSED = """\
app small
service a, stranger { http 80 }
service b { http 80 -> 8080  http metrics 9100 }
call a -> b:80
@egress
policy seen = request_count() on * -> b:80
"""
GUARDED = """\
app small
network_policies enforced
service a, stranger { http 80 }
service b { tcp 7000  no adm }
call a -> b
policy few = allow(callers: [a]) on * -> b
"""
SECONDS = 1.0
"""How long a caller waits that is to have no answer."""
PATIENT = 20.0
ASKED = [(transport, number) for transport in Transport for number in (8079, 8080, 8081, 9100)]


@pytest.fixture(scope="module")
def bed() -> Iterator[Mesh]:
    program = dsl.load_text(CLOSED)
    with Mesh(program, place(program), refusal=Refusal.DROP) as mesh:
        yield mesh


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("caller", ["a", "stranger"])
def test_numbers_beside_the_closed_one_are_open(bed: Mesh, caller: str, family: Family) -> None:
    address = bed.place("b").address(family)
    assert address is not None

    def reached(asked: tuple[Transport, int]) -> bool:
        # Over udp and sctp, a declared sender is no more admitted to a closed number than any other caller.
        is_open = asked[1] != 8080 or (asked[0] is Transport.TCP and caller == "a")
        return bed.reaches(caller, address, *asked, timeout=PATIENT if is_open else SECONDS) is is_open

    with ThreadPoolExecutor(len(ASKED)) as pool:
        wrong = [asked for asked, right in zip(ASKED, pool.map(reached, ASKED), strict=True) if not right]
    assert wrong == []


def test_a_connection_that_is_open_stays_open_and_a_new_one_is_dropped() -> None:
    program = dsl.load_text(GUARDED)
    with Mesh(program, place(program), close=False, refusal=Refusal.DROP) as mesh:
        assert mesh.proxies == {}
        for family in Family:
            address = mesh.place("b").address(family)
            assert address is not None
            mesh.enforce(())
            with mesh.connect("stranger", address, 7000) as opened:
                mesh.enforce(mesh.network_policies)
                assert _answered(opened)
                assert mesh.request("a", "b", family=family).ok
                reply = mesh.request("stranger", "b", family=family, timeout=SECONDS)
                assert reply.label == "no answer in time"
                assert _answered(opened)


def _answered(opened: socket.socket) -> bool:
    opened.settimeout(PATIENT)
    opened.sendall(b"still there\n")
    return b"still there" in _lines(opened)


def _lines(opened: socket.socket) -> bytes:
    """What came until the echo of a line; before the first one there is a greeting."""
    found = b""
    while b"still there\n" not in found:
        data = opened.recv(4096)
        if not data:
            break
        found += data
    return found
