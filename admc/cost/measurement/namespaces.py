"""Makes network namespaces without names. A namespace ends with the processes and descriptors that hold it.

The system calls go through `ctypes`, since Python 3.11 has no functions for them. Linux only.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NEW_MOUNTS: Final = 0x00020000
_NEW_USERS: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
_RECURSIVE_PRIVATE: Final = 0x4000 | 0x40000
_OWN: Final = "/proc/thread-self/ns/net"


def leave() -> None:
    """Move this process into a network of its own for good, and make it root there. Raises `OSError`.

    The process also gets a `/run` of its own, since tools of the packet filter lock a file there.
    """
    user, group = os.geteuid(), os.getegid()
    _call("unshare", (0 if user == 0 else _NEW_USERS) | _NEW_NETWORK | _NEW_MOUNTS)
    if user != 0:
        for name, text in (("setgroups", b"deny"), ("uid_map", b"0 %d 1" % user), ("gid_map", b"0 %d 1" % group)):
            Path(f"/proc/self/{name}").write_bytes(text)
    _call("mount", b"none", b"/", None, _RECURSIVE_PRIVATE, None)
    _call("mount", b"tmpfs", b"/run", b"tmpfs", 0, b"size=1m")


def new_network() -> int:
    """A descriptor that keeps a new and empty network alive."""
    home = open_own()
    try:
        _call("unshare", _NEW_NETWORK)
        try:
            return open_own()
        finally:
            _call("setns", home, _NEW_NETWORK)
    finally:
        os.close(home)


def open_own() -> int:
    """A descriptor of the network that this thread is in."""
    return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def inside(network: int | None) -> Iterator[None]:
    """Sockets and processes that the block opens and starts belong to `network`; None is the present network."""
    if network is None:
        yield
        return
    home = open_own()
    try:
        _call("setns", network, _NEW_NETWORK)
        try:
            yield
        finally:
            _call("setns", home, _NEW_NETWORK)
    finally:
        os.close(home)


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
