"""Starts the processes of a measurement. Each process ends when the process that started it ends, also if the starting
process is killed."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, cast

from admc.cost.measurement.namespaces import inside
from admc.testbed.envoys import LAUNCHER, Envoy

READY_SECONDS: Final = 60.0
_POLL: Final = 0.02
_OPTIONS: Final = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")


class ProcessError(Exception):
    """A process did not start, or ended; the message has its last words."""


class Process:
    """A program that runs in a network. Its log is a file."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, network: int | None, *, answers: bool = False
    ) -> None:
        """With `answers`, `line` reads the output. Otherwise the output is a file: an unread pipe would fill up."""
        self.name = name
        self._network = network
        self.log, self.output = folder / f"{name}.log", folder / f"{name}.out"
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
        with inside(network), self.log.open("wb") as errors, self.output.open("wb") as out:
            self.popen = subprocess.Popen(  # noqa: S603 - programs that the command has found or built
                [*launcher, *command],
                stdin=subprocess.PIPE if answers else subprocess.DEVNULL,
                stdout=subprocess.PIPE if answers else out,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def line(self, seconds: float) -> str:
        """The next line of its output. Raises `ProcessError`."""
        output = cast("IO[bytes]", self.popen.stdout)
        ready, _, _ = select.select([output], [], [], seconds)
        line = output.readline() if ready else b""
        if not line:
            how = "does not answer" if not ready else "ended"
            raise ProcessError(f"`{self.name}` {how}: {self.last_words()}")
        return line.decode()

    def tell(self, asked: Mapping[str, Any]) -> None:
        """Write a line of JSON to its input. Raises `ProcessError`."""
        to = cast("IO[bytes]", self.popen.stdin)
        try:
            to.write(json.dumps(asked).encode() + b"\n")
            to.flush()
        except OSError as error:
            raise ProcessError(f"`{self.name}` ended: {self.last_words()}") from error

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip()[-400:] if lines else "it wrote nothing"

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


class Sidecar(Process):
    """A real Envoy with an emitted configuration."""

    def __init__(self, name: str, envoy: str, bootstrap: Path, admin: tuple[str, int], network: int | None) -> None:
        command = [envoy, "-c", str(bootstrap), *_OPTIONS, "--service-node", name]
        super().__init__(name, command, bootstrap.parent, network)
        self._envoy = Envoy(name, self.popen, admin, self.log, self.log, name)

    def await_ready(self) -> None:
        """Raises `ProcessError`."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with inside(self._network):
                if self._envoy.ready:
                    return
            if self.popen.poll() is not None or time.monotonic() > deadline:
                raise ProcessError(f"the Envoy of `{self.name}` does not start: {self.last_words()}")
            time.sleep(_POLL)

    def memory(self) -> int:
        """Bytes of memory, with its part of the pages that processes share (PSS). Raises `OSError`."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        sizes = dict(line.split()[:2] for line in rollup.splitlines()[1:])
        return int(sizes["Pss:"]) * 1024
