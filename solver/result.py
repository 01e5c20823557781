"""From choices to the placement that others read: decisions with reasons, ADMs, closed destinations.

A side that was not taken gets the rule that stood against it: one that looks at the decision alone, or the order, or
a capacity given everything else as it is; nothing where the objective alone chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from dsl.program import Program, Side
from solver.objective import Levels, Vector, add, hosts
from solver.placement import Adm, Decision, ObjectiveValue, Placement, Reason, Rule, Status
from solver.rules.options import Case
from solver.rules.order import EGRESS, INGRESS, Clash, holds, sides_of


class Decided:
    """Every case with its choice, and what follows for the hosts."""

    def __init__(
        self,
        program: Program,
        cases: Sequence[Case],
        choices: Sequence[int],
        clashes: Mapping[str, Sequence[Clash]],
        levels: Levels,
    ) -> None:
        self.program = program
        self.cases = cases
        self.choices = choices
        self.levels = levels
        self._clashes: dict[int, list[Clash]] = {}
        for members in clashes.values():
            for clash in members:
                self._clashes.setdefault(clash.first, []).append(clash)
                self._clashes.setdefault(clash.second, []).append(clash)

    @cached_property
    def adms(self) -> tuple[Adm, ...]:
        """One for each service with work to do, its policies in declared order."""
        work: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
        for case, choice in zip(self.cases, self.choices, strict=True):
            name = self.program.policies[case.policy].name
            for side in sides_of(choice):
                for host in hosts(case, side, self.program):
                    work.setdefault(host, ({}, {}))[side is Side.EGRESS][name] = None
        return tuple(Adm(host, tuple(work[host][0]), tuple(work[host][1])) for host in sorted(work))

    @cached_property
    def load(self) -> Mapping[str, int]:
        """CPU in micro-cores of each ADM."""
        base = self.levels.costs.adm
        load = {adm.service: base[adm.service].cpu if adm.service in base else 0 for adm in self.adms}
        for case, choice in zip(self.cases, self.choices, strict=True):
            for host, cost in self.levels.loads(case, choice):
                load[host] += cost.cpu
        return load

    def worth(self) -> Vector:
        """Value of each level."""
        total = add(self.levels.zero, *(self.levels.host(adm.service) for adm in self.adms))
        if self.levels.hosts_only:
            return total
        pairs = zip(self.cases, self.choices, strict=True)
        return add(total, *(self.levels.choice(case, choice) for case, choice in pairs))

    def against(self, index: int, side: Side) -> Reason | None:
        """Why a case does not sit at `side`, everything else being as it is."""
        case = self.cases[index]
        reason = case.blocked(side)
        if reason is not None or case.both:
            return reason
        choice = INGRESS if side is Side.INGRESS else EGRESS
        return self._out_of_order(index, choice) or self._too_much(index, choice)

    def _out_of_order(self, index: int, choice: int) -> Reason | None:
        for clash in self._clashes.get(index, ()):
            first, second = self.choices[clash.first], self.choices[clash.second]
            if clash.first == index:
                kept, other = holds(self.program, self.cases, clash, choice, second), clash.second
            else:
                kept, other = holds(self.program, self.cases, clash, first, choice), clash.first
            if not kept:
                policies = self.program.policies
                one, two = policies[self.cases[clash.first].policy], policies[self.cases[clash.second].policy]
                message = f"`{one.name}` is declared before `{two.name}`, and the two may not be swapped"
                own, theirs = self.cases[index].policy, self.cases[other].policy
                return Reason(Rule.ORDER, message, (policies[theirs].span, policies[own].span))
        return None

    def _too_much(self, index: int, choice: int) -> Reason | None:
        added: dict[str, int] = {}
        for host, cost in self.levels.loads(self.cases[index], choice):
            added[host] = added.get(host, 0) + cost.cpu
        (side,) = sides_of(choice)
        for host in hosts(self.cases[index], side, self.program):
            limit = self.levels.limit(host)
            if limit is None:
                continue
            base = self.levels.costs.adm.get(host)
            load = self.load.get(host, 0 if base is None else base.cpu)
            if load + added.get(host, 0) > limit:
                message = f"the ADM of `{host}` would be loaded beyond its capacity"
                return Reason(Rule.CAPACITY, message, (self.program.services[host].span,))
        return None


def placement(decided: Decided, objectives: tuple[ObjectiveValue, ...]) -> Placement:
    """The placement of `decided` with the given objective values."""
    program = decided.program
    closed: set[str] = set()
    decisions: list[Decision] = []
    for index, (case, choice) in enumerate(zip(decided.cases, decided.choices, strict=True)):
        sides = sides_of(choice)
        closes = case.closes and Side.EGRESS in sides
        if closes:
            closed.add(case.destination)
        decisions.append(
            Decision(
                policy=program.policies[case.policy].name,
                destination=case.destination,
                sides=sides,
                calls=case.calls,
                ruled_out={} if case.both else {sides[0].other: decided.against(index, sides[0].other)},
                open=case.open,
                ports=case.ports,
                closes=closes,
            )
        )
    proven = all(level.value == level.bound for level in objectives)
    return Placement(
        decisions=tuple(decisions),
        adms=decided.adms,
        closed=tuple(sorted(closed)),
        status=Status.OPTIMAL if proven else Status.FEASIBLE,
        objectives=objectives,
    )
