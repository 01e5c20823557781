"""Packets to a closed destination by protocol and number: those that its NetworkPolicy cuts, and no others."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import pytest

import dsl
from solver.place import place
from tests.testbed.mesh import Family, Mesh
from tests.testbed.mesh.needed import NEEDS_MESH

pytestmark = NEEDS_MESH
TEXT = """\
app small
service a, stranger { http 80 }
service b { http 80 -> 8080  http metrics 9100 }
call a -> b:80
@egress
policy seen = request_count() on * -> b:80
"""
LISTENER = """
import socket, sys, threading
def stream(family, number):
    with socket.create_server(("::" if family == socket.AF_INET6 else "0.0.0.0", number), family=family) as server:
        while True:
            server.accept()[0].close()
def packets(family, number):
    with socket.socket(family, socket.SOCK_DGRAM) as own:
        if family == socket.AF_INET6:
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        own.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", number))
        while True:
            data, sender = own.recvfrom(10)
            own.sendto(data, sender)
threads = [
    threading.Thread(target=listen, args=(family, number))
    for family in (socket.AF_INET, socket.AF_INET6)
    for listen, number in [(stream, 8079), (stream, 8081), *((packets, at) for at in (8079, 8080, 8081))]
]
for thread in threads:
    thread.start()
"""
DIALLER = """
import json, socket, sys
address, asked = sys.argv[1], json.loads(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
answers = []
for protocol, number in asked:
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with socket.socket(family, kind) as own:
        own.settimeout(1)
        try:
            own.connect((address, number))
            if protocol == "udp":
                own.send(b"x")
                own.recv(10)
            answers.append(True)
        except OSError:
            answers.append(False)
print(json.dumps(answers))
"""
ASKED = [("tcp", 8080), ("tcp", 8079), ("tcp", 8081), ("tcp", 9100), ("udp", 8080), ("udp", 8079), ("udp", 8081)]


@pytest.fixture(scope="module")
def bed() -> Iterator[Mesh]:
    program = dsl.load_text(TEXT)
    with Mesh(program, place(program)) as mesh:
        mesh.start("b/0", sys.executable, "-c", LISTENER)
        yield mesh


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("caller", ["a", "stranger"])
def test_numbers_beside_the_closed_one_are_open(bed: Mesh, caller: str, family: Family) -> None:
    address = bed.place("b").address(family)
    assert address is not None

    def reached() -> list[bool]:
        command = [sys.executable, "-c", DIALLER, address, json.dumps(ASKED)]
        return list(json.loads(bed.run(bed.place(caller).name, *command)))

    # Over UDP, a declared sender is no more admitted to a closed number than any other caller.
    expected = [caller == "a", True, True, True, False, True, True]
    deadline = time.monotonic() + 20
    while (found := reached()) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found == expected
