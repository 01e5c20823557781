"""Requests sent through a bed one after another, and all that came of them."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from admc.testbed.client import Request
from admc.testbed.echo import ID
from dsl.program import Protocol
from tests.fidelity.compare import Difference
from tests.fidelity.mesh.admitting import Fate
from tests.fidelity.mesh.requests import IDENTITIES
from tests.fidelity.message import Sent, Sighting
from tests.testbed.mesh import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from admc.testbed.client import Reply
    from admc.testbed.echo import Seen
    from tests.fidelity.mesh.admitting import Knock, Network
    from tests.fidelity.mesh.requests import Asked
    from tests.testbed.mesh import Arrival, Mesh

LINE = re.compile(r'"?policy"?[:=]"?(?P<policy>[^" ,]+)')
DESTINATION = re.compile(r'"?destination"?[:=]"?(?P<destination>[^" ,]+)')
"""In a line of a log, as text and as JSON."""
STABLE, SETTLED = 0.15, 20.0
"""Seconds without anything new after which nothing more comes, and the longest wait for that."""
PATIENT, SHORT = 10.0, 1.0
"""Seconds that a caller waits for an answer: usually, and where none is to come."""
AT_ONCE = 100
"""How many callers wait at the same time for an answer that is not to come."""
LOOKS = 5
"""How often one could look at least in the time without anything new."""


class Found(NamedTuple):
    """One request, its answer, and what reached services on its behalf."""

    asked: Asked
    sent: Sent
    reply: Reply
    arrivals: tuple[Arrival, ...]
    alike: frozenset[tuple[str, int]] = frozenset()
    """What the process may call the port that was asked."""

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """Of tcp the one that greeted: connections have no names."""
        if self.asked.protocol is Protocol.TCP:
            seen = self.reply.seen
            return () if seen is None else (Sighting(seen.service, self._port(seen), "", "", (), 0),)
        return tuple(self._sighting(each.seen) for each in self.arrivals)

    def _sighting(self, seen: Seen) -> Sighting:
        headers = tuple((name.lower(), value) for name, value in seen.headers)
        return Sighting(seen.service, self._port(seen), seen.method, seen.path, headers, seen.body)

    def _port(self, seen: Seen) -> int:
        """Of the ports that lead to one socket a process knows one only: then the caller's own."""
        return self.asked.port.number if (seen.service, seen.port) in self.alike else seen.port


@dataclass(frozen=True)
class Run:
    """All of one run."""

    requests: tuple[Found, ...]
    counted: Mapping[tuple[str, str], int]
    """How often a policy that counts or notes says that it was met, by policy and destination."""
    connections: Mapping[tuple[str, int], int]
    """How many tcp connections reached a service, by service and port."""


def send(mesh: Mesh, asked: Asked, network: Network, patience: float) -> tuple[Sent, Reply]:
    """One request, with an identity of its own where its protocol has headers."""
    ask, route = asked.ask, asked.route
    headers = ask.headers
    if asked.protocol is not Protocol.TCP:
        headers = (*headers, (ID, f"m{next(IDENTITIES)}"))
    at = time.monotonic()
    reply = mesh.request(
        asked.source,
        asked.destination,
        Request(ask.method, asked.target, headers, ask.body),
        port=asked.port.number,
        way=route.way,
        family=route.family,
        protocol=route.version or None,
        authority=asked.authority,
        source_replica=route.sender,
        replica=route.replica,
        timeout=patience,
    )
    answered = time.monotonic()
    path = (
        asked.target if _untouched(mesh, asked, network) else asked.ask.path
    )  # Envoy hands on the path alone, and the host
    to = (asked.source, asked.destination, asked.port.number)
    return Sent(*to, ask.method, path, headers, ask.body, at, answered, patience), reply


def _untouched(mesh: Mesh, asked: Asked, network: Network) -> bool:
    """Whether no proxy is in the way: nowhere without a mesh, and as compiled where no policy is at an ADM."""
    return network.is_direct(asked) if mesh.mode.is_compiled else mesh.mode is Mode.NONE


