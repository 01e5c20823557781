"""Adds up the traffic of a hop: rates by size, weights of calls, and connections."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

from admc.cost.model.layout import LoadedHop
from admc.cost.model.prices import Traffic
from dsl.program import Program


class Traffics:
    """The traffic of groups of calls. A hop and its policies mostly have the same calls, so each group is added up
    once."""

    def __init__(self, program: Program) -> None:
        self._calls = program.calls
        self._known: dict[tuple[int, ...], Traffic] = {}

    def of(self, calls: tuple[int, ...]) -> Traffic:
        traffic = self._known.get(calls)
        if traffic is None:
            traffic = self._known[calls] = self._added_up(calls)
        return traffic

    def _added_up(self, calls: tuple[int, ...]) -> Traffic:
        by_size: dict[int | None, float] = {}
        unrated = 0
        for index in calls:
            call = self._calls[index]
            if call.rate is None:
                unrated += 1
            else:
                by_size[call.size] = by_size.get(call.size, 0.0) + call.rate
        return Traffic(fsum(by_size.values()), by_size, len(calls), unrated)


def connections(program: Program, hop: LoadedHop) -> int:
    """The fewest connections that a hop has: one for each replica of a caller, and one for an external."""
    sources = [program.calls[index].source for index in hop.calls]
    return sum(program.services[name].replicas if name in program.services else 1 for name in sources)


def weights_of(program: Program, calls: Iterable[int]) -> list[float]:
    """The rates of calls as weights; a call without a rate counts as 1/s."""
    return [1.0 if (rate := program.calls[index].rate) is None else rate for index in calls]
