"""`admc serve --cluster` as a process: its events, its metrics, and what it costs."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.bench.cost import usage
from tests.cluster.process import Running
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.cluster.serve.installation import Installation

ADDRESS: Final = "192.0.2.1"
"""What a replica writes as its own address: the API server admits no loopback address. Proxies here go by the port."""
PAUSE_SECONDS: Final = 0.2
"""Between two looks: to make the metrics costs the server some milliseconds."""
REQUESTS: Final = "admc_kubernetes_requests_total"


class Usage(NamedTuple):
    """Seconds of CPU so far, and bytes of memory (PSS), of the server itself and of its workers."""

    cpu: float
    workers_cpu: float
    memory: int
    workers_memory: int


class EndedError(Exception):
    """A replica has ended, or something did not come in time. The text has its last line."""


class Replica:
    """Started at once; `end` kills it."""

    def __init__(self, installation: Installation, folder: Path, name: str) -> None:
        own = folder / name
        own.mkdir()
        self.name = name
        self.port, self._ops = free_port(), free_port()
        certificate, key = installation.authority.issue(dns=("localhost",)).write(own, "server")
        (own / "ca.crt").write_bytes(installation.authority.certificate)
        command = [sys.executable, "-m", "admc", "serve", "--cluster", installation.name]
        command += ["--namespace", installation.system, "--kubeconfig", str(installation.api.kubeconfig)]
        command += ["--xds", f"127.0.0.1:{self.port}", "--ops", f"127.0.0.1:{self._ops}", "--log", "json"]
        command += ["--tls-cert", str(certificate), "--tls-key", str(key), "--tls-ca", str(own / "ca.crt")]
        command += ["--reached-at", installation.reach, "--image", "admc:test", "--envoy-image", "envoy:test"]
        self.began = time.time()
        self._process = Running(name, command, own / "serve.log", environment={"POD_IP": ADDRESS})

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """SIGKILL. Its workers end with it."""
        self._process.kill()

    # ---- what it says ----

    def events(self, name: str) -> list[dict[str, Any]]:
        text = self._process.log.read_text(errors="replace")
        lines = (line for line in text.splitlines() if f'"{name}"' in line and line.startswith("{"))
        found = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # it is just being written
            if event["event"] == name:
                found.append(event)
        return found

    def at(self, name: str) -> float | None:
        """When it logged its first event of a name, in seconds since 1970."""
        found = self.events(name)
        return datetime.fromisoformat(found[0]["time"]).timestamp() if found else None

    def until_event(self, name: str, seconds: float) -> float:
        """When that was. Raises `EndedError`."""
        found: float = self.until(lambda: self.at(name), seconds, f"event `{name}`")
        return found

    def until(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        """The condition's first true value. Raises `EndedError`."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if not self._process.is_running:
                raise EndedError(f"{self.name} has ended: {self._process.last_line()}")
            if time.monotonic() > deadline:
                raise EndedError(f"{what}: not within {seconds:.0f} s; {self.name}: {self._process.last_line()}")
            time.sleep(PAUSE_SECONDS)
        return found

    # ---- what it counts ----

    def metrics(self) -> Mapping[str, float]:
        """Empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ops}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def is_in_sync(self, clients: int) -> bool:
        """Whether so many clients are connected, and each has all that it needs."""
        found = self.metrics()
        return found.get("admc_xds_connected_clients") == clients and found.get("admc_nodes_out_of_sync") == 0

    def requests(self) -> Mapping[str, float]:
        """Requests to the API server so far, by labels, as the replica counts them."""
        return {name: value for name, value in self.metrics().items() if name.startswith(REQUESTS)}

    def usage(self) -> Usage:
        workers = _children(self.pid)
        cpu, ended = _cpu(self.pid)
        return Usage(
            cpu,
            ended + sum(_cpu(pid)[0] for pid in workers),
            usage.memory([self.pid]).pss,
            usage.memory(workers).pss,
        )


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = path.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has just ended
        if int(parent) == pid:
            found.append(int(path.parent.name))
    return found


def _cpu(pid: int) -> tuple[float, float]:
    """Seconds of a process, and of those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / usage.TICK, ended / usage.TICK
