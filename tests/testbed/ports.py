"""Ports that no other test run has, so that runs beside each other do not meet on the loopback addresses.

A connection may take a port that the system names as free before a server listens on it, or while that server is
restarted. These ports are below those that systems hand out, and each process has a block of them for as long as it
lives.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

_BLOCKS: Final = range(20_000, 32_000, 100)
_PROGRAMS: Final = 20
"""How many of a block are for the services of a program."""


@cache
def _block() -> tuple[int, int]:
    """The first port of this process's block, and the lock that makes it so: it ends with the process."""
    for first in _BLOCKS:
        path = Path(tempfile.gettempdir()) / f"admc-ports-{os.getuid()}-{first}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return first, lock
    raise RuntimeError(f"{len(_BLOCKS)} test runs have all the ports from {_BLOCKS.start} on")


def program_port() -> int:
    """The first of twenty ports for the services of a program; each has its own address."""
    return _block()[0]


def server_port() -> int:
    """The port of a server that ends and comes back. `free_port` never returns it, also while no server listens."""
    return _block()[0] + _BLOCKS.step - 1


@cache
def _others() -> itertools.cycle[int]:
    return itertools.cycle(range(program_port() + _PROGRAMS, server_port()))


def free_port() -> int:
    """Another one of 127.0.0.1 at each call, on which no process listens."""
    for port in itertools.islice(_others(), _BLOCKS.step - _PROGRAMS - 1):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("all ports of this test run are taken")
