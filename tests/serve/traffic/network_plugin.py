"""Applies the NetworkPolicies that a server requests, as an operator of a cluster does, and confirms them.

    STATE/network-policies/*/network-policy.yaml -> rules of the mesh's node -> STATE/network-policies/*/applied

It goes on while the server is killed. Connections that are open when a NetworkPolicy comes stay open.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from admc.base.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.testbed.mesh.mesh import Mesh

LOOK_SECONDS = 0.1


class Requested(NamedTuple):
    """The files of one destination."""

    digest: bytes
    policy: bytes


class Applied(NamedTuple):
    """The NetworkPolicies of some time."""

    began: float
    """Before the first rule was loaded."""
    whole: float
    """After the last one."""
    policies: tuple[Mapping[str, Any], ...]


class NetworkPlugin:
    """Looks at the files while `running`, or when `look` is called."""

    def __init__(self, mesh: Mesh, state: Path, delay: Callable[[], float]) -> None:
        """`delay` says how many seconds after a change of a file it is applied."""
        self._mesh, self._folder, self._delay = mesh, state / "network-policies", delay
        self._present: dict[str, Requested] = {}
        self._due: dict[str, tuple[Requested | None, float]] = {}
        """Destination -> what to apply there next, or None to remove its NetworkPolicy; and when."""
        self.history: list[Applied] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        done = threading.Event()

        def run() -> None:
            while not done.wait(LOOK_SECONDS):
                self.look()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def look(self) -> None:
        """Apply what is due, and confirm what holds."""
        wanted = self._requested()
        if wanted is None:
            return
        now = time.monotonic()
        for name in wanted.keys() | self._present.keys():
            goal = wanted.get(name)
            if goal == self._present.get(name):
                self._due.pop(name, None)
            elif name not in self._due or self._due[name][0] != goal:
                self._due[name] = (goal, now + self._delay())
        due = {name: goal for name, (goal, at) in self._due.items() if at <= now}
        if due:
            self._apply(due)
        for name, holds in self._present.items():
            if wanted.get(name) == holds:
                self._confirm(name, holds.digest)

    def _apply(self, due: Mapping[str, Requested | None]) -> None:
        present = {**self._present, **due}
        self._present = {name: goal for name, goal in present.items() if goal is not None}
        for name in due:
            del self._due[name]
        policies = tuple(yaml.safe_load(goal.policy) for goal in self._present.values())
        began = time.monotonic()
        self._mesh.enforce(policies)
        self.history.append(Applied(began, time.monotonic(), policies))

    def _confirm(self, name: str, digest: bytes) -> None:
        own = self._folder / name
        applied = own / "applied"
        if own.is_dir() and not (applied.exists() and applied.read_bytes() == digest):
            write_whole(applied, digest)

    def _requested(self) -> dict[str, Requested] | None:
        """None while the server writes them."""
        found = {}
        for digest in self._folder.glob("*/digest"):
            try:
                own = Requested(digest.read_bytes(), (digest.parent / "network-policy.yaml").read_bytes())
            except FileNotFoundError:
                return None
            if hashlib.sha256(own.policy).hexdigest().encode() != own.digest.strip():
                return None
            found[digest.parent.name] = own
        return found
