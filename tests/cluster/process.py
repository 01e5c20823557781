"""Programs of a cluster as processes: each ends with the process that started it, and is ended by its id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from admc.testbed.envoys import LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Network = Callable[[], AbstractContextManager[None]]
"""Moves the calling thread into a network namespace for a while, and what it starts or connects meanwhile."""

READY_SECONDS = 90.0
STOP_SECONDS = 10.0


class StartError(Exception):
    """A part of the cluster did not become ready; the message has the last line that it logged."""


class Running:
    """One process, which can be killed, stopped, continued, and started again."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        network: Network = nullcontext,
        descriptors: Sequence[int] = (),
    ) -> None:
        """`environment` is beside that of this process; `network` is where it runs; it gets `descriptors`."""
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._environment = {**os.environ, **(environment or {})}
        self._network = network
        self._descriptors = tuple(descriptors)
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
        with self._network(), self.log.open("ab") as log:
            return subprocess.Popen(
                [*launcher, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
                pass_fds=self._descriptors,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def start(self) -> None:
        """Start it again, after its end."""
        self.kill()
        self._process = self._start()

    def kill(self) -> None:
        """SIGKILL, which also ends a stopped process, and wait for the end."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """SIGTERM, and SIGKILL where that takes too long."""
        self.resume()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        self.kill()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def wait_until(self, is_ready: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
        """Raises `StartError` where the process ends before, or `is_ready` stays false."""
        deadline = time.monotonic() + seconds
        while not is_ready():
            if not self.is_running:
                raise StartError(f"{self.name} ended at once: {self.last_line()}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} was not ready within {seconds:.0f} s: {self.last_line()}")
            time.sleep(0.05)

    def last_line(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it logged nothing"


def is_running(pid: int | str) -> bool:
    """Whether there is such a process; one that has ended and is not yet collected does not count."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
