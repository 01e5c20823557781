"""The phases of the benchmark, one after the other, each with a bound on its time."""

from __future__ import annotations

import http.client
import re
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tests.bench.cluster import report
from tests.bench.cluster.application import Size, application
from tests.bench.cluster.figures import Figures, Sample, Start, Step, Takeover
from tests.bench.cluster.mesh import Mesh
from tests.bench.cluster.proxies import Proxies, proxies
from tests.bench.cluster.replica import EndedError, Replica
from tests.bench.cost import usage
from tests.bench.errors import SkippedError
from tests.bench.xds.compare import BrokenError
from tests.cluster.api_server import ApiError, api_server
from tests.cluster.many import many_pods
from tests.cluster.process import StartError
from tests.cluster.serve.installation import Installation, installation
from tests.golang import BuildError, MissingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from tests.bench.cluster.proxies import Taken
    from tests.cluster.many import ManyPods

FULL: Final = Size(services=2_000, calls=6_000, policies=120, pods=10_000, clients=500)
TINY: Final = Size(services=20, calls=40, policies=4, pods=60, clients=5)
RATES: Final = (10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 100.0)
"""Replacements a second; the first one is the least that it has to keep up with."""
STEP_SECONDS: Final = 12.0
LATE_SECONDS: Final = 2.0
"""How long after the last pod of a step all addresses have to be acknowledged, for the server to keep up."""
DRAIN_SECONDS: Final = 30.0
"""Until the next step begins all the same."""
SYNC_SECONDS: Final = 120.0
START_SECONDS: Final = 120.0
STATUS_SECONDS: Final = 30.0
PARTS: Final = 10
"""Of the last step; at the end of each, CPU and memory are looked at."""
LIMIT_SECONDS: Final = 7 * 60.0
"""For everything but the last step. What would take longer is left out."""
FAILURES: Final = (EndedError, BrokenError, StartError, ApiError, TimeoutError, OSError, http.client.HTTPException)
SKIPPED: Final = "a server that follows a cluster of 10,000 pods"


def cluster(
    console: Console,
    folder: Path,
    size: Size = FULL,
    *,
    runs: int = 3,
    minutes: float = 5.0,
    rates: Sequence[float] = RATES,
) -> Figures:
    """Measure, and print what was found, also of a run that fails half-way. Raises `SkippedError`."""
    run = _Run(console, folder, size, runs, minutes, rates)
    try:
        run.all()
    except (MissingError, BuildError) as error:
        raise SkippedError(f"{error}. Skipped without it: {SKIPPED}") from None
    except FAILURES as error:
        run.figures.problem = f"{type(error).__name__}: {error}"
    report.show(console, run.figures, size)
    return run.figures


