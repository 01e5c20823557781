"""The levels of the lexicographic objective, in whole numbers.

Each level is a sum over hosts and over decisions, so the value of a placement is the sum of the vectors of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.program import Metric, Program, Side
from solver.placement import Cost, Costs
from solver.rules.options import DecisionPoint, senders
from solver.rules.order import sides_of

Vector = tuple[int, ...]
Previous = Mapping[tuple[str, str], tuple[Side, ...]]

_FREE = Cost()
_PROFILED = (Metric.CPU, Metric.LATENCY, Metric.OVERHEAD)
CHANGES = "changes"


class Levels:
    """The levels of one program, and the amount that each host and each choice adds to them."""

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
        """The objective depends on hosts alone, so a cheapest cover is an optimum."""

    def host(self, name: str) -> Vector:
        """The amount that each level grows by if `name` hosts an ADM."""
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

    def choice(self, point: DecisionPoint, choice: int) -> Vector:
        """The amount that each level grows by with this choice, without that of its hosts."""
        if self.hosts_only:
            return self.zero
        loads = [cost for _, cost in self.loads(point, choice)]
        cpu, latency = sum(cost.cpu for cost in loads), sum(cost.latency for cost in loads)
        vector = [
            0 if metric not in _PROFILED else latency if metric is Metric.LATENCY else cpu for metric in self.metrics
        ]
        if self.previous is not None:
            before = self.previous.get((self.program.policies[point.policy].name, point.destination))
            vector.append(int(before is not None and set(before) != set(sides_of(choice))))
        return tuple(vector)

    def loads(self, point: DecisionPoint, choice: int) -> list[tuple[str, Cost]]:
        """(host, cost) of each share of a decision's work under a choice."""
        policy = self.program.policies[point.policy].name
        found: list[tuple[str, Cost]] = []
        for side in sides_of(choice):
            for host in hosts(point, side, self.program):
                cost = self.costs.enforcement.get((host, side, policy, point.destination))
                if cost is not None:
                    found.append((host, cost))
        return found

    def limit(self, name: str) -> int | None:
        """Most CPU in micro-cores that the ADM of a service may take (R9), or None without a capacity or costs."""
        capacity = self.program.services[name].capacity if self.costs.known else None
        return None if capacity is None else round(capacity * 1_000_000)


def hosts(point: DecisionPoint, side: Side, program: Program) -> Sequence[str]:
    """Services that host an ADM if a decision is at `side`. At egress without calls there are none."""
    return (point.destination,) if side is Side.INGRESS else senders(point, program)


def add(*vectors: Vector) -> Vector:
    """Sum of vectors, level by level."""
    return tuple(map(sum, zip(*vectors, strict=True)))
