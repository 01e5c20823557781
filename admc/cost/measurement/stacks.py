"""Finds the part of a hop that a sampled stack belongs to.

    /proc/kallsyms -> Symbols
    records of a ring buffer, Symbols -> stacks of addresses -> parts -> [counted] -> how many stacks each part has

`docs/adr/0030-parts-by-sampled-stacks.md` has the functions of each part, and the reasons.
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
"""System calls by part. All others belong to the rest of the kernel, and so does a stack in which no part begins."""
_BY_CALL: Final = {call: part for part, calls in _CALLS.items() for call in calls.split()}
_CALL: Final = re.compile(r"(__[a-z0-9]+_sys_|ksys_|do_sys_|do_|_?__sys_)([a-z0-9_]+)")
"""The first function of a system call (`__x64_sys_writev`, by processor), or the function that it calls (`do_writev`,
`ksys_read`, `__sys_sendto`). Compilers make a jump of a call at the end of a function, and then the stack lacks the
first function."""
_RECEIVES: Final = frozenset(("net_rx_action", "__napi_poll", "process_backlog"))
"""Functions with which the kernel begins to receive packets."""
_INTERRUPTS: Final = re.compile(r"asm_(?:sysvec_\w+|common_interrupt)|el[01][th]_64_irq|handle_softirqs|__do_softirq")
"""Functions with which the kernel begins other work in the middle of a system call or of user space."""

MAX_SYMBOLS: Final = 2_000_000
_SAMPLE, _LOST, _THROTTLE, _LOST_SAMPLES = 9, 2, 5, 13
_HEADER: Final = Struct("=IHH")
_MODE: Final = 7
_IN_USER: Final = 2
_LARGEST: Final = 1 << 12
"""Bytes of the largest record: a stack has at most 127 frames and a few marks."""
_MARKS: Final = 2**64 - 4095
"""Addresses from here on are marks, which tell whether the next addresses are in the kernel or in user space."""


class Symbols:
    """The functions of the kernel with which parts begin, by address."""

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
        """Whether the kernel shows functions of all four parts that begin in it."""
        return {"read", "write", "notification", IPC} <= set(self._labels)

    def at(self, address: int) -> str | None:
        """The part that begins with the function at an address; None if no part begins with it."""
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
    """The samples of a ring buffer that has not wrapped around. Raises `LostError`."""
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
    """The part that begins innermost in a stack; the rest of the kernel if no part begins in it."""
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
