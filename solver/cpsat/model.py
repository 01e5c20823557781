"""The rules as a CP-SAT model, for decisions that reductions alone cannot solve.

A capacity connects decisions that are independent in a vertex cover. The undecided decisions form independent groups.
Small groups are enumerated; CP-SAT solves the others level by level.

    x[decision]: further out than ingress      y[decision]: at egress, so y -> x; without the network, y is x
    a[host]: hosts an ADM      h[hop]: in use      c[destination]: closed
    not x -> a[destination]    y -> a[sender], for each sender          (R1, R2)
    not x -> h[port]        y -> h[call]        x -> c[destination] if the decision is open
    a[host] -> y of some sender, or not x of some destination there     for each host of an earlier plan
    not (p at one place and q at another)      for each pair of places out of order (R6)
    load(host) <= limit     for each host with a capacity            (R9)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from typing import NamedTuple

from dsl.program import Place, Program
from solver.cpsat.engine import Answer, Booleans, Bounded, Effort, Level, Terms, solve
from solver.objective import Levels, Shared, Vector, add, closes, hosts
from solver.rules.options import DecisionPoint
from solver.rules.order import Clash, Domain, Statement, holds, inwards

FEW = 8
"""Groups of at most this many decisions are enumerated, which takes less time than to build a model."""
EXACT_TIES = 64
"""In larger groups CP-SAT chooses among equally good answers; its choice is deterministic."""
CHUNK = 40
"""The number of booleans whose order fits into the weights of one objective."""


class OverloadError(Exception):
    """R9 leaves no choice for the decisions and hosts of one group, or decided decisions alone overload a host: then
    there are no `points`."""

    def __init__(self, points: Sequence[int], hosts: Sequence[str]) -> None:
        self.points = tuple(points)
        self.hosts = tuple(hosts)
        super().__init__("a capacity cannot be kept")


class _ChoiceEffect(NamedTuple):
    """The hosts, hops, objective values and loads that one choice adds."""

    hosts: list[str]
    shared: list[Shared]
    """Hops and the closed destination that the choice needs, without those that decided decisions need."""
    worth: Vector
    loads: list[tuple[str, int]]
    """(host, CPU in nano-cores), without the CPU of hops."""


@dataclass(frozen=True)
class DecisionGroup:
    """Decisions that depend on each other."""

    points: tuple[int, ...]
    hosts: tuple[str, ...]
    """Hosts that are not decided yet, in canonical order."""
    limited: tuple[str, ...]
    """Hosts with a capacity that these decisions may load."""
    clashes: tuple[Clash, ...]
    shared: tuple[Shared, ...]
    """Hops and destinations whose use or closing depends on these decisions."""


class Model:
    """All undecided decisions of one program. Raises `OverloadError` if the decided ones overload a host."""

    def __init__(
        self,
        program: Program,
        points: Sequence[DecisionPoint],
        domains: Sequence[Domain],
        clashes: Mapping[str, Sequence[Clash]],
        levels: Levels,
    ) -> None:
        self.program = program
        self.points = points
        self.levels = levels
        self.clashes = clashes
        self.free = {index: inwards(left) for index, left in enumerate(domains) if len(left) > 1}
        """Undecided decision -> its places, the innermost first."""
        self.forced: set[str] = set()
        self.shared: set[Shared] = set()
        """Hops that decided decisions need, and destinations that they close."""
        self.load: dict[str, int] = {}
        self._facts: dict[tuple[int, Place], _ChoiceEffect] = {}
        for point, left in zip(points, domains, strict=True):
            if len(left) > 1:
                continue
            for place in left:
                self.forced.update(hosts(point, place, program))
                self.shared.update(levels.shared(point, place))
                for host, cost in levels.loads(point, place):
                    self.load[host] = self.load.get(host, 0) + cost.cpu
        for host, cpu in levels.hop_loads(self.shared):
            self.load[host] = self.load.get(host, 0) + cpu
        self.limits = self._binding()

    def facts(self, index: int, choice: Place) -> _ChoiceEffect:
        """The effect of a choice for an undecided decision."""
        key = index, choice
        effect = self._facts.get(key)
        if effect is None:
            point = self.points[index]
            loads = [(host, cost.cpu) for host, cost in self.levels.loads(point, choice) if cost.cpu]
            shared = [item for item in self.levels.shared(point, choice) if item not in self.shared]
            effect = _ChoiceEffect(
                list(hosts(point, choice, self.program)), shared, self.levels.choice(point, choice), loads
            )
            self._facts[key] = effect
        return effect

    def _base(self, host: str) -> int:
        cost = self.levels.costs.adm.get(host)
        return 0 if cost is None else cost.cpu

    def _binding(self) -> dict[str, int]:
        """Capacities that some choice could exceed."""
        limits = self.levels.limits
        if not limits:
            return {}
        most = {host: self._base(host) + self.load.get(host, 0) for host in limits}
        over = [host for host in sorted(self.forced.intersection(limits)) if most[host] > limits[host]]
        if over:
            raise OverloadError([], over[:1])
        shared: set[Shared] = set()
        for index in self.free:
            for choice in self.free[index]:
                facts = self.facts(index, choice)
                shared.update(facts.shared)
                for host, cpu in facts.loads:
                    if host in most:
                        most[host] += cpu
        for host, cpu in self.levels.hop_loads(shared):
            if host in most:
                most[host] += cpu
        return {host: limit for host, limit in limits.items() if most[host] > limit}

    def groups(self) -> list[DecisionGroup]:
        """The undecided decisions as connected components."""
        root: dict[object, object] = {}

        def find(node: object) -> object:
            root.setdefault(node, node)
            while root[node] != node:
                root[node] = root[root[node]]
                node = root[node]
            return node

        touched: dict[int, list[str]] = {}
        shared: dict[int, list[Shared]] = {}
        for index in self.free:
            effects = [self.facts(index, place) for place in self.free[index]]
            touched[index] = [host for effect in effects for host in effect.hosts]
            shared[index] = [item for effect in effects for item in effect.shared]
            find(index)
            for item in shared[index]:
                root[find(("shared", item))] = find(index)
            for host in touched[index]:
                if host not in self.forced or host in self.limits:
                    root[find(host)] = find(index)
        alive = set(self.free)
        pairs = [c for members in self.clashes.values() for c in members if c.first in alive and c.second in alive]
        for clash in pairs:
            root[find(clash.second)] = find(clash.first)
        members: dict[object, list[int]] = {}
        for index in self.free:
            members.setdefault(find(index), []).append(index)
        own: dict[object, list[Clash]] = {}
        for clash in pairs:
            own.setdefault(find(clash.first), []).append(clash)
        groups = []
        for top, group in members.items():
            near = sorted({host for index in group for host in touched[index]})
            groups.append(
                DecisionGroup(
                    tuple(group),
                    tuple(host for host in near if host not in self.forced),
                    tuple(host for host in near if host in self.limits),
                    tuple(own.get(top, ())),
                    tuple(dict.fromkeys(item for index in group for item in shared[index])),
                )
            )
        return groups

    def is_small(self, group: DecisionGroup) -> bool:
        """Whether a group is enumerated instead of searched."""
        return len(group.points) <= FEW

    def worth(self, group: DecisionGroup, choices: Sequence[Place]) -> tuple[Vector, Vector] | None:
        """Objective levels and tie-breaks of one assignment of a group, or None if it breaks a rule."""
        chosen = dict(zip(group.points, choices, strict=True))
        if not all(holds(self.program, self.points, c, chosen[c.first], chosen[c.second]) for c in group.clashes):
            return None
        facts = [self.facts(index, choice) for index, choice in chosen.items()]
        used = {host for fact in facts for host in fact.hosts}
        if group.limited and self._overloaded(group, used, facts):
            return None
        total = add(
            self.levels.of_shared({item for fact in facts for item in fact.shared}),
            *(fact.worth for fact in facts),
            *map(self.levels.host, used.intersection(group.hosts)),
        )
        ties = (
            len(used.intersection(group.hosts)),
            sum(self._opens(index, choice) for index, choice in chosen.items()),
            *(int(host not in used) for host in group.hosts),
            *(self._preferred(index).index(choice) for index, choice in chosen.items()),
        )
        return total, ties

    def _overloaded(self, group: DecisionGroup, used: set[str], facts: Sequence[_ChoiceEffect]) -> bool:
        load = {host: self._base(host) + self.load.get(host, 0) for host in group.limited}
        hops = self.levels.hop_loads({item for fact in facts for item in fact.shared})
        for host, cpu in chain(hops, *(fact.loads for fact in facts)):
            if host in load:
                load[host] += cpu
        return any(load[host] > self.limits[host] for host in group.limited if host in used or host in self.forced)

    def _opens(self, index: int, place: Place) -> bool:
        """Whether a decision needs its destination closed at a place. One without calls at egress does not count."""
        point = self.points[index]
        return closes(point, place) and (bool(point.calls) or place is Place.NETWORK)

    def _preferred(self, index: int) -> tuple[Place, ...]:
        """The places of a decision, the place that the last tie-break prefers first.

        That is the innermost one. Without calls, it is egress, which then needs no ADM.
        """
        places = self.free[index]
        return places if self.points[index].calls or Place.EGRESS not in places else places[::-1]

    def solve(
        self, group: DecisionGroup, hints: Sequence[Sequence[Place]], least: int | None, effort: Effort
    ) -> tuple[tuple[Place, ...], tuple[Bounded, ...]]:
        """The best choices for a group, and the levels of the group. `least` is a lower bound on the first level.

        Raises `OverloadError` if no choices keep the capacities.
        """
        if self.is_small(group):
            return self._enumerate(group)
        worths = [(worth, tuple(hint)) for hint in hints if (worth := self.worth(group, hint)) is not None]
        hint = min(worths)[1] if worths else None
        answer = solve(self._booleans(group, hint, least), effort)
        if answer.values is None:
            raise OverloadError(group.points, group.limited)
        return self._read(group, answer), answer.levels

    def check(self, group: DecisionGroup) -> None:
        """Raise `OverloadError` unless a group can be decided at all."""
        if group.limited:
            self.solve(group, [], None, Effort(0.0))

    def _enumerate(self, group: DecisionGroup) -> tuple[tuple[Place, ...], tuple[Bounded, ...]]:
        best: tuple[tuple[Vector, Vector], tuple[Place, ...]] | None = None
        for choices in product(*(self.free[index] for index in group.points)):
            worth = self.worth(group, choices)
            if worth is not None and (best is None or worth < best[0]):
                best = worth, choices
        if best is None:
            raise OverloadError(group.points, group.limited)
        return best[1], tuple(Bounded(value, value) for value in best[0][0])

    def _read(self, group: DecisionGroup, answer: Answer) -> tuple[Place, ...]:
        values = answer.values or []
        holding = {statement for statement, at in self._variables(group).items() if values[at]}
        return tuple(
            next((p for p in reversed(self.free[i]) if Statement(i, p) in holding), self.free[i][0])
            for i in group.points
        )

    def _variables(self, group: DecisionGroup) -> dict[Statement, int]:
        """The variable of each statement about a decision of the group."""
        statements = (Statement(index, place) for index in group.points for place in self.free[index][1:])
        return {statement: at for at, statement in enumerate(statements)}

    def _around(self, index: int, place: Place) -> tuple[Statement | None, Statement | None]:
        """The statement that holds if a decision is at a place, and the statement that does not hold then.

        None for the first of the innermost place, which always holds, and for the second of the outermost place.
        """
        places = self.free[index]
        at = places.index(place)
        return (
            Statement(index, place) if at else None,
            Statement(index, places[at + 1]) if at + 1 < len(places) else None,
        )

    def _elsewhere(self, variables: Mapping[Statement, int], index: int, place: Place) -> tuple[int, ...]:
        """Literals of which one is true if a decision is not at a place."""
        holds, fails = self._around(index, place)
        return (
            *(() if holds is None else (-(variables[holds] + 1),)),
            *(() if fails is None else (variables[fails] + 1,)),
        )

    def _amount(self, variables: Mapping[Statement, int], index: int, place: Place, amount: int) -> tuple[Terms, int]:
        """An amount that is due if a decision is at a place: terms and a constant."""
        holds, fails = self._around(index, place)
        terms = [] if holds is None else [(variables[holds], amount)]
        terms += [] if fails is None else [(variables[fails], -amount)]
        return terms, amount if holds is None else 0

    def _booleans(self, group: DecisionGroup, hint: Sequence[Place] | None, least: int | None) -> Booleans:
        """The group as booleans: statements about its decisions, its hosts (chosen?), its hops and destinations."""
        variables = self._variables(group)
        host_place = {host: len(variables) + at for at, host in enumerate(group.hosts)}
        shared_place = {item: len(variables) + len(host_place) + at for at, item in enumerate(group.shared)}
        clauses: list[tuple[int, ...]] = []
        for index in group.points:
            for place in self.free[index]:
                facts, elsewhere = self.facts(index, place), self._elsewhere(variables, index, place)
                clauses.extend((*elsewhere, host_place[host] + 1) for host in facts.hosts if host in host_place)
                clauses.extend((*elsewhere, shared_place[item] + 1) for item in facts.shared)
            for weaker, stronger in pairwise(self.free[index][1:]):
                clauses.append((-(variables[Statement(index, stronger)] + 1), variables[Statement(index, weaker)] + 1))
        clauses.extend(self._used(group, host_place, variables))
        for clash in group.clashes:
            for one, other in product(self.free[clash.first], self.free[clash.second]):
                if not holds(self.program, self.points, clash, one, other):
                    elsewhere = self._elsewhere(variables, clash.first, one)
                    clauses.append((*elsewhere, *self._elsewhere(variables, clash.second, other)))
        values = None
        if hint is not None:
            at = dict(zip(group.points, hint, strict=True))
            chosen = [self.facts(index, place) for index, place in at.items()]
            used = {host for facts in chosen for host in facts.hosts}
            there = {item for facts in chosen for item in facts.shared}
            values = [at[one.decision].position <= one.place.position for one in variables]
            values += [host in used for host in group.hosts]
            values += [item in there for item in group.shared]
        return Booleans(
            len(variables) + len(host_place) + len(shared_place),
            clauses,
            self._limits(group, variables, host_place, shared_place),
            self._levels(group, variables, host_place, shared_place, least),
            self._ties(group, variables, host_place),
            values,
        )

    def _used(
        self, group: DecisionGroup, host_place: Mapping[str, int], variables: Mapping[Statement, int]
    ) -> Iterator[tuple[int, ...]]:
        """Clauses that leave out a host of the earlier plan unless a decision needs it. Its amount may be negative.

        Only the innermost and the outermost place of a decision have hosts, so one literal says that it is there.
        """
        earlier = self.levels.previous.hosts if self.levels.previous is not None else frozenset[str]()
        needing: dict[str, list[int]] = {host: [] for host in host_place if host in earlier}
        for index in group.points:
            for place in self.free[index]:
                for host in self.facts(index, place).hosts:
                    if host in needing:
                        (elsewhere,) = self._elsewhere(variables, index, place)
                        needing[host].append(-elsewhere)
        return ((-(host_place[host] + 1), *literals) for host, literals in needing.items())

    def _limits(
        self,
        group: DecisionGroup,
        variables: Mapping[Statement, int],
        host_place: Mapping[str, int],
        shared_place: Mapping[Shared, int],
    ) -> list[tuple[Terms, int]]:
        terms: dict[str, list[tuple[int, int]]] = {host: [] for host in group.limited}
        bounds: dict[str, int] = {}
        for host in group.limited:
            bounds[host] = self.limits[host] - self.load.get(host, 0)
            if host in host_place:
                terms[host].append((host_place[host], self._base(host)))
            else:
                bounds[host] -= self._base(host)
        for index in group.points:
            for place in self.free[index]:
                for host, cpu in self.facts(index, place).loads:
                    if host in terms:
                        due, constant = self._amount(variables, index, place, cpu)
                        terms[host] += due
                        bounds[host] -= constant
        for item, at in shared_place.items():
            for host, cpu in self.levels.hop_loads((item,)):
                if host in terms:
                    terms[host].append((at, cpu))
        return [(terms[host], bounds[host]) for host in group.limited]

    def _levels(
        self,
        group: DecisionGroup,
        variables: Mapping[Statement, int],
        host_place: Mapping[str, int],
        shared_place: Mapping[Shared, int],
        least: int | None,
    ) -> list[Level]:
        single = {at: self.levels.host(host) for host, at in host_place.items()}
        single |= {at: self.levels.of_shared((item,)) for item, at in shared_place.items()}
        levels = []
        for level in range(len(self.levels.zero)):
            due: Counter[int] = Counter()
            constant = 0
            for index in group.points:
                for place in self.free[index]:
                    terms, more = self._amount(variables, index, place, self.facts(index, place).worth[level])
                    constant += more
                    for at, amount in terms:
                        due[at] += amount
            due.update({at: vector[level] for at, vector in single.items()})
            levels.append(Level([term for term in due.items() if term[1]], constant, least if level == 0 else None))
        return levels

    def _ties(
        self, group: DecisionGroup, variables: Mapping[Statement, int], host_place: Mapping[str, int]
    ) -> list[Terms]:
        if max(len(variables), len(host_place)) > EXACT_TIES:
            return []
        closing = [
            term
            for index in group.points
            for place in self.free[index]
            if self._opens(index, place)
            for term in self._amount(variables, index, place, 1)[0]
        ]
        ties: list[Terms] = [[(at, 1) for at in host_place.values()], closing]
        inner = {index: self._preferred(index) is self.free[index] for index in group.points}
        preferred = [(at, 1 if inner[statement.decision] else -1) for statement, at in variables.items()]
        return [*ties, *_chunks([(at, -1) for at in host_place.values()]), *_chunks(preferred)]


def _chunks(signs: Sequence[tuple[int, int]]) -> list[Terms]:
    """Objectives that prefer earlier variables to later ones."""
    return [
        [(at, sign << (CHUNK - 1 - rank)) for rank, (at, sign) in enumerate(signs[start : start + CHUNK])]
        for start in range(0, len(signs), CHUNK)
    ]
