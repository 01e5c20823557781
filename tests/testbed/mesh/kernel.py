"""The few system calls that Python 3.11 has no words for. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
_MS_REC_PRIVATE = 0x4000 | 0x40000
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces of the parent. A new user namespace makes the caller root in it."""
    uid, gid = os.getuid(), os.getgid()
    _done(_libc.unshare(flags), "new namespaces")
    if flags & CLONE_NEWUSER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)


def private_run() -> None:
    """An empty /run of our own: some iptables lock a file there, and others may hold it or own it."""
    _done(_libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None), "private mounts")
    _done(_libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, b"size=1m"), "a /run of its own")


def new_network() -> int:
    """A file descriptor that keeps a new, empty network namespace alive; nothing else does."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _done(_libc.unshare(CLONE_NEWNET), "a network namespace")
        try:
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            _done(_libc.setns(home, CLONE_NEWNET), "the way back")
    finally:
        os.close(home)


def enter(network: int) -> None:
    """Move the calling thread into a network namespace for good."""
    _done(_libc.setns(network, CLONE_NEWNET), "a network namespace")


@contextmanager
def inside(network: int, home: int) -> Iterator[None]:
    """Be in a network namespace for a while: what is started or opened meanwhile belongs there."""
    enter(network)
    try:
        yield
    finally:
        enter(home)


def die_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Get a signal when the thread that started this process ends; end at once where it has already ended."""
    _done(_libc.prctl(_PR_SET_PDEATHSIG, number), "a death signal")
    if os.getppid() != parent:
        os._exit(1)


def become(user: int) -> None:
    """Be another user for good, in a group of the same number, without any capability and without a way to gain one."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # the kernel has fewer, and refuses the rest
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _done(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def _done(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
