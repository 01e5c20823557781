"""A program of many cases, run on loopback: none, full mesh, or compiled. Its result: answers and arrivals at services.

Cases have ports and state of their own, so several are asked at once; what one case asks stays in order.
"""

from __future__ import annotations

import contextlib
import gc
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.testbed.client import Reply, Request, Target, send
from admc.testbed.echo import ID, EchoServices, Endpoint
from admc.testbed.envoys import Envoys
from dsl.program import Protocol
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import static_json
from solver.placement import Placement, Status
from tests.emitters.envoy.support import ENVOY, private
from tests.fidelity.cases import FIRST_PORT, Case
from tests.fidelity.echo_services import DOWN
from tests.fidelity.message import Sent, Sighting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from admc.testbed.echo import Seen
    from dsl.program import Program
    from tests.fidelity.requests import Ask

Config = dict[str, dict[str, Any]]
"""The bootstraps of an application by service, as JSON."""
PATIENCE = 20.0
"""Seconds that a client waits: longer than Envoy's default route timeout of 15 s, which must not apply."""
AT_ONCE = 24
"""Cases that run at the same time."""
SETTLING = 0.8
"""Seconds until the last copies and log lines have arrived."""
NO_ADMS = Placement((), (), (), Status.OPTIMAL, ())
"""No policy is enforced: no mesh at all."""


class Observed(NamedTuple):
    """One request as it was sent, its answer, and its arrivals at services."""

    sent: Sent
    reply: Reply
    sightings: tuple[Sighting, ...]
    beside: int
    """How many others were sent at the same time."""


@dataclass(frozen=True)
class Observation:
    """All observations of a case, in the order of its requests."""

    requests: tuple[Observed, ...]
    counted: Mapping[str, int]
    """Requests that each counting or logging policy reports."""


def observe(
    program: Program,
    placement: Placement,
    cases: Sequence[Case],
    folder: Path,
    change: Callable[[Config], Config] = lambda emitted: emitted,
) -> dict[str, Observation]:
    """Run a program's services and ADMs, ask everything, and collect. Copies of captures go to `folder`/taps.

    The Envoys run what `change` makes of what is emitted.
    """
    addresses = private(loopback(program))
    ports = {(name, port.number): port.protocol.value for name, item in program.services.items() for port in item.ports}
    down = {(DOWN, number) for number, case in enumerate(cases, start=FIRST_PORT) if case.down}
    where = [
        Endpoint(bind.service, bind.number, ports[bind.service, bind.number], bind.address, bind.port)
        for bind in binds(program, placement, addresses)
        if (bind.service, bind.number) not in down
    ]
    targets = {
        (dial.source, dial.destination, dial.number): Target(
            dial.sender, dial.address, dial.port, f"{dial.destination}:{dial.number}"
        )
        for dial in dials(program, placement, addresses)
    }
    folder.mkdir(parents=True, exist_ok=True)
    emitted = {
        resources.service: static_json(resources) for resources in emit(program, placement, addresses, Mode.EXPLICIT)
    }
    paths = {}
    for service, content in change(emitted).items():
        paths[service] = folder / f"{service}.json"
        paths[service].write_text(json.dumps(content))
    with EchoServices(where) as echo, Envoys(folder, ENVOY or "") as envoys:
        envoys.start(paths)
        with _without_pauses(), ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            numbered = list(enumerate(cases, start=FIRST_PORT))
            replies = dict(pool.map(lambda each: (each[1].name, _ask(each[1], each[0], targets)), numbered))
        _settle(echo, envoys, folder)
        seen = _by_name(echo.record.all())
        counted = _counted(envoys, [name for case in cases for name in case.names()], folder)
    found = {}
    for number, case in enumerate(cases, start=FIRST_PORT):
        requests = tuple(
            Observed(sent, reply, _sightings(seen, case, index, reply), beside)
            for index, (sent, reply, beside) in enumerate(replies[case.name])
        )
        of_tcp = seen.get(("tcp", number), [])
        if case.protocol is Protocol.TCP and len(of_tcp) > sum(len(each.sightings) for each in requests):
            requests = (*requests[:-1], requests[-1]._replace(sightings=tuple(of_tcp)))
        found[case.name] = Observation(requests, {name: counted[name] for name in case.names()})
    return found


