"""Makes the placement from the choices: decisions with reasons, ADMs and closed destinations.

A place that was not taken gets the rule that excludes it while all other decisions stay as they are: a rule on the
decision alone, the order, or a capacity. It gets no reason if the objective alone excludes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from dsl.program import Place, Program, Side
from solver.objective import Levels, Shared, Vector, add, closes, hosts, hosts_at
from solver.placement import Adm, Decision, ObjectiveValue, Placement, Reason, Rule, Status
from solver.rules.options import DecisionPoint
from solver.rules.order import Clash, holds


class Solution:
    """Every decision point with its place, and the ADMs and loads that follow. The `Placement` made from it has no
    loads."""

    def __init__(
        self,
        program: Program,
        points: Sequence[DecisionPoint],
        choices: Sequence[Place],
        clashes: Mapping[str, Sequence[Clash]],
        levels: Levels,
    ) -> None:
        self.program = program
        self.points = points
        self.choices = choices
        self.levels = levels
        self._clashes: dict[int, list[Clash]] = {}
        for members in clashes.values():
            for clash in members:
                self._clashes.setdefault(clash.first, []).append(clash)
                self._clashes.setdefault(clash.second, []).append(clash)

    @cached_property
    def adms(self) -> tuple[Adm, ...]:
        """One ADM for each service that enforces a policy, with its policies in declared order."""
        work: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for point, choice in zip(self.points, self.choices, strict=True):
            name = self.program.policies[point.policy].name
            for side in choice.sides:
                for host in hosts_at(point, side, self.program):
                    work.setdefault(host, ({}, {}))[side is Side.EGRESS][name] = None
        return tuple(Adm(host, tuple(work[host][0]), tuple(work[host][1])) for host in sorted(work))

    @cached_property
    def load(self) -> Mapping[str, int]:
        """CPU in nano-cores of each ADM."""
        base = self.levels.costs.adm
        load = {adm.service: base[adm.service].cpu if adm.service in base else 0 for adm in self.adms}
        for point, choice in zip(self.points, self.choices, strict=True):
            for host, cost in self.levels.loads(point, choice):
                load[host] += cost.cpu
        for host, cpu in self.levels.hop_loads(self.shared):
            load[host] += cpu
        return load

    @cached_property
    def shared(self) -> Counter[Shared]:
        """Hops that are in use, and destinations that are closed, with the number of decisions that need each."""
        needed: Counter[Shared] = Counter()
        for point, choice in zip(self.points, self.choices, strict=True):
            needed.update(self.levels.shared(point, choice))
        return needed

    def worth(self) -> Vector:
        """Value of each level."""
        levels = self.levels
        total = add(levels.of_shared(self.shared), *(levels.host(adm.service) for adm in self.adms))
        if not levels.by_choice:
            return total
        pairs = zip(self.points, self.choices, strict=True)
        return add(total, *(levels.choice(point, choice) for point, choice in pairs))

    def against(self, index: int, place: Place) -> Reason | None:
        """Why a decision is not at `place`, with all other decisions fixed."""
        return self.points[index].blocked(place) or self._out_of_order(index, place) or self._too_much(index, place)

    def _out_of_order(self, index: int, place: Place) -> Reason | None:
        for clash in self._clashes.get(index, ()):
            first, second = self.choices[clash.first], self.choices[clash.second]
            if clash.first == index:
                kept, other = holds(self.program, self.points, clash, place, second), clash.second
            else:
                kept, other = holds(self.program, self.points, clash, first, place), clash.first
            if not kept:
                policies = self.program.policies
                one, two = policies[self.points[clash.first].policy], policies[self.points[clash.second].policy]
                message = f"`{one.name}` is declared before `{two.name}`, and the two may not be swapped"
                own, theirs = self.points[index].policy, self.points[other].policy
                return Reason(Rule.ORDER, message, (policies[theirs].span, policies[own].span))
        return None

    def _too_much(self, index: int, place: Place) -> Reason | None:
        more = self._added_load(index, place)
        for host in hosts(self.points[index], place, self.program):
            limit = self.levels.limits.get(host)
            if limit is None:
                continue
            base = self.levels.costs.adm.get(host)
            load = self.load.get(host, 0 if base is None else base.cpu)
            if load + more[host] > limit:
                message = f"the ADM of `{host}` would be loaded beyond its capacity"
                return Reason(Rule.CAPACITY, message, (self.program.services[host].span,))
        return None

    def _added_load(self, index: int, place: Place) -> Counter[str]:
        """Nano-cores by which another place changes the load of each host.

        A service that calls itself hosts the decision at the senders and at the destination, so the load at the
        present place is subtracted.
        """
        added: Counter[str] = Counter()
        for taken, sign, others in ((place, 1, 0), (self.choices[index], -1, 1)):
            for host, cost in self.levels.loads(self.points[index], taken):
                added[host] += sign * cost.cpu
            needed = self.levels.shared(self.points[index], taken)
            for host, cpu in self.levels.hop_loads(item for item in needed if self.shared[item] == others):
                added[host] += sign * cpu
        return added


def placement(solution: Solution, objectives: tuple[ObjectiveValue, ...]) -> Placement:
    """The placement of a solution with the given objective values."""
    program = solution.program
    closed: set[str] = set()
    decisions: list[Decision] = []
    for index, (point, choice) in enumerate(zip(solution.points, solution.choices, strict=True)):
        if closes(point, choice):
            closed.add(point.destination)
        decisions.append(
            Decision(
                policy=program.policies[point.policy].name,
                destination=point.destination,
                place=choice,
                calls=point.calls,
                ruled_out={place: solution.against(index, place) for place in point.offered if place is not choice},
                open=point.open,
                ports=point.ports,
                closes=closes(point, choice),
            )
        )
    proven = all(level.value == level.bound for level in objectives)
    return Placement(
        decisions=tuple(decisions),
        adms=solution.adms,
        closed=tuple(sorted(closed)),
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objectives=objectives,
    )
