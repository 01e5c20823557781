"""The hops of a program, by number, and the requests that pass each of them.

A hop is one direction and port of an ADM. Decisions of one destination share its hops, and a hop counts once for all
policies there. Large programs have hundreds of thousands of enforcements, so hops are numbers:

    egress of a call's sender           the index of the call
    ingress at a port of a destination   the following numbers
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dsl.program import Program, Side
from solver.placement import Cost, Hop
from solver.rules.options import DecisionPoint

HOUR = 3600
"""The weights count requests an hour, so that slow calls have different whole numbers."""
DEFAULT_RATE = 1.0
"""Requests a second of a call without a rate."""


class Hops:
    """All hops of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.weights = [round((DEFAULT_RATE if call.rate is None else call.rate) * HOUR) for call in program.calls]
        """Requests an hour that pass each hop, by its number."""
        self._ports: dict[tuple[str, int], int] = {}
        self._names: list[str] = []
        for index, call in enumerate(program.calls):
            hop = self._at_ingress(call.destination, call.port.number)
            self.weights[hop] += self.weights[index]

    def _at_ingress(self, destination: str, port: int) -> int:
        key = destination, port
        hop = self._ports.get(key)
        if hop is None:
            hop = self._ports[key] = len(self.weights)
            self.weights.append(0)
            self._names.append(destination)
        return hop

    def of(self, point: DecisionPoint, side: Side) -> Iterable[int]:
        """Hops that a decision at `side` needs."""
        if side is Side.EGRESS:
            return point.calls
        return [self._at_ingress(point.destination, port) for port in point.ports]

    def service(self, hop: int) -> str:
        """The service whose ADM has a hop."""
        calls = self.program.calls
        return calls[hop].source if hop < len(calls) else self._names[hop - len(calls)]

    def numbered(self, costs: Mapping[Hop, Cost]) -> dict[int, Cost]:
        """The costs of hops, by the number of the hop. Hops at egress without a call are left out."""
        if not costs:
            return {}
        calls = {
            (call.source, call.destination, call.port.number): index for index, call in enumerate(self.program.calls)
        }
        numbered: dict[int, Cost] = {}
        for (service, side, destination, port), cost in costs.items():
            if side is Side.INGRESS:
                numbered[self._at_ingress(destination, port)] = cost
            elif (service, destination, port) in calls:
                numbered[calls[service, destination, port]] = cost
        return numbered
