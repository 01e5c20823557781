"""The first level of the objective that changes if one decision moves to another place: it explains the choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dsl.program import Place, Program
from solver.objective import Levels, Shared, Vector, add, hosts
from solver.placement import Costs, Decision, Placement
from solver.rules.options import DecisionPoint


class Difference(NamedTuple):
    """The first level of the objective in which the other place differs."""

    metric: str
    more: int
    """By how much the other place is worse; below zero only if a rule excludes that place, or if the placement is not
    proven optimal."""


class Alternatives:
    """The differences that a change of one decision makes to a placement, without regard to rules."""

    def __init__(self, program: Program, points: Sequence[DecisionPoint], placement: Placement, costs: Costs) -> None:
        self.program = program
        self.levels = Levels(program, costs, None)
        names = [policy.name for policy in program.policies]
        self._points = {(names[point.policy], point.destination): point for point in points}
        self._hosts: Counter[str] = Counter()
        """How many decisions need each host, and each hop or closed destination."""
        self._shared: Counter[Shared] = Counter()
        for decision in placement.decisions:
            point = self._points[decision.policy, decision.destination]
            self._hosts.update(hosts(point, decision.place, program))
            self._shared.update(set(self.levels.shared(point, decision.place)))

    def difference(self, decision: Decision, place: Place) -> Difference | None:
        """The difference between a decision's place and `place`, another one; None if both are equal in all levels."""
        point = self._points[decision.policy, decision.destination]
        now, then = (self._own(point, at, decision.place) for at in (decision.place, place))
        for metric, one, two in zip(self.levels.names, now, then, strict=True):
            if one != two:
                return Difference(metric, two - one)
        return None

    def _own(self, point: DecisionPoint, place: Place, taken: Place) -> Vector:
        """The amount of each level that this decision alone causes at `place`, while the decision is at `taken`.

        A service that calls itself hosts the decision at the senders and at the destination.
        """
        here, shared_here = set(hosts(point, taken, self.program)), set(self.levels.shared(point, taken))
        added_hosts = (host for host in hosts(point, place, self.program) if self._hosts[host] == (host in here))
        shared = [item for item in set(self.levels.shared(point, place)) if self._shared[item] == (item in shared_here)]
        choice = self.levels.choice(point, place)
        return add(self.levels.of_shared(shared), choice, *(self.levels.host(host) for host in added_hosts))
