"""Time and memory of whole processes.

What a user waits for is the process from start to exit, so that is what is timed; its peak memory comes from the
operating system (`wait4`), not from the program's own opinion.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# ru_maxrss is in kilobytes on Linux and in bytes on macOS.
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class Run(NamedTuple):
    """One process: wall seconds, CPU seconds, peak resident bytes, exit code, and what it wrote to stdout."""

    wall: float
    cpu: float
    rss: int
    code: int
    output: bytes


class Spread(NamedTuple):
    """Several runs of one thing, in its unit."""

    median: float
    low: float
    high: float
    runs: int


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


def run(command: Sequence[str]) -> Run:
    """Run a command to its end; stderr goes to ours."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as stream:
        output = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait for it again
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * RSS_UNIT, process.returncode, output)
