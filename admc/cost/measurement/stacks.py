"""Which part of a hop a sampled stack belongs to.

    /proc/kallsyms -> [Symbols]; records of a ring buffer -> stacks of addresses -> parts -> how many stacks each has

`docs/adr/0030-parts-by-sampled-stacks.md` says which functions count as which part, and why.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

USER: Final = "user"
KERNEL: Final = "kernel"
IPC: Final = "ipc"
_CALLS: Final = {
    "read": "read readv pread64 preadv preadv2 recvfrom recvmsg recvmmsg recv",
    "write": "write writev pwrite64 pwritev pwritev2 sendto sendmsg sendmmsg send sendfile64 sendfile",
    "notification": "epoll_wait epoll_pwait epoll_pwait2 epoll_ctl poll ppoll select pselect6",
}
"""System calls by part. All others belong to the rest of the kernel, as a stack without any beginning does."""
_BY_CALL: Final = {call: part for part, calls in _CALLS.items() for call in calls.split()}
_CALL: Final = re.compile(r"(__[a-z0-9]+_sys_|ksys_|do_sys_|do_|_?__sys_)([a-z0-9_]+)")
"""What a system call begins with: `__x64_sys_writev`, on each processor, and what that jumps to: `do_writev`,
`ksys_read`, `__sys_sendto`. Compilers make a jump of a call at the end of a function, and then the stack has the second
alone."""
_RECEIVES: Final = frozenset(("net_rx_action", "__napi_poll", "process_backlog"))
"""What the kernel begins with to receive packets."""
_INTERRUPTS: Final = re.compile(r"asm_(?:sysvec_\w+|common_interrupt)|el[01][th]_64_irq|handle_softirqs|__do_softirq")
"""What the kernel begins other work with in the middle of a system call or of user space."""

MAX_SYMBOLS: Final = 2_000_000
_SAMPLE, _LOST, _THROTTLE, _LOST_SAMPLES = 9, 2, 5, 13
_HEADER: Final = Struct("=IHH")
_MODE: Final = 7
_IN_USER: Final = 2
_LARGEST: Final = 1 << 12
"""Bytes: no record is larger, since a stack has at most 127 frames and a few marks."""
_MARKS: Final = 2**64 - 4095
"""Addresses from here on say in which space the next ones are."""


class Symbols:
    """The functions of the kernel that parts begin with, by address."""

    def __init__(self, lines: Iterable[str]) -> None:
        """`lines` are those of `/proc/kallsyms`: address, type, name, and perhaps a module."""
        labels: dict[int, str | None] = {}
        for number, line in enumerate(lines):
            fields = line.split(maxsplit=3)
            if number >= MAX_SYMBOLS:
                break
            if len(fields) < 3 or fields[1] not in "tTwW":
                continue
            try:
                address = int(fields[0], 16)
            except ValueError:
                continue
            if 0 < address < _MARKS:
                labels[address] = labels.get(address) or label(fields[2])
        self._starts = array("Q", sorted(labels))
        self._labels = [labels[address] for address in self._starts]

    @property
    def known(self) -> bool:
        """Whether the kernel shows where all four parts of it begin."""
        return {"read", "write", "notification", IPC} <= set(self._labels)

    def at(self, address: int) -> str | None:
        """The part that begins with the function at an address; None if the function is no such beginning."""
        position = bisect_right(self._starts, address)
        return self._labels[position - 1] if position else None


def label(function: str) -> str | None:
    """The part that begins with a function.

    >>> [label(name) for name in ("__x64_sys_writev", "process_backlog", "asm_common_interrupt", "copy_page")]
    ['write', 'ipc', 'kernel', None]
    """
    name = function.partition(".")[0]  # `.part.0`, `.constprop.0`, `.cold`
    if name in _RECEIVES:
        return IPC
    call = _CALL.fullmatch(name)
    if call and call[2] in _BY_CALL:
        return _BY_CALL[call[2]]
    return KERNEL if _INTERRUPTS.fullmatch(name) else None


class Stack(NamedTuple):
    """A sample: the innermost frame first."""

    in_user: bool
    frames: Sequence[int]
    """Addresses in the kernel; none for a sample in user space."""


class LostError(Exception):
    """Samples are missing."""


def stacks(records: bytes) -> Iterator[Stack]:
    """The samples of a ring buffer that was not filled anew. Raises `LostError`."""
    at = 0
    while at + _HEADER.size <= len(records):
        kind, misc, size = _HEADER.unpack_from(records, at)
        if size < _HEADER.size or at + size > len(records):
            raise LostError("a record is broken")
        if kind in (_LOST, _THROTTLE, _LOST_SAMPLES):
            raise LostError("the kernel left samples out")
        if kind == _SAMPLE:
            words = array("Q", records[at + _HEADER.size : at + size - (size - _HEADER.size) % 8])
            if not words or words[0] != len(words) - 1:
                raise LostError("a record is broken")
            in_user = misc & _MODE == _IN_USER
            yield Stack(in_user, () if in_user else [word for word in words[1:] if word < _MARKS])
        at += size


def part_of(stack: Stack, symbols: Symbols) -> str:
    """The part that the innermost beginning in a stack names; without one, it is the rest of the kernel."""
    if stack.in_user:
        return USER
    for depth, address in enumerate(stack.frames):
        # All frames but the innermost are return addresses, which may lie behind the end of the function that called.
        part = symbols.at(address if depth == 0 else address - 1)
        if part is not None:
            return part
    return KERNEL


def counted(records: bytes, room: int, symbols: Symbols) -> Counter[str]:
    """How many stacks each part has. `room` is the size of the ring buffer. Raises `LostError`."""
    if len(records) > room - _LARGEST:
        raise LostError("they did not fit")
    return Counter(part_of(stack, symbols) for stack in stacks(records))
