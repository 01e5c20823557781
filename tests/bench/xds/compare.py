"""One round of one scenario with one server: how long until all clients have acknowledged, at what cost.

A round starts a server and a client program afresh, opens all streams, and publishes a few changes. Times are those of
the client program, from the moment before the server receives the change; CPU and memory are what the kernel says of
the server's process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOURCES = Path(__file__).with_name("gcp")
OURS = [sys.executable, "-m", "tests.bench.xds.serve"]
SETTLED_SECONDS = 0.2
"""How long a server must have used no CPU until it is at rest."""


class Scenario(NamedTuple):
    title: str
    variant: str
    clusters: int
    changed: int
    streams: int
    storm: bool = False
    """Whether it is the opening of the streams that is measured."""

    @property
    def name(self) -> str:
        return f"{self.title}, {self.streams:,} streams"


class Round(NamedTuple):
    """Seconds until half of the streams, 99 of 100, and all have acknowledged: one each for each change."""

    half: list[float]
    most: list[float]
    every: list[float]
    cpu: list[float]
    """Seconds of the server until it was at rest again."""
    peak: int
    """Bytes."""
    lost: int
    sent: int
    """Bytes for one change."""
    why: str = ""
    """What a lost stream ended with."""


class BrokenError(Exception):
    """A program of the benchmark does not do what it should."""


class Program:
    """A process that is spoken to in lines."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BrokenError(f"`{self._command[0]}` ended with {self._process.wait()}")
        return line.strip()

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))

    def settle(self) -> float:
        """Wait until it is at rest; its CPU seconds so far."""
        used = self.cpu
        while True:
            time.sleep(SETTLED_SECONDS)
            before, used = used, self.cpu
            if used - before < SETTLED_SECONDS / 10:
                return used

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@contextmanager
def running(command: Sequence[str]) -> Iterator[Program]:
    program = Program(command)
    try:
        yield program
    finally:
        program.end()


def measure(server: Sequence[str], client: str, scenario: Scenario, states: Sequence[Path], changes: int) -> Round:
    """One round. Raises `BrokenError`."""
    with ExitStack() as stack:
        serving = stack.enter_context(running([*server, *map(str, states)]))
        port = serving.hear()
        options = ["-port", port, "-streams", str(scenario.streams), "-variant", scenario.variant]
        asking = stack.enter_context(running([client, *options]))
        _publish(serving, 0)
        used = serving.settle()
        asking.tell("open")
        report = json.loads(asking.hear())
        found = _noted(Round([], [], [], [], 0, 0, 0), report, report["started"], scenario, serving.settle() - used)
        for number in range(1, changes + 1) if not scenario.storm else ():
            used = serving.settle()
            asking.tell("next")
            asking.hear()
            started = time.time_ns()
            _publish(serving, number % len(states))
            report = json.loads(asking.hear())
            found = _noted(found, report, started, scenario, serving.settle() - used)
        found = found._replace(peak=serving.peak)
    if scenario.storm:
        return found
    # What opening the streams took is another scenario's.
    return found._replace(half=found.half[1:], most=found.most[1:], every=found.every[1:], cpu=found.cpu[1:])


def _publish(serving: Program, number: int) -> None:
    serving.tell(str(number))
    if serving.hear() != "published":
        raise BrokenError("the server does not publish")


def _noted(found: Round, report: dict[str, Any], started: int, scenario: Scenario, cpu: float) -> Round:
    took = sorted((at - started) / 1e9 for at in report["at"])
    if not took:
        raise BrokenError(f"no stream got anything: {report['failures'][:3]}")
    everything = scenario.variant == "sotw" or not found.every
    expected = [scenario.clusters if everything else scenario.changed]
    if report["resources"] != expected:
        raise BrokenError(f"responses had {report['resources']} resources, and not {expected}")
    return Round(
        [*found.half, statistics.median(took)],
        [*found.most, took[max(0, int(len(took) * 0.99) - 1)]],
        [*found.every, took[-1]],
        [*found.cpu, cpu],
        found.peak,
        found.lost + report["lost"],
        report["bytes"],
        next(iter(report["failures"]), found.why),
    )
