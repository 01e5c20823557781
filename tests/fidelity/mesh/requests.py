"""One request with the way that it takes: from which replica, to which address, in which family and protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count, product
from typing import TYPE_CHECKING

from dsl.program import Protocol
from tests.fidelity.requests import Ask
from tests.testbed.mesh import Family, Way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Port, Program

IDENTITIES = count(1)
ABSOLUTE = "http://"


@dataclass(frozen=True, slots=True)
class Route:
    """How a request gets there. `replica` is the receiver's, where its pod is dialled."""

    way: Way = Way.SERVICE
    family: Family = Family.IPV4
    sender: int = 0
    replica: int = 0
    version: str = ""
    """`h2c` for a caller that speaks HTTP/2 to an http port; otherwise what the port's protocol says."""
    authority: str = ""
    """What `Host` says where the request has no header `host`; nothing: the destination's name and port."""
    absolute: bool = False
    """The request's target is `http://AUTHORITY/PATH`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`ask.times` is 1, and its words are those of the protocol (`Ask.spoken`)."""

    source: str
    destination: str
    port: Port
    ask: Ask
    route: Route = Route()

    @property
    def protocol(self) -> Protocol:
        return self.port.protocol

    @property
    def authority(self) -> str:
        """What the receiver reads as `host`: the request's own header before the way's."""
        own = next((value for name, value in self.ask.headers if name == "host"), "")
        return own or self.route.authority or f"{self.destination}:{self.port.number}"

    @property
    def target(self) -> str:
        """What stands in the request line."""
        return f"{ABSOLUTE}{self.authority}{self.ask.path}" if self.route.absolute else self.ask.path

    def __str__(self) -> str:
        route = self.route
        how = [str(route.way), str(route.family.value), route.version, "absolute" if route.absolute else ""]
        where = f"{self.source}/{route.sender} -> {self.destination}:{self.port.number}"
        return f"{where} by {', '.join(each for each in how if each)}"


def declared(program: Program, asked: Asked) -> bool:
    """Whether the program says that this call is made."""
    own = (asked.source, asked.destination, asked.port.number)
    return any((call.source, call.destination, call.port.number) == own for call in program.calls)


def routes(program: Program, source: str, destination: str, port: Port) -> tuple[Route, ...]:
    """Every way from one party to another: replicas, addresses, families and versions of http."""
    ends = [program.services.get(name) for name in (source, destination)]
    senders, receivers = (range(end.replicas if end and not end.host_network else 1) for end in ends)
    ways = list(Way) if ends[1] else [Way.SERVICE]
    versions = ["", "h2c"] if port.protocol is Protocol.HTTP else [""]
    return tuple(
        Route(way, family, sender, replica, version)
        for version, way, family, sender, replica in product(versions, ways, Family, senders, receivers)
        if way is Way.POD or replica == 0
    )


def spread(asks: list[Ask], ways: tuple[Route, ...], start: int = 0) -> Iterator[tuple[Ask, Route]]:
    """Each request once, each by the next way."""
    number = start
    for ask in asks:
        for _ in range(ask.times):
            yield replace(ask, times=1), ways[number % len(ways)]
            number += 1
