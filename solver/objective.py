"""The levels of the lexicographic objective, in whole numbers.

Each level is a sum over hosts, hops, closed destinations and decisions, so the value of a placement is the sum of the
vectors of its parts. With an earlier plan, two more levels follow, which no plan contains:

    1. the sidecars that are added or removed, minus the sidecars of the earlier plan, so that a host which remains has
       a negative amount
    2. the decisions that move
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from dsl.program import Metric, Place, Program, Reliance, Side
from solver.hops import Hops
from solver.placement import NANO, Cost, Costs, Previous
from solver.rules.options import DecisionPoint, senders

Vector = tuple[int, ...]
Shared = int | str
"""A hop by its number, or a destination that is closed to undeclared callers by its name. Decisions share them."""

_FREE = Cost()


class Levels:
    """The levels of one program, and the amount that each host, hop and choice adds to them."""

    def __init__(self, program: Program, costs: Costs, previous: Previous | None) -> None:
        self.program = program
        self.costs = costs
        self.previous = previous
        self.hops = Hops(program)
        self.hop_costs = self.hops.numbered(costs.hop)
        self.metrics = minimized(program.objective, measured=costs.given)
        self.names = tuple(metric.value for metric in self.metrics)
        """The names of the levels that a plan contains."""
        self.zero: Vector = (0,) * (len(self.metrics) + (0 if previous is None else 2))
        at = {metric: level for level, metric in enumerate(self.metrics)}
        self._cpu = [at[metric] for metric in (Metric.CPU, Metric.OVERHEAD) if metric in at]
        self._latency = at.get(Metric.LATENCY)
        self._adms, self._sidecars = at.get(Metric.ADMS), at.get(Metric.SIDECARS)
        self._hops = at[Metric.HOPS]
        self._closed = at[Metric.CLOSED]
        self.by_choice = bool(costs.enforcement) or previous is not None
        """Whether decisions add something besides their hosts, hops and closed destinations."""
        self.rewards_hosts = bool(previous and previous.hosts) and self._adms is None and self._sidecars is None
        """Whether an ADM of the earlier plan makes a placement better, even if no decision needs the ADM."""

    def _priced(self, cost: Cost) -> list[int]:
        """A cost as an amount of each level."""
        vector = [0] * len(self.zero)
        for level in self._cpu:
            vector[level] = cost.cpu
        if self._latency is not None:
            vector[self._latency] = cost.latency
        return vector

    def host(self, name: str) -> Vector:
        """The amount that each level grows by if `name` hosts an ADM."""
        vector = self._priced(self.costs.adm.get(name, _FREE))
        if self._adms is not None:
            vector[self._adms] = 1
        if self._sidecars is not None:
            vector[self._sidecars] = self.program.services[name].replicas
        if self.previous is not None:
            replicas = self.program.services[name].replicas
            vector[-2] = -replicas if name in self.previous.hosts else replicas
        return tuple(vector)

    def shared(self, point: DecisionPoint, place: Place) -> list[Shared]:
        """Hops that a decision at `place` needs, and its destination if that has to be closed."""
        hops: list[Shared] = [hop for side in place.sides for hop in self.hops.of(point, side)]
        if closes(point, place):
            hops.append(point.destination)
        return hops

    def of_shared(self, items: Iterable[Shared]) -> Vector:
        """The amount that each level grows by if these hops are used and these destinations are closed."""
        weights, costs = self.hops.weights, self.hop_costs
        requests = closed = 0
        total = _FREE
        for item in items:
            if isinstance(item, str):
                closed += 1
            else:
                requests += weights[item]
                if item in costs:
                    cost = costs[item]
                    total = Cost(total.cpu + cost.cpu, total.latency + cost.latency)
        vector = self._priced(total)
        vector[self._closed] = closed
        vector[self._hops] = requests
        return tuple(vector)

    def choice(self, point: DecisionPoint, place: Place) -> Vector:
        """The amount that each level grows by with this place, without its hosts, hops and closed destination."""
        if not self.by_choice:
            return self.zero
        loads = [cost for _, cost in self.loads(point, place)]
        vector = self._priced(Cost(sum(load.cpu for load in loads), sum(load.latency for load in loads)))
        if self.previous is not None:
            before = self.previous.places.get((self.program.policies[point.policy].name, point.destination))
            vector[-1] = int(before is not None and before is not place)
        return tuple(vector)

    def loads(self, point: DecisionPoint, place: Place) -> list[tuple[str, Cost]]:
        """(host, cost) of each share of a decision's work at a place, without the shares that `Costs` does not name."""
        if not self.costs.enforcement:
            return []
        policy = self.program.policies[point.policy].name
        loads: list[tuple[str, Cost]] = []
        for side in place.sides:
            for host in hosts_at(point, side, self.program):
                cost = self.costs.enforcement.get((host, side, policy, point.destination))
                if cost is not None:
                    loads.append((host, cost))
        return loads

    def hop_loads(self, items: Iterable[Shared]) -> list[tuple[str, int]]:
        """(host, CPU in nano-cores) of each hop that costs something."""
        if not self.hop_costs:
            return []
        hops = [item for item in items if not isinstance(item, str) and item in self.hop_costs]
        return [(self.hops.service(hop), self.hop_costs[hop].cpu) for hop in hops]

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """The most CPU, in nano-cores, that all sidecars of an ADM may use (R9), by service with a capacity.

        The mapping is empty if costs are not known. A capacity limits one sidecar, and replicas share the requests
        evenly.
        """
        if not self.costs.known:
            return {}
        return {
            name: round(service.capacity * NANO) * service.replicas
            for name, service in self.program.services.items()
            if service.capacity is not None
        }


def minimized(objective: Sequence[Metric], *, measured: bool) -> tuple[Metric, ...]:
    """All levels: the metrics that the program names, then `closed`, `overhead` and `hops` unless it names them.

    An `overhead` in last place behind another metric, as in the default objective, moves behind `closed`. `overhead` is
    a level only if the program names it, or if costs are given (`measured`) and the program does not name `cpu`.
    """
    levels = list(objective)
    overhead = Metric.OVERHEAD in levels or (measured and Metric.CPU not in levels)
    if len(levels) > 1 and levels[-1] is Metric.OVERHEAD:
        levels.pop()
    following = (Metric.CLOSED, Metric.OVERHEAD, Metric.HOPS) if overhead else (Metric.CLOSED, Metric.HOPS)
    return (*levels, *(metric for metric in following if metric not in levels))


def hosts_at(point: DecisionPoint, side: Side, program: Program) -> Sequence[str]:
    """Services whose ADM enforces a decision at one side of it. At egress without calls there are none."""
    return (point.destination,) if side is Side.INGRESS else senders(point, program)


def hosts(point: DecisionPoint, place: Place, program: Program) -> Sequence[str]:
    """Services that host an ADM if a decision is at `place`, each once."""
    if not place.sides:
        return ()
    if len(place.sides) == 1:
        return hosts_at(point, place.sides[0], program)
    return tuple(dict.fromkeys(host for side in place.sides for host in hosts_at(point, side, program)))


def closes(point: DecisionPoint, place: Place) -> bool:
    """Whether a decision at `place` holds only if its destination is closed to undeclared callers (R7)."""
    return point.closes and Reliance.CLOSED in place.relies_on


def add(*vectors: Vector) -> Vector:
    """Sum of vectors, level by level."""
    return tuple(map(sum, zip(*vectors, strict=True)))
