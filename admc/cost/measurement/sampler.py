"""Samples the stacks of a process in the kernel, by `perf_event_open` through `ctypes`. Linux only.

    process, period -> [Sampler.sampling] -> Sampled: how many stacks each part has

Each thread that the process has at the start gets an event that fires after a period of its CPU time, so a thread that
waits is not sampled. The samples stay in the buffer of the event until the end, since reading them would take CPU
during the measurement.
"""

from __future__ import annotations

import ctypes
import gzip
import mmap
import os
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from struct import Struct, unpack_from
from typing import Final, NamedTuple

from admc.cost.measurement.stacks import Symbols, counted

_NUMBERS: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331, "loongarch64": 241}
"""The number of the system call, by processor."""
_ATTRIBUTES: Final = Struct("=IIQQQQQIIQ")
_SOFTWARE, _CPU_CLOCK = 1, 0
_CALL_CHAIN: Final = 1 << 5
_DISABLED, _NO_HYPERVISOR, _NO_USER_FRAMES = 1 << 0, 1 << 6, 1 << 22
_CLOSE_ON_EXEC: Final = 8
_ENABLE, _DISABLE = 0x2400, 0x2401
_HEAD: Final = 1024
"""The offset at which the first page has the number of bytes that were written."""
_ROOM: Final = 1 << 18
"""Bytes of one thread's buffer, a power of two."""
_STACKS: Final = 400
"""The intended number of stacks in a slice: a few turns have enough, and the buffer has room for them."""
_SHORTEST: Final = 100_000
"""The shortest period in nanoseconds of CPU: with a shorter one, much of the CPU would be that of sampling."""
_LONGEST: Final = 1_000_000
_MOST_SYMBOLS: Final = 1 << 26
_MOST_CONFIGURATION: Final = 1 << 22
_INTERRUPTS_APART: Final = "CONFIG_IRQ_TIME_ACCOUNTING=y"


class CannotSampleError(Exception):
    """No stacks can be sampled here; the message says why."""


class Sampled(NamedTuple):
    """The stacks of one slice."""

    stacks: Counter[str]
    """The number of stacks of each part."""
    period: int
    """Nanoseconds of CPU from one stack to the next."""


class Sampler:
    """Samples processes. The constructor raises `CannotSampleError` if the machine does not allow sampling."""

    def __init__(self) -> None:
        if platform.machine() not in _NUMBERS:
            raise CannotSampleError(f"a processor `{platform.machine()}` is not known")
        if _interrupts_apart():
            raise CannotSampleError(
                "this kernel leaves interrupts out of the CPU of a process, and with them what it does to receive"
            )
        self._symbols = _symbols()
        with self.sampling(os.getpid(), _LONGEST):
            pass

    @contextmanager
    def sampling(self, process: int, period: int) -> Iterator[list[Sampled]]:
        """Sample a process while the block runs. The list has one `Sampled` after the block.

        Raises `CannotSampleError` before the block, and `LostError` after it."""
        samples: list[Sampled] = []
        with ExitStack() as stack:
            rings = [ring for thread in _threads(process) if (ring := _ring(stack, thread, period)) is not None]
            for event, _ in rings:
                ioctl(event, _ENABLE, 0)
            yield samples
            for event, _ in rings:
                ioctl(event, _DISABLE, 0)
            total: Counter[str] = Counter()
            for _, memory in rings:
                (head,) = unpack_from("=Q", memory, _HEAD)
                total += counted(memory[mmap.PAGESIZE : mmap.PAGESIZE + head], _ROOM, self._symbols)
            samples.append(Sampled(total, period))


def period_for(cores: float, seconds: float) -> int:
    """The period for a process that takes `cores`, in nanoseconds of CPU from one stack to the next."""
    return max(_SHORTEST, min(_LONGEST, int(cores * seconds * 1e9 / _STACKS)))


def _threads(process: int) -> list[int]:
    with suppress(OSError):
        return sorted(int(place.name) for place in Path(f"/proc/{process}/task").iterdir())
    return []


def _ring(stack: ExitStack, thread: int, period: int) -> tuple[int, mmap.mmap] | None:
    """An event and its buffer; None if the thread has ended. Raises `CannotSampleError`."""
    flags = _DISABLED | _NO_HYPERVISOR | _NO_USER_FRAMES
    attributes = _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _CPU_CLOCK, period, _CALL_CHAIN, 0, flags, 0, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    event = library.syscall(_NUMBERS[platform.machine()], attributes, thread, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if event < 0:
        number = ctypes.get_errno()
        if not Path(f"/proc/{thread}").exists():
            return None
        raise CannotSampleError(f"the kernel refuses it ({os.strerror(number)}; {_setting('perf_event_paranoid')})")
    stack.callback(os.close, event)
    try:
        memory = mmap.mmap(event, mmap.PAGESIZE + _ROOM)
    except OSError as error:
        raise CannotSampleError(
            f"the kernel gives it no memory ({error.strerror}; {_setting('perf_event_mlock_kb')})"
        ) from error
    stack.callback(memory.close)
    return event, memory


def _symbols() -> Symbols:
    try:
        with Path("/proc/kallsyms").open(encoding="ascii", errors="replace") as file:
            symbols = Symbols(_lines(file.read(_MOST_SYMBOLS)))
    except OSError as error:
        raise CannotSampleError(f"`/proc/kallsyms` cannot be read ({error.strerror})") from error
    if not symbols.known:
        settings = f"{_setting('kptr_restrict')}, {_setting('perf_event_paranoid')}"
        raise CannotSampleError(f"the kernel does not show where its functions are ({settings})")
    return symbols


def _lines(text: str) -> Iterator[str]:
    at = 0
    while (end := text.find("\n", at)) >= 0:
        yield text[at:end]
        at = end + 1


def _setting(name: str) -> str:
    with suppress(OSError):
        return f"kernel.{name} is {Path('/proc/sys/kernel', name).read_text().strip()[:20]}"
    return f"kernel.{name} is not known"


def _interrupts_apart(root: Path = Path("/")) -> bool:
    """Whether the kernel counts interrupts apart from processes. Usual kernels do not, so False if it is unknown."""
    release = platform.release()
    for path in (root / "proc/config.gz", root / f"boot/config-{release}", root / f"lib/modules/{release}/config"):
        with suppress(OSError, EOFError), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content: bytes = file.read(_MOST_CONFIGURATION)
            return f"\n{_INTERRUPTS_APART}\n".encode() in content
    return False
