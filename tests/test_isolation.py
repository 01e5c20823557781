"""Workers of a test run have networks of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.isolation import network

TRIED = """
import socket, sys
from tests import isolation
before = isolation.network()
if not isolation.enter():
    sys.exit(77)
assert isolation.network() != before
for address in ("127.0.0.1", "127.150.0.1"):
    with socket.create_server((address, 15000)), socket.create_connection((address, 15000), 5):
        pass
with isolation.machine_network():
    assert isolation.network() == before
assert isolation.network() != before
print("apart")
"""


def test_a_worker_has_addresses_of_its_own_and_reaches_those_of_the_machine() -> None:
    done = subprocess.run([sys.executable, "-c", TRIED], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("only root may give a worker a network of its own")
    assert (done.returncode, done.stdout) == (0, "apart\n"), done.stderr


def test_a_process_has_the_network_of_the_one_that_starts_it() -> None:
    code = "from tests.isolation import network; print(network())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == network()
