"""Runs the services of a layout, its sidecars, and the programs that send the load.

Layout, Tools -> Bed -> [Bed.measure] -> Measured, slice after slice
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.cost.measurement.layout import PATH, Destination, Layout
from admc.cost.measurement.network import Network
from admc.cost.measurement.processes import READY_SECONDS, Process, Sidecar
from admc.cost.measurement.stolen import Ticks
from emitters.envoy import Mode
from emitters.ports import ADMIN_PORT

if TYPE_CHECKING:
    from dsl.program import Protocol

_MOST_SECONDS: Final = 25.0
"""Seconds that a slice may take beyond its length: a request is given up after 10 s."""


class Tools(NamedTuple):
    """The paths of the programs that run."""

    envoy: str
    app: str
    """Sends the load, and serves it."""


class Load(NamedTuple):
    """Requests to one destination."""

    to: Destination
    rate: float
    size: int


class Received(NamedTuple):
    """What one load measured."""

    sent: int
    failed: int
    error: str
    latency: float
    """Median in microseconds from the intended time of sending."""
    late: float
    """Median in microseconds by which requests were sent late."""


class Measured(NamedTuple):
    loads: tuple[Received, ...]
    seconds: float
    cpu: dict[str, float]
    """Seconds of CPU by pod."""
    stolen: float
    """The part of the time of all cores that the host took away during the slice."""


class Bed:
    """A context: all processes run inside it, and have ended after it."""

    def __init__(self, layout: Layout, folder: Path, tools: Tools) -> None:
        self.layout = layout
        self._folder = folder
        self._tools = tools
        self._network = Network(layout)
        self._senders: dict[str, Process] = {}
        self._services: dict[str, Process] = {}
        self.sidecars: dict[str, Sidecar] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Bed:
        """Raises `ProcessError`, `NetworkError`, `OSError`, `EmitError`."""
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        self.layout.tapped.mkdir(parents=True, exist_ok=True)
        files = self.layout.files()
        for name, content in files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if self.layout.mode.redirected:
            stack.callback(self._network.close)
            self._network.build(files)
        for place, config in self.layout.services().items():
            path = self._folder / f"{place}.json"
            path.write_text(json.dumps(config))
            self._services[place] = self._process(
                stack, f"service-{place}", [self._tools.app, "serve", str(path)], place
            )
        for pod in self.layout.pods:
            self._launch(stack, pod)
        for sender in self.layout.senders:
            command = [self._tools.app, "measure"]
            if self.layout.mode is Mode.EXPLICIT:
                command.append(self.layout.addresses.pod_addresses(sender)[0])
            self._senders[sender] = self._process(stack, f"load-{sender}", command, sender)
        for process in (*self._services.values(), *self._senders.values()):
            process.line(READY_SECONDS)
        for sidecar in self.sidecars.values():
            sidecar.await_ready()

    def _process(self, stack: ExitStack, name: str, command: list[str], place: str) -> Process:
        made = Process(name, command, self._folder, self._network.places.get(place), answers=True)
        stack.callback(made.end)
        return made

    def _launch(self, stack: ExitStack, pod: str) -> None:
        explicit = self.layout.mode is Mode.EXPLICIT
        admin = self.layout.addresses.pod_addresses(pod)[0] if explicit else "127.0.0.1"
        bootstrap = self._folder / pod / "bootstrap.yaml"
        made = Sidecar(pod, self._tools.envoy, bootstrap, (admin, ADMIN_PORT), self._network.places.get(pod))
        stack.callback(made.end)
        self.sidecars[pod] = made

    def measure(self, loads: Sequence[Load], seconds: float, warm: float, pods: Sequence[str]) -> Measured:
        """Measure a slice, and the CPU of the sidecars of `pods`. All loads have one sender. Raises `ProcessError`."""
        sender = self._senders[loads[0].to.sender if loads else next(iter(self._senders))]
        sidecars = [self.sidecars[pod] for pod in pods]
        before = Ticks.now()
        sender.tell(
            {
                "streams": [_stream(load) for load in loads],
                "seconds": seconds,
                "warm": warm,
                "processes": [sidecar.pid for sidecar in sidecars],
            }
        )
        answer: dict[str, Any] = json.loads(sender.line(seconds + warm + _MOST_SECONDS))
        received = tuple(Received(**stream) for stream in answer["streams"] or ())
        cpu = {sidecar.name: float(answer["cpu"][str(sidecar.pid)]) for sidecar in sidecars}
        # Whole per cents are enough: a tick of the clock is about one per cent.
        return Measured(received, float(answer["seconds"]), cpu, round(Ticks.now().share_since(before), 2))

    def forget_taps(self) -> None:
        """Removes what `tap` has written, and keeps its folder."""
        for path in self.layout.tapped.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _stream(load: Load) -> dict[str, Any]:
    to = load.to
    protocol: Protocol = to.protocol
    return {
        "protocol": protocol.value,
        "address": f"{to.address}:{to.port}",
        "authority": to.authority,
        "path": f"{PATH}/{load.size}",
        "size": load.size,
        "headers": dict(to.headers),
        "rate": load.rate,
    }