def observe(
    mesh: Mesh,
    asks: Iterable[Asked],
    network: Network,
    counting: Sequence[str] = (),
    *,
    patience: float = PATIENT,
    at_once: int = 1,
) -> Run:
    """Ask everything in order, or so many `at_once` where no policy keeps state. `counting` are the policies whose
    marks are read.

    What is to be dropped has no answer, and a caller would wait for long. So it waits for a short while: an answer that
    it should not have comes at once. Those that meet no policy of their sender wait all together, at the end.
    """
    mesh.arrivals(forget=True)
    before = counts(mesh, counting)
    in_turn: list[Asked] = []
    dropped: list[Asked] = []
    for asked in asks:
        alone = network.of(asked) is Fate.ADMITTED or network.meets_senders(asked)
        (in_turn if alone else dropped).append(asked)

    def sent(asked: Asked) -> tuple[Asked, Sent, Reply]:
        return asked, *send(mesh, asked, network, patience if network.of(asked) is Fate.ADMITTED else SHORT)

    answers: list[tuple[Asked, Sent, Reply]] = []
    for every, number in ((in_turn, at_once), (dropped, AT_ONCE)):
        with ThreadPoolExecutor(number) as pool:
            answers += pool.map(sent, every)
    arrivals = settled(mesh)
    after = counts(mesh, counting)
    by_name: dict[str, list[Arrival]] = {}
    connections: dict[tuple[str, int], int] = {}
    for each in arrivals:
        if each.seen.protocol == "tcp":
            key = (each.seen.service, each.seen.port)
            connections[key] = connections.get(key, 0) + 1
        for name in each.seen.header(ID):
            by_name.setdefault(name, []).append(each)
    found = []
    for asked, request, reply in answers:
        names = [value for name, value in request.headers if name == ID]
        found.append(
            Found(asked, request, reply, tuple(by_name.get(names[0], ()) if names else ()), _alike(mesh, asked))
        )
    marks = {key: after.get(key, 0) - before.get(key, 0) for key in after}
    return Run(tuple(found), marks, connections)


def _alike(mesh: Mesh, asked: Asked) -> frozenset[tuple[str, int]]:
    service = mesh.program.services.get(asked.destination)
    ports = service.ports if service else ()
    return frozenset((asked.destination, port.number) for port in ports if port.target == asked.port.target)


def settled(mesh: Mesh) -> list[Arrival]:
    """What has reached services, once nothing new comes: for longer where the machine is so busy that a look takes
    long."""
    began = time.monotonic()
    found = mesh.arrivals()
    pause = max(STABLE, LOOKS * (time.monotonic() - began))
    while time.monotonic() < began + SETTLED:
        time.sleep(pause)
        again = mesh.arrivals()
        if len(again) == len(found):
            return again
        found = again
    return found


def counts(mesh: Mesh, names: Sequence[str]) -> dict[tuple[str, str], int]:
    """By statistics or by lines on standard output, whichever a policy leaves; all replicas together."""
    found: dict[tuple[str, str], int] = {}
    for proxy in mesh.proxies.values() if names else ():
        for stat, value in proxy.stats().items():
            parts = stat.split(".")
            if "rbac" in parts and parts[-1] == "allowed":
                name, _, destination = ".".join(parts[parts.index("rbac") + 1 : -1]).partition("/")
                _add(found, name, destination, value, names)
        for line in proxy.output.read_text(errors="replace").splitlines():
            if noted := LINE.search(line):
                _add(found, noted["policy"], _destination(line), 1, names)
    return found


def _destination(line: str) -> str:
    said = DESTINATION.search(line)
    return said["destination"] if said else ""


def _add(found: dict[tuple[str, str], int], name: str, destination: str, value: int, names: Sequence[str]) -> None:
    if name in names:
        found[name, destination] = found.get((name, destination), 0) + value


def unlike(mesh: Mesh, knocks: Sequence[Knock], network: Network, patience: float = PATIENT) -> list[Difference]:
    """Packets that got where they should not, or did not where they should."""

    def differs(knock: Knock) -> Difference | None:
        address = mesh.place(knock.destination, knock.replica or 0).address(knock.family)
        assert address is not None, f"{knock}: there is no such address"
        fate = network.fate(knock)
        wait = patience if fate is Fate.ADMITTED else SHORT
        to = (knock.source, address, knock.transport, knock.number)
        found = Fate.ADMITTED if mesh.reaches(*to, replica=knock.sender, timeout=wait) else Fate.DROPPED
        return Difference(str(knock), str(fate), str(found)) if found is not fate else None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [found for found in pool.map(differs, knocks) if found is not None]
