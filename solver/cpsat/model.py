"""The rules as a CP-SAT model, for decisions that reductions alone cannot solve.

A capacity connects decisions that are independent in a vertex cover. The undecided decisions form independent groups.
Small groups are enumerated; CP-SAT solves the others level by level.

    x[decision]: at egress      a[host]: hosts an ADM      h[hop]: in use      c[destination]: closed
    not x -> a[destination]    x -> a[sender], for each sender          (R1, R2)
    not x -> h[port]        x -> h[call]        x -> c[destination] if the decision is open
    a[host] -> x of some sender, or not x of some destination there     for each host of an earlier plan
    x[q] -> x[p]            for each order implication               (R6)
    load(host) <= limit     for each host with a capacity            (R9)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import NamedTuple

from dsl.program import Place, Program
from solver.cpsat.engine import Answer, Booleans, Bounded, Effort, Level, Terms, solve
from solver.objective import Levels, Shared, Vector, add, hosts
from solver.rules.options import DecisionPoint
from solver.rules.order import Clash, Domain, holds

FEW = 8
"""Groups of at most this many decisions are enumerated, which takes less time than to build a model."""
EXACT_TIES = 64
"""In larger groups CP-SAT chooses among equally good answers; its choice is deterministic."""
CHUNK = 40
"""The number of booleans whose order fits into the weights of one objective."""


class OverloadError(Exception):
    """R9 leaves no choice for the decisions and hosts of one group."""

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
    """All undecided decisions of one program."""

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
        self.free = [index for index, left in enumerate(domains) if len(left) > 1]
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
            for choice in (Place.INGRESS, Place.EGRESS):
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
            one, other = self.facts(index, Place.INGRESS), self.facts(index, Place.EGRESS)
            touched[index] = [*one.hosts, *other.hosts]
            shared[index] = [*one.shared, *other.shared]
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
            sum(self._opens(index) for index, choice in chosen.items() if choice is Place.EGRESS),
            *(int(host not in used) for host in group.hosts),
            *(int(choice is not self._preferred(index)) for index, choice in chosen.items()),
        )
        return total, ties

    def _overloaded(self, group: DecisionGroup, used: set[str], facts: Sequence[_ChoiceEffect]) -> bool:
        load = {host: self._base(host) + self.load.get(host, 0) for host in group.limited}
        hops = self.levels.hop_loads({item for fact in facts for item in fact.shared})
        for host, cpu in chain(hops, *(fact.loads for fact in facts)):
            if host in load:
                load[host] += cpu
        return any(load[host] > self.limits[host] for host in group.limited if host in used or host in self.forced)

    def _opens(self, index: int) -> bool:
        """Whether a decision with calls needs its destination closed if it is at egress."""
        return self.points[index].closes and bool(self.points[index].calls)

    def _preferred(self, index: int) -> Place:
        """The place that the last tie-break prefers: ingress; without calls egress, which then needs no ADM."""
        return Place.INGRESS if self.points[index].calls else Place.EGRESS

    def solve(
        self, group: DecisionGroup, hints: Sequence[Sequence[Place]], least: int | None, effort: Effort
    ) -> tuple[tuple[Place, ...], tuple[Bounded, ...]]:
        """The best choices for a group, and the levels of the group. `least` is a lower bound on the first level."""
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
        for choices in product((Place.INGRESS, Place.EGRESS), repeat=len(group.points)):
            worth = self.worth(group, choices)
            if worth is not None and (best is None or worth < best[0]):
                best = worth, choices
        if best is None:
            raise OverloadError(group.points, group.limited)
        return best[1], tuple(Bounded(value, value) for value in best[0][0])

    def _read(self, group: DecisionGroup, answer: Answer) -> tuple[Place, ...]:
        values = answer.values or []
        return tuple(Place.EGRESS if values[at] else Place.INGRESS for at in range(len(group.points)))

    def _booleans(self, group: DecisionGroup, hint: Sequence[Place] | None, least: int | None) -> Booleans:
        """The group as booleans: its decisions (at egress?), its hosts (chosen?), then its hops and destinations."""
        place = {index: at for at, index in enumerate(group.points)}
        host_place = {host: len(place) + at for at, host in enumerate(group.hosts)}
        shared_place = {item: len(place) + len(host_place) + at for at, item in enumerate(group.shared)}
        clauses: list[tuple[int, ...]] = []
        for index, at in place.items():
            for choice, literal in ((Place.INGRESS, at + 1), (Place.EGRESS, -(at + 1))):
                facts = self.facts(index, choice)
                clauses.extend((literal, host_place[host] + 1) for host in facts.hosts if host in host_place)
                clauses.extend((literal, shared_place[item] + 1) for item in facts.shared)
        clauses.extend(self._used(place, host_place))
        for clash in group.clashes:
            first, second = place[clash.first], place[clash.second]
            for one, other in product((Place.INGRESS, Place.EGRESS), repeat=2):
                if not holds(self.program, self.points, clash, one, other):
                    sign = {Place.INGRESS: 1, Place.EGRESS: -1}
                    clauses.append((sign[one] * (first + 1), sign[other] * (second + 1)))
        values = None
        if hint is not None:
            chosen = [self.facts(index, choice) for index, choice in zip(group.points, hint, strict=True)]
            used = {host for facts in chosen for host in facts.hosts}
            there = {item for facts in chosen for item in facts.shared}
            values = [choice is Place.EGRESS for choice in hint] + [host in used for host in group.hosts]
            values += [item in there for item in group.shared]
        return Booleans(
            len(place) + len(host_place) + len(shared_place),
            clauses,
            self._limits(group, place, host_place, shared_place),
            self._levels(place, host_place, shared_place, least),
            self._ties(group, place, host_place),
            values,
        )

    def _used(self, place: Mapping[int, int], host_place: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
        """Clauses that leave out a host of the earlier plan unless a decision needs it. Its amount may be negative."""
        earlier = self.levels.previous.hosts if self.levels.previous is not None else frozenset[str]()
        needing: dict[str, list[int]] = {host: [] for host in host_place if host in earlier}
        for index, at in place.items():
            for choice, literal in ((Place.INGRESS, -(at + 1)), (Place.EGRESS, at + 1)):
                for host in self.facts(index, choice).hosts:
                    if host in needing:
                        needing[host].append(literal)
        return ((-(host_place[host] + 1), *literals) for host, literals in needing.items())

    def _limits(
        self,
        group: DecisionGroup,
        place: Mapping[int, int],
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
        for index, at in place.items():
            for choice in (Place.INGRESS, Place.EGRESS):
                for host, cpu in self.facts(index, choice).loads:
                    if host in terms:
                        # The load at ingress exists unless x, so it is a constant minus the load times x.
                        terms[host].append((at, cpu if choice is Place.EGRESS else -cpu))
                        bounds[host] -= cpu if choice is Place.INGRESS else 0
        for item, at in shared_place.items():
            for host, cpu in self.levels.hop_loads((item,)):
                if host in terms:
                    terms[host].append((at, cpu))
        return [(terms[host], bounds[host]) for host in group.limited]

    def _levels(
        self,
        place: Mapping[int, int],
        host_place: Mapping[str, int],
        shared_place: Mapping[Shared, int],
        least: int | None,
    ) -> list[Level]:
        at_ingress = {index: self.facts(index, Place.INGRESS).worth for index in place}
        at_egress = {index: self.facts(index, Place.EGRESS).worth for index in place}
        single = {at: self.levels.host(host) for host, at in host_place.items()}
        single |= {at: self.levels.of_shared((item,)) for item, at in shared_place.items()}
        levels = []
        for level in range(len(self.levels.zero)):
            terms = [(at, at_egress[i][level] - at_ingress[i][level]) for i, at in place.items()]
            terms += [(at, vector[level]) for at, vector in single.items()]
            constant = sum(vector[level] for vector in at_ingress.values())
            levels.append(Level([term for term in terms if term[1]], constant, least if level == 0 else None))
        return levels

    def _ties(self, group: DecisionGroup, place: Mapping[int, int], host_place: Mapping[str, int]) -> list[Terms]:
        if max(len(place), len(host_place)) > EXACT_TIES:
            return []
        closing = [(at, 1) for index, at in place.items() if self._opens(index)]
        ties: list[Terms] = [[(at, 1) for at in host_place.values()], closing]
        preferred = [(at, 1 if self._preferred(index) is Place.INGRESS else -1) for index, at in place.items()]
        return [*ties, *_chunks([(at, -1) for at in host_place.values()]), *_chunks(preferred)]


def _chunks(signs: Sequence[tuple[int, int]]) -> list[Terms]:
    """Objectives that prefer earlier variables to later ones."""
    return [
        [(at, sign << (CHUNK - 1 - rank)) for rank, (at, sign) in enumerate(signs[start : start + CHUNK])]
        for start in range(0, len(signs), CHUNK)
    ]
