"""One Envoy in a namespace: started there, asked there, ended by its id."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.testbed.mesh.errors import StartError

if TYPE_CHECKING:
    from tests.testbed.mesh.control import Agent

OPTIONS = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "--file-flush-interval-msec", "50")

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""A bootstrap may have megabytes: where PyYAML has its parser in C, it is ten times as fast."""


class Proxy:
    """Running from the moment it is made. `output` is what it writes to stdout, `log` to stderr."""

    def __init__(
        self,
        place: str,
        binary: str,
        bootstrap: Path,
        folder: Path,
        agent: Agent,
        make_socket: Callable[[int], socket.socket],
        user: int | None = None,
    ) -> None:
        """`user`: it runs as that one, without any capability and without a way to gain one."""
        self.place = place
        name = place.replace("/", "-")
        self.log, self.output = folder / f"{name}.envoy.log", folder / f"{name}.envoy.out"
        self._command = [binary, "-c", str(bootstrap), *OPTIONS, "--service-node", name]
        self._agent = agent
        self._socket = make_socket
        self._user = user
        content: Any = yaml.load(bootstrap.read_bytes(), Loader=LOADER)  # noqa: S506 - safe, either way
        where = content["admin"]["address"]["socket_address"]
        self.admin = (str(where["address"]), int(where["port_value"]))
        self.pid = self._start()

    def _start(self) -> int:
        files = {"out": str(self.output), "errors": str(self.log)}
        answer = self._agent.ask("spawn", where=self.place, command=self._command, user=self._user, **files)
        return int(answer["pid"])

    def restart(self, seconds: float = 60.0) -> None:
        """End it and start it anew: full buckets, empty statistics."""
        self.kill()
        self.pid = self._start()
        self.await_ready(time.monotonic() + seconds)

    def kill(self) -> None:
        """End it at once, and wait until it is gone. Connections to it are then refused."""
        self._agent.ask("signal", pid=self.pid, number=int(signal.SIGKILL))

    @property
    def running(self) -> bool:
        return self._agent.ask("poll", pid=self.pid)["code"] is None

    def admin_get(self, path: str, timeout: float = 10.0) -> tuple[int, bytes]:
        """Status and body of an admin request, sent from inside its namespace."""
        connection = http.client.HTTPConnection(*self.admin, timeout=timeout)
        made = self._socket(socket.AF_INET)
        try:
            made.settimeout(timeout)
            made.connect(self.admin)
            connection.sock = made
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            made.close()
            connection.close()

    def await_ready(self, deadline: float) -> None:
        """Raises `StartError` with its last words where it ends or does not become ready."""
        while True:
            try:
                if self.admin_get("/ready")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            if not self.running:
                raise StartError(f"the Envoy of `{self.place}` ended at once: {self._reason()}")
            if time.monotonic() > deadline:
                raise StartError(f"the Envoy of `{self.place}` was not ready in time: {self._reason()}")
            time.sleep(0.02)

    def stats(self) -> dict[str, int]:
        """All counters and gauges by name."""
        found = {}
        for kind in ("Counters", "Gauges"):
            for line in self.admin_get(f"/stats?type={kind}")[1].decode().splitlines():
                name, _, value = line.rpartition(": ")
                if value.isdecimal():
                    found[name] = int(value)
        return found

    def accepted(self) -> int:
        """Connections that its listeners have taken, the admin interface's aside."""
        taken = re.compile(r"listener\.(?!admin)[^.]*(\.[^.]*)*\.downstream_cx_total")
        return sum(
            value
            for name, value in self.stats().items()
            if taken.fullmatch(name) and ".worker_" not in name and ".http." not in name
        )

    def _reason(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"it wrote nothing to {self.log}"
