"""A real `admc serve` in a process of its own, with its log and its HTTP endpoints."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from admc.testbed.envoys import LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ADMC = ("-m", "admc")
SECONDS = 60.0
"""On a loaded machine the first compile loads everything anew."""


@dataclass
class Served:
    process: subprocess.Popen[bytes]
    log: Path
    xds: str = ""
    ops: str = ""
    _events: list[dict[str, Any]] = field(default_factory=list)

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        """What it has logged, every line of it valid JSON."""
        text = self.log.read_bytes()
        lines = text[: text.rfind(b"\n") + 1].splitlines()
        found = [json.loads(line) for line in lines]
        return found if name is None else [event for event in found if event["event"] == name]

    def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """The condition's first true value; an error with the log if there is none in time."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}:\n{self.log.read_text()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"in vain:\n{self.log.read_text()}")
            time.sleep(0.02)
        return found

    def until_event(self, name: str, count: int = 1) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.until(
            lambda: (e := self.events(name)) if len(self.events(name)) >= count else None
        )
        return found[count - 1]

    def listens(self) -> None:
        """Wait until it does."""
        said = self.until_event("listening")
        self.xds, self.ops = said["xds"], said["ops"]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.ops}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/status.json")[1])
        return found

    def metric(self, name: str) -> float:
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise AssertionError(f"there is no metric {name}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


def of(checkout: Path | None) -> tuple[str, ...]:
    """The command before `admc` by which its server is that of another working copy."""
    return () if checkout is None else ("/usr/bin/env", f"PYTHONPATH={checkout}")


@contextlib.contextmanager
def served(
    folder: Path,
    *arguments: str,
    xds: str = "127.0.0.1:0",
    plaintext: bool = True,
    before: tuple[str, ...] = (),
    entry: tuple[str, ...] = ADMC,
    stands_by: bool = False,
) -> Iterator[Served]:
    """Run `admc serve ARGUMENTS` in a folder until the block ends; it listens by then, or stands by. `before` is a
    command that becomes the one that it is given. `entry` is what Python runs."""
    log = folder / "serve.log"
    options = [*arguments, "--xds", xds, "--ops", "127.0.0.1:0", *(["--plaintext"] if plaintext else [])]
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
    launcher += [*before, sys.executable, *entry, "serve"]
    with log.open("wb") as errors:
        process = subprocess.Popen([*launcher, *options], cwd=folder, stderr=errors, stdin=subprocess.DEVNULL)
    it = Served(process, log)
    try:
        if stands_by:
            it.until_event("standing_by")
            it.ops = it.until_event("ops_listening")["ops"]
        else:
            it.listens()
        yield it
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