class _Run:
    def __init__(
        self, console: Console, folder: Path, size: Size, runs: int, minutes: float, rates: Sequence[float]
    ) -> None:
        self._console, self._folder, self._size = console, folder, size
        self._runs, self._minutes, self._rates = runs, minutes, rates
        self._began = time.monotonic()
        self._replicas = 0
        self.figures = Figures()

    def all(self) -> None:
        with ExitStack() as stack:
            server = stack.enter_context(api_server())
            many = stack.enter_context(many_pods(server))
            installed = installation(server, self._folder)
            made = application(self._size, installed.namespace)
            self.figures.adms = made.adms
            mesh = Mesh(installed, many, made)
            self._say("services and pods")
            mesh.make()
            installed.program(made.text)
            self.figures.prepared = self._seconds
            active = self._starts(stack, installed)
            clients = stack.enter_context(proxies(installed, self._folder))
            self._connect(active, clients)
            active = self._takeovers(stack, installed, active, clients)
            self._replace(mesh, active, clients, many)
            self.figures.programmed = self._programmed(installed)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _has_time(self, seconds: float) -> bool:
        return self._seconds + seconds < LIMIT_SECONDS

    def _say(self, what: str) -> None:
        self._console.print(f"  {self._seconds:5.0f} s: {what}", style="dim", highlight=False)

    def _replica(self, stack: ExitStack, installed: Installation) -> Replica:
        self._replicas += 1
        made = Replica(installed, self._folder, f"replica-{self._replicas}")
        stack.callback(made.end)
        return made

    def _programmed(self, installed: Installation) -> str:
        """What the status says of the plan, once it says that all is well, or in the end."""
        deadline = time.monotonic() + STATUS_SECONDS
        while True:
            found = installed.condition("Programmed")
            if found[0] == "True" or time.monotonic() > deadline:
                return " ".join(filter(None, found))
            time.sleep(1.0)

    # ---- the first plan ----

    def _starts(self, stack: ExitStack, installed: Installation) -> Replica:
        """Starts a server that finds nothing stored, a few times; the last one stays."""
        for number in range(1, self._runs + 1):
            self._say(f"start {number}")
            active = self._replica(stack, installed)
            in_force = active.until_event("compiled", START_SECONDS)
            ready, read = (active.until_event(name, 1.0) for name in ("standing_by", "cluster_read"))
            compiled = active.events("compiled")[0]["seconds"]
            began = active.began
            self.figures.starts.append(Start(ready - began, read - began, in_force - began, compiled))
            if number == self._runs or not self._has_time(240):
                break
            active.end()
            _forget(installed)
        return active

    def _connect(self, active: Replica, clients: Proxies) -> None:
        self._say("clients")
        began = time.monotonic()
        active.until(lambda: active.is_in_sync(self._size.clients), SYNC_SECONDS, _behind(clients))
        self.figures.connected = time.monotonic() - began

    # ---- takeover ----

    def _takeovers(self, stack: ExitStack, installed: Installation, active: Replica, clients: Proxies) -> Replica:
        for number in range(1, self._runs + 1):
            if number > 1 and not self._has_time(150):
                break
            self._say(f"takeover {number}")
            other = self._replica(stack, installed)
            for name in ("cluster_read", "kept_state_ready"):
                other.until_event(name, START_SECONDS)
            killed = time.time()
            active.end()
            active = other
            took = active.until_event("active", SYNC_SECONDS)
            active.until(lambda: active.is_in_sync(self._size.clients), SYNC_SECONDS, _behind(clients))  # noqa: B023
            self.figures.takeovers.append(Takeover(took - killed, time.time() - killed))
        return active

    # ---- pods that are replaced ----

    def _replace(self, mesh: Mesh, active: Replica, clients: Proxies, many: ManyPods) -> None:
        found = clients.learn()
        self.figures.needed = (
            f"{found['needed']:,} of {found['addresses']:,} addresses are needed by a proxy, by "
            f"{found['pairs'] / max(1, found['needed']):.1f} on average"
        )
        clients.take()
        best = self._rates[0]
        for rate in self._rates:
            if rate > self._rates[0] and not self._has_time(STEP_SECONDS + DRAIN_SECONDS):
                break
            self._say(f"{rate:g} pods a second")
            step = _step(mesh, clients, rate, min(STEP_SECONDS, 60 * self._minutes))
            self.figures.steps.append(step)
            if not step.keeps_up:
                break
            best = rate
        self._say(f"{best:g} pods a second for {self._minutes:g} minutes")
        self._long(mesh, active, clients, many, best)
        active.until(lambda: active.is_in_sync(self._size.clients), SYNC_SECONDS, _behind(clients))
        self.figures.ended_in_sync = True

    def _long(self, mesh: Mesh, active: Replica, clients: Proxies, many: ManyPods, rate: float) -> None:
        figures, seconds = self.figures, 60 * self._minutes / PARTS
        before = active.requests()
        parts: list[Step] = []

        def look() -> None:
            figures.samples.append(Sample(time.monotonic(), active.usage(), _others(clients, many)))

        look()
        for number in range(PARTS):
            last = number == PARTS - 1
            parts.append(_step(mesh, clients, rate, seconds, wait=last))
            figures.long = _together(rate, parts)
            look()
        for name, value in active.requests().items():
            labels = dict(re.findall(r'(\w+)="([^"]*)"', name))
            key = labels.get("verb", ""), labels.get("resource", "")
            figures.requests[key] = figures.requests.get(key, 0.0) + value - before.get(name, 0.0)


def _step(mesh: Mesh, clients: Proxies, rate: float, seconds: float, *, wait: bool = True) -> Step:
    """`wait`: until all addresses are acknowledged."""
    done = mesh.replace(rate, seconds)
    taken = [clients.take()]
    late = 0
    if wait:
        late = _drain(clients, taken, LATE_SECONDS)
        _drain(clients, taken, DRAIN_SECONDS)
    found = [each.seconds for some in taken for each in some.delivered]
    return Step(rate, done.rate, found, late, sum(each.unused for each in taken))


def _drain(clients: Proxies, taken: list[Taken], seconds: float) -> int:
    """Wait until no address is open; returns how many are after so many seconds."""
    deadline = time.monotonic() + seconds
    while taken[-1].open and time.monotonic() < deadline:
        time.sleep(0.05)
        taken.append(clients.take())
    return taken[-1].open


def _together(rate: float, parts: Sequence[Step]) -> Step:
    reached = sum(each.reached for each in parts) / len(parts)
    seconds = [value for each in parts for value in each.seconds]
    return Step(rate, reached, seconds, parts[-1].late, sum(each.unused for each in parts))


def _others(clients: Proxies, many: ManyPods) -> dict[str, float]:
    server = many.server
    return {
        "kube-apiserver": usage.cpu(server.process.pid),
        "etcd": usage.cpu(server.etcd.pid),
        "kwok": usage.cpu(many.kwok.pid),
        "the proxies": clients.cpu,
        "this program": time.process_time(),
    }


def _behind(clients: Proxies) -> str:
    found = clients.status()
    return f"all clients in sync ({found['connected']} of {found['proxies']} connected; {found['failure']})"


def _forget(installed: Installation) -> None:
    """What a server has stored, so that the next one finds nothing."""
    api, namespace, name = installed.api, installed.system, installed.name
    api.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/admc-{name}")
    api.request("DELETE", f"/api/v1/namespaces/{namespace}/secrets?labelSelector=admc.dev%2Fcontroller%3D{name}")
