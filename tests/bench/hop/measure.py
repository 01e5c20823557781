"""Measures the CPU of an Envoy for each request, for several configurations of one hop in turns.

    configurations by name -> Envoys, one each, that all run -> rounds: a slice of load on each -> CPU of each slice

All Envoys are in front of the same service, and only one has load at a time. CPU time of the process is read from
`/proc`, so other work on the machine counts only as far as it takes caches away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import comb
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import yaml

from admc.cost.measurement.bed import Tools
from admc.cost.measurement.design import in_turn
from admc.cost.measurement.layout import PATH, TARGET, Arm, Layout
from admc.cost.measurement.processes import READY_SECONDS, Process, ProcessError, Sidecar
from dsl.program import Protocol, Side
from emitters.envoy import Mode
from emitters.envoy.messages.typed import Json
from emitters.ports import ADMIN_PORT

SIZE: Final = 1024
"""Bytes of a request's body, and of its answer's."""
CALLERS: Final = 16
WARM: Final = 0.04
SECONDS: Final = 0.12
"""Slices are short, so that configurations are compared under the same other work of the machine."""
_MOST_SECONDS: Final = 20.0
_CONFIDENCE: Final = 0.95


class Load(NamedTuple):
    """Callers that send one request after another."""

    protocol: Protocol
    version: int
    """Of HTTP."""
    connections: int

    def __str__(self) -> str:
        return f"{self.protocol}, HTTP/{self.version}"


LOADS: Final = (Load(Protocol.HTTP, 1, CALLERS), Load(Protocol.HTTP, 2, 4), Load(Protocol.GRPC, 2, 4))


class Difference(NamedTuple):
    """A median of paired differences and its interval; for too few pairs that is infinite."""

    median: float
    low: float
    high: float


class Slice(NamedTuple):
    cpu: float
    """Microseconds for each request."""
    failed: int
    error: str


def layout(names: Sequence[str], folder: Path) -> Layout:
    """A pod with a bare http hop and a bare grpc hop at ingress for each name."""
    arms = [
        Arm(f"{protocol} {name}", name, Side.INGRESS, protocol)
        for name in names
        for protocol in (Protocol.HTTP, Protocol.GRPC)
    ]
    return Layout(tuple(arms), Mode.EXPLICIT, (SIZE,), folder / "tapped")


class Bench:
    """Envoys with one configuration each, their services, and the programs that send load to them."""

    def __init__(self, changes: Mapping[str, Callable[[Json], Json]], folder: Path, tools: Tools, load: str) -> None:
        """`changes`: by name, from the emitted configuration to that which is measured. `load`: the path of the
        program."""
        self._changes = changes
        self._layout = layout(list(changes), folder)
        self._folder = folder
        self._tools = tools
        self._load = load

    @contextmanager
    def running(self) -> Iterator[Callable[[str, Load, float], Slice]]:
        """The function measures a slice of so many seconds. Raises `ProcessError`."""
        with ExitStack() as stack:
            sidecars = self._start(stack)
            senders: dict[tuple[str, Load], Process] = {}

            def measure(name: str, load: Load, seconds: float) -> Slice:
                if (name, load) not in senders:
                    senders[name, load] = self._sender(stack, name, load)
                sender = senders[name, load]
                _answer(sender, WARM)
                before = cpu_seconds(sidecars[name].pid)
                answer = _answer(sender, seconds)
                spent = cpu_seconds(sidecars[name].pid) - before
                return Slice(spent / max(answer["answered"], 1) * 1e6, answer["failed"], answer["error"])

            yield measure

    def _start(self, stack: ExitStack) -> dict[str, Sidecar]:
        files = self._layout.files()
        for name, change in self._changes.items():
            path = self._folder / name / "bootstrap.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            changed = change(yaml.safe_load(files[f"{name}/bootstrap.yaml"]))
            path.write_text(json.dumps(changed))
        services = []
        for place, config in self._layout.services().items():
            if place == TARGET:
                continue
            path = self._folder / f"{place}.json"
            path.write_text(json.dumps(config))
            services.append(self._process(stack, f"service-{place}", [self._tools.app, "serve", str(path)]))
        sidecars = {}
        for name in self._changes:
            admin = self._layout.addresses.pod_addresses(name)[0]
            bootstrap = self._folder / name / "bootstrap.yaml"
            sidecars[name] = Sidecar(name, self._tools.envoy, bootstrap, (admin, ADMIN_PORT), None)
            stack.callback(sidecars[name].end)
        for service in services:
            service.line(READY_SECONDS)
        for sidecar in sidecars.values():
            sidecar.await_ready()
        return sidecars

    def _sender(self, stack: ExitStack, name: str, load: Load) -> Process:
        arm = next(arm for arm in self._layout.arms if (arm.pod, arm.protocol) == (name, load.protocol))
        to = self._layout.through(arm)
        content = "application/grpc" if load.protocol is Protocol.GRPC else "text/plain"
        what = [str(load.version), content, f"{to.address}:{to.port}", to.authority, f"{PATH}/{SIZE}", str(SIZE)]
        command = [self._load, *what, str(CALLERS), str(load.connections)]
        sender = self._process(stack, f"load-{name}-{load.protocol}-{load.version}", command)
        sender.line(READY_SECONDS)
        return sender

    def _process(self, stack: ExitStack, name: str, command: list[str]) -> Process:
        made = Process(name, command, self._folder, None, answers=True)
        stack.callback(made.end)
        return made


def rounds(
    measure: Callable[[str, Load, float], Slice], names: Sequence[str], number: int
) -> dict[Load, dict[str, list[float]]]:
    """By load and name, microseconds of CPU for each request in each round. Raises `ProcessError` if requests fail."""
    found: dict[Load, dict[str, list[float]]] = {load: {name: [] for name in names} for load in LOADS}
    for turn in range(number):
        for load in LOADS:
            for name in in_turn(names, turn):
                measured = measure(name, load, SECONDS)
                if measured.failed:
                    raise ProcessError(f"{measured.failed} requests of {load} failed at `{name}`: {measured.error}")
                found[load][name].append(measured.cpu)
    return found


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Of pairs, ours less theirs. The interval is that of the median by order statistics: it holds for any
    distribution.

    >>> difference([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0] * 6)
    Difference(median=3.5, low=1.0, high=6.0)
    """
    values = sorted(a - b for a, b in zip(ours, theirs, strict=True))
    number = len(values)
    out, tail = 0, 0.0
    while out < number and (tail := tail + comb(number, out) / 2**number) <= (1 - _CONFIDENCE) / 2:
        out += 1
    if out == 0:
        return Difference(median(values), float("-inf"), float("inf"))
    return Difference(median(values), values[out - 1], values[number - out])


def cpu_seconds(pid: int) -> float:
    """CPU of all threads of a process."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _answer(sender: Process, seconds: float) -> Mapping[str, int | str]:
    sender.tell({"seconds": seconds})
    answer: Mapping[str, int | str] = json.loads(sender.line(seconds + _MOST_SECONDS))
    return answer
