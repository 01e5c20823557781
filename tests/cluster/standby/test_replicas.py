"""Two replicas as processes at a real API server: one is active, and after each fault one is active again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.api.lease import DEADLINE
from admc.testbed.envoys import LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.api_server import ApiServer

ROOT = Path(__file__).parents[3]
DURATION = 4.0
TAKEOVER = DURATION * 1.5 + 4
"""The Lease has to expire, the next look comes a fifth of it later, and the state is read."""


class Process:
    def __init__(self, server: ApiServer, installation: str, name: str, number: int, folder: Path) -> None:
        self.name, self.address = name, f"10.0.0.{number}"
        self._output, self._log = folder / f"{name}.json", folder / f"{name}.log"
        options = [str(server.kubeconfig), installation, name, self.address, str(DURATION)]
        command = [sys.executable, "-m", "tests.cluster.standby.replica", *options]
        with self._output.open("wb") as output, self._log.open("wb") as log:
            launched = [sys.executable, str(LAUNCHER), str(os.getpid()), *command]
            self.process = subprocess.Popen(launched, stdout=output, stderr=log, cwd=ROOT)

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self._output.read_text().splitlines(keepends=True)
        return [json.loads(line) | {"who": self.name} for line in lines if line.endswith("\n")]

    @property
    def log(self) -> str:
        return self._log.read_text()

    def of(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    @property
    def steps(self) -> int:
        return len(self.of("published"))

    def is_stepping(self) -> bool:
        before = self.steps
        return until(lambda: self.steps > before, 1.5, fails=False)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def until(found: Callable[[], object], seconds: float, *, fails: bool = True) -> bool:
    deadline = time.monotonic() + seconds
    while not found():
        if time.monotonic() > deadline:
            assert not fails, "it did not happen in time"
            return False
        time.sleep(0.05)
    return True


@contextmanager
def replicas(server: ApiServer, installation: str, folder: Path) -> Iterator[tuple[Process, Process]]:
    """The active one first."""
    both = [Process(server, installation, name, number, folder) for number, name in enumerate("ab", 1)]
    try:
        until(lambda: any(each.steps > 2 for each in both), 30)
        active, other = sorted(both, key=lambda each: -each.steps)
        until(lambda: other.of("ready"), 10)
        assert not other.of("active")
        yield active, other
    finally:
        for each in both:
            each.end()


def check(*processes: Process) -> None:
    """No step is taken twice, none is left out, and no two are active at once."""
    published = sorted((each for process in processes for each in process.of("published")), key=lambda e: e["at"])
    steps = [each["step"] for each in published]
    # A step that was stored and not published is the next replica's: it begins with what it has loaded.
    loaded = {each["step"] for process in processes for each in process.of("loaded")}
    assert steps == sorted(set(steps))
    assert all(after == before + 1 or after - 1 in loaded for before, after in pairwise(steps)), steps


def address(server: ApiServer, installation: str) -> str:
    path = f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/admc-{installation}"
    (endpoint,) = server.request("GET", path)["endpoints"]
    (found,) = endpoint["addresses"]
    return str(found)


def test_a_killed_replica_is_replaced(cluster_api: ApiServer, tmp_path: Path) -> None:
    with replicas(cluster_api, "killed", tmp_path) as (active, other):
        assert address(cluster_api, "killed") == active.address
        killed = time.monotonic()
        active.signal(signal.SIGKILL)
        until(lambda: other.steps, TAKEOVER)
        (began,) = other.of("active")
        assert began["at"] - killed > DURATION * 0.7
        until(lambda: address(cluster_api, "killed") == other.address, 5)
        check(active, other)


def test_a_stopped_replica_ends_when_it_goes_on(cluster_api: ApiServer, tmp_path: Path) -> None:
    with replicas(cluster_api, "stopped", tmp_path) as (active, other):
        active.signal(signal.SIGSTOP)
        until(lambda: other.steps > 2, TAKEOVER)
        steps = active.steps
        active.signal(signal.SIGCONT)
        assert active.process.wait(10) == 1
        assert active.steps == steps
        # It sees the other holder of the Lease, or, when it was stopped in a write, the other writer of the Secret.
        assert f"`{other.name}_" in active.of("ends")[0]["why"]
        assert "lease_lost" in active.log
        assert other.is_stepping()
        assert address(cluster_api, "stopped") == other.address
        check(active, other)


def test_a_short_stop_changes_nothing(cluster_api: ApiServer, tmp_path: Path) -> None:
    with replicas(cluster_api, "short", tmp_path) as (active, other):
        active.signal(signal.SIGSTOP)
        time.sleep(DURATION * DEADLINE * 0.5)
        active.signal(signal.SIGCONT)
        assert active.is_stepping()
        assert not other.of("active")
        check(active, other)


def test_an_unreachable_api_server_stops_every_step_until_it_is_back(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path
) -> None:
    server = new_cluster_api()
    with replicas(server, "faults", tmp_path) as (active, other):
        for fault, end in ((server.kill, server.restart), (server.stop_etcd, server.continue_etcd)):
            fault()
            time.sleep(DURATION * DEADLINE + 1)
            before = active.steps + other.steps
            time.sleep(DURATION)
            assert active.steps + other.steps == before
            assert active.process.poll() is None
            end()
            until(lambda before=before: active.steps + other.steps > before + 2, TAKEOVER + 10)  # type: ignore[misc]
            check(active, other)
            if active.process.poll() is not None or not active.is_stepping():
                break  # the other one was first
        assert "lease_lapsed" in active.log


def test_a_lease_that_is_deleted_is_never_held_by_two(cluster_api: ApiServer, tmp_path: Path) -> None:
    with replicas(cluster_api, "deleted", tmp_path) as (active, other):
        active.signal(signal.SIGSTOP)
        cluster_api.request("DELETE", "/apis/coordination.k8s.io/v1/namespaces/default/leases/admc-deleted")
        until(lambda: other.steps > 2, TAKEOVER)
        active.signal(signal.SIGCONT)
        assert active.process.wait(10) == 1
        check(active, other)


def test_a_state_of_another_writer_ends_the_active_one(cluster_api: ApiServer, tmp_path: Path) -> None:
    with replicas(cluster_api, "fenced", tmp_path) as (active, other):
        path = "/api/v1/namespaces/default/secrets/admc-fenced-state"
        patch = {"metadata": {"annotations": {"admc.dev/written-by": "another"}}}
        cluster_api.request("PATCH", path, patch, "application/merge-patch+json")
        assert active.process.wait(10) == 1
        assert "was written by another server, `another`" in active.of("ends")[0]["why"]
        until(lambda: other.steps, TAKEOVER)
        check(active, other)
