"""A network of its own for each worker of a test run: no two workers share a loopback address or a port.

Needs root on Linux. Elsewhere workers share the addresses of the machine, and tests that use the same ones wait for one
another (the fixture `alone`).
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tests.testbed.mesh import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1

_home: int | None = None
"""The network of the machine, after `enter`."""


def _open() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter() -> bool:
    """Move this thread, and what it starts from now on, to a new network that has a loopback interface alone.

    False where the system does not allow it.
    """
    global _home  # noqa: PLW0603 - a process has one
    if sys.platform != "linux":
        return False
    home = _open()
    try:
        kernel.unshare(kernel.CLONE_NEWNET)
    except OSError:
        os.close(home)
        return False
    _home = home
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as interface:
        fcntl.ioctl(interface, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))
    return True


@contextmanager
def machine_network() -> Iterator[None]:
    """Be in the network of the machine for a while, to fetch something."""
    if _home is None:
        yield
        return
    own = _open()
    try:
        with kernel.inside(_home, own):
            yield
    finally:
        os.close(own)


def network() -> int:
    """A number that two processes have in common if they share their addresses."""
    return os.stat("/proc/thread-self/ns/net").st_ino if sys.platform == "linux" else 0  # noqa: PTH116
