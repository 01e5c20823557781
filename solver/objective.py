"""What a placement is judged by: the levels of its lexicographic objective, in whole numbers.

Each level is a sum over hosts and over decisions, so a placement's worth is a vector that adds up from its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.program import Metric, Program, Side
from solver.placement import Cost, Costs
from solver.rules.options import Case, senders
from solver.rules.order import sides_of

Vector = tuple[int, ...]
Previous = Mapping[tuple[str, str], tuple[Side, ...]]

_FREE = Cost()
_PROFILED = (Metric.CPU, Metric.LATENCY, Metric.OVERHEAD)
CHANGES = "changes"


class Levels:
    """The levels of one program, and what a host or a choice adds to each."""

    def __init__(self, program: Program, costs: Costs, previous: Previous | None) -> None:
        self.program = program
        self.costs = costs
        self.previous = previous
        profiled = costs.known or bool(costs.adm) or bool(costs.enforcement)
        metrics = list(program.objective)
        if profiled and Metric.CPU not in metrics and Metric.OVERHEAD not in metrics:
            metrics.append(Metric.OVERHEAD)
        self.metrics = tuple(metrics)
        self.names = tuple(metric.value for metric in metrics) + ((CHANGES,) if previous is not None else ())
        self.zero: Vector = (0,) * len(self.names)
        self.hosts_only = not profiled and previous is None
        """Nothing but the hosts is judged, so a cheapest cover is an optimum."""

    def host(self, name: str) -> Vector:
        """What it adds that `name` hosts an ADM."""
        cost = self.costs.adm.get(name, _FREE)
        vector = [self._of_host(metric, name, cost) for metric in self.metrics]
        if self.previous is not None:
            vector.append(0)
        return tuple(vector)

    def _of_host(self, metric: Metric, name: str, cost: Cost) -> int:
        if metric is Metric.ADMS:
            return 1
        if metric is Metric.SIDECARS:
            return self.program.services[name].replicas
        return cost.latency if metric is Metric.LATENCY else cost.cpu

    def choice(self, case: Case, choice: int) -> Vector:
        """What it adds that a case is decided so, its hosts aside."""
        if self.hosts_only:
            return self.zero
        loads = [cost for _, cost in self.loads(case, choice)]
        cpu, latency = sum(cost.cpu for cost in loads), sum(cost.latency for cost in loads)
        vector = [
            0 if metric not in _PROFILED else latency if metric is Metric.LATENCY else cpu for metric in self.metrics
        ]
        if self.previous is not None:
            before = self.previous.get((self.program.policies[case.policy].name, case.destination))
            vector.append(int(before is not None and set(before) != set(sides_of(choice))))
        return tuple(vector)

    def loads(self, case: Case, choice: int) -> list[tuple[str, Cost]]:
        """(host, cost) of each share of a case's work under a choice."""
        policy = self.program.policies[case.policy].name
        found: list[tuple[str, Cost]] = []
        for side in sides_of(choice):
            for host in hosts(case, side, self.program):
                cost = self.costs.enforcement.get((host, side, policy, case.destination))
                if cost is not None:
                    found.append((host, cost))
        return found

    def limit(self, name: str) -> int | None:
        """Most CPU in micro-cores that the ADM of a service may take (R9), or None where nothing is judged."""
        capacity = self.program.services[name].capacity if self.costs.known else None
        return None if capacity is None else round(capacity * 1_000_000)


def hosts(case: Case, side: Side, program: Program) -> Sequence[str]:
    """Services that host an ADM if a case is decided for `side`: none for no call at egress."""
    return (case.destination,) if side is Side.INGRESS else senders(case, program)


def add(*vectors: Vector) -> Vector:
    """Sum of vectors, level by level."""
    return tuple(map(sum, zip(*vectors, strict=True)))
