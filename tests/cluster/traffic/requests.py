"""What callers print about their requests, read all the time from the files in which the kubelet keeps it on the node.

No API server is needed for that. A file that is open is read to its end, also when its pod and the file are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LOOK_SECONDS: Final = 0.1
_IS_REQUEST: Final = re.compile(rb"\S+ stdout F \{.*\}")


class Sent(NamedTuple):
    """One request."""

    began: float
    pod: str
    kind: str
    met: tuple[str, ...] | None
    """The values of the header where it arrived; None: it failed."""
    error: str
    line: Mapping[str, Any]
    """All that the caller printed."""


@dataclass
class _File:
    pod: str
    descriptor: int
    rest: bytes = b""

    def lines(self) -> Iterator[bytes]:
        """The whole lines that are new."""
        while content := os.read(self.descriptor, 2**16):
            *found, self.rest = (self.rest + content).split(b"\n")
            yield from found


class Requests:
    """The requests of all pods with a container of a name, in a thread of its own."""

    def __init__(self, logs: Path, namespace: str, container: str) -> None:
        """`logs` is the node's `/var/log`."""
        self._pods, self._namespace, self._container = logs / "pods", namespace, container
        self._files: dict[int, _File] = {}
        """By number of the file, which stays when its name goes to another one."""
        self._found: list[Sent] = []
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for each in self._files.values():
            os.close(each.descriptor)
        self._files.clear()

    def between(self, since: float = 0.0, until: float = float("inf")) -> list[Sent]:
        """By the time at which they began."""
        self._read()
        with self._turn:
            found = [each for each in self._found if since <= each.began < until]
        return sorted(found, key=lambda each: each.began)

    def _follow(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._read()

    def _read(self) -> None:
        with self._turn:
            for path in self._pods.glob(f"{self._namespace}_*/{self._container}/*.log"):
                self._open(path)
            for each in self._files.values():
                self._found.extend(_sent(each.pod, line) for line in each.lines() if _IS_REQUEST.fullmatch(line))

    def _open(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino not in self._files:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._files[os.fstat(descriptor).st_ino] = _File(path.parts[-3].split("_")[1], descriptor)


def _sent(pod: str, line: bytes) -> Sent:
    """`TIME stdout F {"began": ...}`"""
    found = json.loads(line.split(b" ", 3)[3])
    met = tuple(found["met"]) if "met" in found else None
    return Sent(found["began"], pod, found["kind"], met, found.get("error", ""), found)
