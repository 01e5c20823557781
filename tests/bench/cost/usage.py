"""CPU and memory of processes and of the machine, as the kernel counts them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from admc.cost.measurement.stolen import STAT, STEAL, columns

TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
KILOBYTE = 1024
IDLE = (3, 4)
"""Of the columns of `/proc/stat`: doing nothing, and waiting for a disk."""


class Machine(NamedTuple):
    """CPU seconds since it was started."""

    busy: float
    stolen: float


class Memory(NamedTuple):
    """Bytes. `pss` counts a page that several processes share once in all, `rss` in each."""

    pss: int
    rss: int


def cpu(pid: int) -> float:
    """CPU seconds that a process has used, all of its threads and in the kernel, too."""
    return cpu_of(Path(f"/proc/{pid}/stat").read_text())


def cpu_of(stat: str) -> float:
    # The name is in parentheses, and may contain any of both.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def cpu_each(pids: Iterable[int]) -> dict[int, float]:
    return {pid: cpu(pid) for pid in pids}


def spent(before: Mapping[int, float], after: Mapping[int, float], pids: Iterable[int]) -> float:
    """CPU seconds that these processes used between two samples."""
    return sum(after[pid] - before[pid] for pid in pids)


def memory(pids: Iterable[int]) -> Memory:
    found = [memory_of(Path(f"/proc/{pid}/smaps_rollup").read_text()) for pid in pids]
    return Memory(sum(each.pss for each in found), sum(each.rss for each in found))


def memory_of(rollup: str) -> Memory:
    sizes = dict(line.split()[:2] for line in rollup.splitlines()[1:])
    return Memory(int(sizes["Pss:"]) * KILOBYTE, int(sizes["Rss:"]) * KILOBYTE)


def machine() -> Machine:
    return machine_of(STAT.read_text())


def machine_of(stat: str) -> Machine:
    ticks = columns(stat)
    stolen = ticks[STEAL]
    return Machine((sum(ticks) - stolen - sum(ticks[each] for each in IDLE)) / TICK, stolen / TICK)
