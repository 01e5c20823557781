"""The hops of a program, by number, and the requests that pass each of them.

A hop is one direction and port of an ADM. Decisions of one destination share its hops, and a hop counts once, whatever
policies sit there. Large programs have hundreds of thousands of enforcements, so a hop is a number: the hop of a call
at its sender has the index of the call, and the ports of destinations follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dsl.program import Program, Side
from solver.rules.options import DecisionPoint

HOUR = 3600
"""Seconds in the unit of weights: requests an hour, which keeps slow calls apart in whole numbers."""
DEFAULT_RATE = 1.0
"""Requests a second of a call without a rate."""


class Hop(NamedTuple):
    """One direction and port of the ADM of `service`. At ingress the destination is the service itself."""

    service: str
    side: Side
    destination: str
    port: int


class Hops:
    """All hops of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.weights = [round((DEFAULT_RATE if call.rate is None else call.rate) * HOUR) for call in program.calls]
        """Requests an hour that pass each hop, by its number."""
        self._ports: dict[tuple[str, int], int] = {}
        self._names: list[tuple[str, int]] = []
        for index, call in enumerate(program.calls):
            hop = self._at_ingress(call.destination, call.port.number)
            self.weights[hop] += self.weights[index]

    def _at_ingress(self, destination: str, port: int) -> int:
        key = destination, port
        hop = self._ports.get(key)
        if hop is None:
            hop = self._ports[key] = len(self.weights)
            self.weights.append(0)
            self._names.append(key)
        return hop

    def of(self, point: DecisionPoint, side: Side) -> Iterable[int]:
        """Hops that a decision at `side` needs."""
        if side is Side.EGRESS:
            return point.calls
        return [self._at_ingress(point.destination, port) for port in point.ports]

    def name(self, hop: int) -> Hop:
        calls = self.program.calls
        if hop < len(calls):
            call = calls[hop]
            return Hop(call.source, Side.EGRESS, call.destination, call.port.number)
        destination, port = self._names[hop - len(calls)]
        return Hop(destination, Side.INGRESS, destination, port)
