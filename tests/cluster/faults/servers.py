"""The servers of an installation as processes: what they log, read all the time, and what their status says."""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.cluster.faults.steps import Announced, Wanted
from tests.cluster.node.machine import ADDRESS
from tests.cluster.traffic.mesh import OPS, XDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.node.machine import Machine
    from tests.cluster.process import Running

LOOK_SECONDS: Final = 0.02
STATUS_SECONDS: Final = 0.2
SLOTS: Final = 2
"""Servers at the same time, each at ports of its own."""
_STEP: Final = re.compile(r"step `(\w+)`")
_OF_PLACES: Final = ("Cluster", "ClusterLoadAssignment")
"""Types of resources that say where pods are, and not what is enforced."""


class Event(NamedTuple):
    at: float
    """When it was read; the clock of a server may be wrong."""
    server: str
    name: str
    fields: Mapping[str, Any]


@dataclass
class Server:
    running: Running
    slot: int
    is_plain: bool
    """It reads the cluster directly, and its clock is right."""
    descriptor: int = -1
    rest: bytes = b""

    @property
    def name(self) -> str:
        return self.running.name

    def lines(self) -> list[bytes]:
        """The whole lines that are new."""
        if self.descriptor < 0:
            self.descriptor = os.open(self.running.log, os.O_RDONLY | os.O_CLOEXEC)
        found: list[bytes] = []
        while content := os.read(self.descriptor, 2**16):
            *whole, self.rest = (self.rest + content).split(b"\n")
            found += whole
        return found


@dataclass
class Servers:
    """Reads in two threads of its own."""

    machine: Machine
    all: list[Server] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    looks: list[tuple[float, Wanted]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read_logs, self._look_at_all)]
        for each in self._threads:
            each.start()

    def close(self) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    @property
    def running(self) -> list[Server]:
        return [each for each in self.all if each.running.is_running]

    @property
    def active(self) -> Server | None:
        """The running one that became active last."""
        names = [each.server for each in self.of("active")]
        found = [each for each in self.running if each.name in names]
        return max(found, key=lambda each: names.index(each.name), default=None)

    def of(self, name: str, since: float = 0.0) -> list[Event]:
        return [each for each in self.events if each.name == name and each.at >= since]

    def announced(self, since: float) -> list[Announced]:
        steps = self.of("rollout_step", since)
        return [Announced(each.server, each.fields["step"], each.fields["back"]) for each in steps]

    def wanted(self, since: float) -> list[Wanted]:
        return [each for at, each in self.looks if at >= since]

    def status(self, slot: int) -> dict[str, Any] | None:
        """What a server says of itself; None where it does not answer."""
        connection = http.client.HTTPConnection(ADDRESS, ops(slot), timeout=1.0)
        try:
            with self.machine.network():
                connection.connect()
            connection.request("GET", "/status.json")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return found

    def _read_logs(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for each in tuple(self.all):
                for line in each.lines():
                    if line.startswith(b"{"):
                        event = json.loads(line)
                        self.events.append(Event(time.monotonic(), each.name, event["event"], event))

    def _look_at_all(self) -> None:
        while not self._over.wait(STATUS_SECONDS):
            for each in self.running:
                found = self.status(each.slot)
                if found is not None:
                    self.looks += [(time.monotonic(), one) for one in _wanted(each.name, found)]


def _wanted(server: str, status: Mapping[str, Any]) -> list[Wanted]:
    step = _STEP.search(status["server"]["rollout"])
    if step is None:
        return []
    return [
        Wanted(
            server,
            step[1],
            row["service"],
            tuple((each["type"], each["wanted"]) for each in node["types"] if each["type"] not in _OF_PLACES),
        )
        for row in status["adms"]
        for node in row["nodes"]
        if node["types"]
    ]


def behind(status: Mapping[str, Any] | None) -> list[str]:
    """The proxies that have not acknowledged what is published for their service."""
    rows = () if status is None else status["adms"]
    return sorted(node["id"] for row in rows for node in row["nodes"] if node["acknowledged"] != row["wanted"])


def xds(slot: int) -> int:
    return XDS + 10 * slot


def ops(slot: int) -> int:
    return OPS + 10 * slot