@contextlib.contextmanager
def _without_pauses() -> Iterator[None]:
    """No garbage collection while requests are timed: with all tests loaded it stops every client for 0.4 s, and that
    looks like a delay of a policy."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _settle(echo: EchoServices, envoys: Envoys, folder: Path) -> None:
    """Until nothing new has come for a while: copies of requests, lines and captures come behind the last answer, and
    later on a busy machine."""

    def there() -> tuple[int, ...]:
        outputs = [envoy.output.stat().st_size for envoy in envoys.running.values()]
        return len(echo.record.all()), *outputs, sum(1 for _ in (folder / "taps").glob("*"))

    deadline = time.monotonic() + PATIENCE
    found = there()
    while time.monotonic() < deadline:
        time.sleep(SETTLING)
        again = there()
        if again == found:
            return
        found = again


def _ask(case: Case, port: int, targets: Mapping[tuple[str, str, int], Target]) -> list[tuple[Sent, Reply, int]]:
    found: list[tuple[Sent, Reply, int]] = []

    def one(ask: Ask, index: int, beside: int) -> tuple[Sent, Reply, int]:
        spoken = ask.spoken(case.protocol)
        headers = spoken.headers
        if case.protocol is not Protocol.TCP:
            headers = (*headers, (ID, f"{case.name}-{index}"))
        request = Request(spoken.method, spoken.path, headers, spoken.body)
        at = time.monotonic()
        reply = send(case.spoken, targets[ask.source, ask.destination, port], request, PATIENCE)
        answered = time.monotonic()
        to = (ask.source, ask.destination, port)
        sent = Sent(*to, spoken.method, spoken.path, headers, spoken.body, at, answered)
        return sent, reply, beside

    for ask in case.asks:
        if ask.pause:
            time.sleep(ask.pause)
        indices = range(len(found), len(found) + ask.times)
        if ask.together:
            with ThreadPoolExecutor(max_workers=ask.times) as pool:
                found += pool.map(lambda index, ask=ask: one(ask, index, ask.times - 1), indices)
        else:
            found += [one(ask, index, 0) for index in indices]
    return found


def _by_name(seen: Sequence[Seen]) -> dict[tuple[str, int] | str, list[Sighting]]:
    """Arrivals by the name of their request; of tcp by port."""
    found: dict[tuple[str, int] | str, list[Sighting]] = {}
    for each in seen:
        headers = tuple((name.lower(), value) for name, value in each.headers)
        sighting = Sighting(each.service, each.port, each.method, each.path, headers, each.body)
        if each.protocol == "tcp":
            found.setdefault(("tcp", each.port), []).append(sighting)
        for name in each.header(ID):
            found.setdefault(name, []).append(sighting)
    return found


def _sightings(
    seen: Mapping[tuple[str, int] | str, list[Sighting]], case: Case, index: int, reply: Reply
) -> tuple[Sighting, ...]:
    if case.protocol is Protocol.TCP:
        greeting = reply.seen
        return () if greeting is None else (Sighting(greeting.service, greeting.port, "", "", (), 0),)
    return tuple(seen.get(f"{case.name}-{index}", ()))


def _counted(envoys: Envoys, names: Sequence[str], folder: Path) -> dict[str, int]:
    """By statistics, by lines on standard output, or by files, whichever a policy leaves."""
    found = dict.fromkeys(names, 0)
    for envoy in envoys.running.values():
        for stat, value in envoy.stats().items():
            parts = stat.split(".")
            if "rbac" in parts and parts[-1] == "allowed":
                name = parts[-2].partition("/")[0]
                if name.endswith("_request_count"):
                    found[name] = found.get(name, 0) + value
        for name in _noted(envoy.output.read_text(errors="replace")):
            found[name] = found.get(name, 0) + 1
    with contextlib.suppress(FileNotFoundError):
        for capture in (folder / "taps").iterdir():
            name = capture.name.partition("_tap_")[0] + "_tap"
            found[name] = found.get(name, 0) + 1
    return found


def _noted(output: str) -> Iterator[str]:
    for line in output.splitlines():
        for start, end in (('"policy":"', '"'), ("policy=", " ")):
            if start in line:
                yield line.partition(start)[2].partition(end)[0].partition("/")[0]
                break
