"""A placement without capacities as a weighted vertex cover.

The places of a decision lie on the way of a request, so a few statements say which place it has: it is at `network` or
further out, it is at `egress`. A vertex is something that is needed if a statement holds, or unless it holds:

    unless the decision is further out than ingress    its destination as a host, and the hops of its ports there
    if it is in the network or at egress               a closed destination, where the decision is open
    if it is at egress                                 its senders as hosts, and their hops

A statement implies others: at egress is further out than in the network, and if `q` is at a place, `p` that has to be
met before `q` (R6) is at that place or further out. So an edge joins each vertex that is needed unless a statement
holds to each vertex that is needed if it holds, or if a statement holds that it implies. A cover of these edges is a
placement, and the weight of the cover is the value of the objective (`docs/adr/0002-solver.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dsl.program import Metric, Place, Program
from solver.cover.vertex_cover import Part, Vertex, cover
from solver.cpsat.engine import Bounded, Effort
from solver.objective import Levels, Shared, Vector, add, closes, hosts
from solver.rules.options import DecisionPoint, senders
from solver.rules.order import Clash, Domain, Statement, inwards


class CoverProblem:
    """The undecided decisions as a graph on hosts, hops and closed destinations."""

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
        self.domains = domains
        self.levels = levels
        self.forced: set[str] = set()
        self._shared: set[Shared] = set()
        """Hops that decided decisions need, and destinations that they close."""
        self.free: dict[str, list[int]] = {}
        for index, (point, left) in enumerate(zip(points, domains, strict=True)):
            innermost = inwards(left)[0]
            if len(left) > 1:
                self.free.setdefault(point.destination, []).append(index)
            if len(left) == 1 or innermost is Place.NETWORK:  # all that the network needs, egress needs too
                self.forced.update(hosts(point, innermost, program))
                self._shared.update(levels.shared(point, innermost))
        self.chains = {index: inwards(domains[index]) for members in self.free.values() for index in members}
        """Undecided decision -> its places, the innermost first."""
        self._senders = {
            index: senders(points[index], program) if Place.EGRESS in chain else []
            for index, chain in self.chains.items()
        }
        self.implied: dict[Statement, set[Statement]] = {}
        """Statement -> the statements that hold if this one does, itself included."""
        for destination, members in self.free.items():
            self.implied.update(_closure(self.chains, members, clashes.get(destination, ())))
        self.forced.update(name for name in self.free if self._hosts_anyway(name))
        names = {name for near in self._senders.values() for name in near}
        names.update(points[index].destination for index, chain in self.chains.items() if Place.INGRESS in chain)
        self.names = sorted(names - self.forced)
        self._place = {name: at for at, name in enumerate(self.names)}
        self.vertices = [Vertex(levels.host(name), (1, 0), host=True) for name in self.names]
        self.edges: set[tuple[int, int]] = set()
        self.unless: dict[Statement, list[int]] = {}
        """The vertices that have to be in the cover for a statement not to hold."""
        for destination, members in sorted(self.free.items()):
            self._add(destination, members)

    def _hosts_anyway(self, destination: str) -> bool:
        """Whether a destination hosts an ADM in every placement, since it is a sender to itself."""
        return any(
            beyond.place is Place.EGRESS and destination in self._senders[beyond.decision]
            for index in self.free[destination]
            if self.chains[index][0] is Place.INGRESS
            for beyond in self.implied[Statement(index, self.chains[index][1])]
        )

    def _add(self, destination: str, members: Sequence[int]) -> None:
        """The vertices and edges of one destination."""
        statements = [statement for index in members for statement in _statements(self.chains, index)]
        needed: dict[Statement, list[int]] = {statement: [] for statement in statements}
        unless: dict[Statement, list[int]] = {statement: [] for statement in statements}
        for statement in statements:
            outer, inner = (
                self._hosts(statement.decision, place) for place in (statement.place, self._inner(statement))
            )
            needed[statement] += [vertex for vertex in outer if vertex not in inner]
            unless[statement] += [vertex for vertex in inner if vertex not in outer]
        more, less = self._shared_items(statements)
        alone_if, alone_unless = self._share(more, needed), self._share(less, unless)
        for statement in statements:
            self._price(statement, alone_if[statement], alone_unless[statement], needed, unless)
        self.unless.update(unless)
        for statement in statements:
            beyond = {vertex for implied in self.implied[statement] for vertex in needed[implied]}
            for one in unless[statement]:
                self.edges.update((one, other) if one < other else (other, one) for other in beyond)

    def _hosts(self, index: int, place: Place) -> list[int]:
        """The vertices of the hosts that a decision needs at a place."""
        return [self._place[name] for name in hosts(self.points[index], place, self.program) if name in self._place]

    def _inner(self, statement: Statement) -> Place:
        """The place of a decision if the statement does not hold, but the next weaker one does."""
        chain = self.chains[statement.decision]
        return chain[chain.index(statement.place) - 1]

    def _shared_items(
        self, statements: Iterable[Statement]
    ) -> tuple[dict[Statement, list[Shared]], dict[Statement, list[Shared]]]:
        """Hops and closed destinations that are needed if a statement holds, and those needed unless it does."""
        more: dict[Statement, list[Shared]] = {}
        less: dict[Statement, list[Shared]] = {}
        for statement in statements:
            point = self.points[statement.decision]
            outer = self.levels.shared(point, statement.place)
            inner = self.levels.shared(point, self._inner(statement))
            more[statement] = [item for item in outer if item not in self._shared and item not in inner]
            less[statement] = [item for item in inner if item not in self._shared and item not in outer]
        return more, less

    def _share(
        self, items: Mapping[Statement, Sequence[Shared]], vertices: Mapping[Statement, list[int]]
    ) -> dict[Statement, Vector]:
        """Adds the vertices of items that several statements need; returns the amount that only one statement needs.

        Vertices with the same statements have the same edges, and are therefore merged.
        """
        needing: dict[Shared, list[Statement]] = {}
        for statement, needed in items.items():
            for item in needed:
                needing.setdefault(item, []).append(statement)
        merged: dict[tuple[Statement, ...], list[Shared]] = {(statement,): [] for statement in items}
        for item, needers in needing.items():
            merged.setdefault(tuple(needers), []).append(item)
        alone: dict[Statement, Vector] = {}
        for same, shared in merged.items():
            if len(same) == 1:
                alone[same[0]] = self.levels.of_shared(shared)
            else:
                self._vertex(Vertex(self.levels.of_shared(shared), (0, 0)), same, vertices)
        return alone

    def _price(
        self,
        statement: Statement,
        more: Vector,
        less: Vector,
        needed: Mapping[Statement, list[int]],
        unless: Mapping[Statement, list[int]],
    ) -> None:
        """Adds the vertices of what one decision alone adds (`more`) if a statement holds, and (`less`) unless it does.

        A statement either holds or not, so an amount of both has no influence. The place that the last tie-break avoids
        gets a vertex even without an amount.
        """
        point, inner = self.points[statement.decision], self._inner(statement)
        if self.levels.by_choice:
            more = add(more, self.levels.choice(point, statement.place))
            less = add(less, self.levels.choice(point, inner))
        least = tuple(map(min, more, less))
        more, less = (tuple(amount - both for amount, both in zip(own, least, strict=True)) for own in (more, less))
        opens = int(closes(point, statement.place) and not closes(point, inner))
        if point.calls or statement.place is Place.NETWORK:
            avoided, other = Vertex(more, (0, opens), unwanted=(statement.decision,)), Vertex(less, (0, 0))
            self._vertex(avoided, (statement,), needed)
            self._vertex(other, (statement,), unless)
        else:
            avoided, other = Vertex(less, (0, 0), unwanted=(statement.decision,)), Vertex(more, (0, 0))
            self._vertex(other, (statement,), needed)
            self._vertex(avoided, (statement,), unless)

    def _vertex(self, vertex: Vertex, statements: Iterable[Statement], vertices: Mapping[Statement, list[int]]) -> None:
        """Adds a vertex, unless it makes no difference."""
        if any(vertex.levels) or vertex.unwanted:
            for statement in statements:
                vertices[statement].append(len(self.vertices))
            self.vertices.append(vertex)

    def solve(self, effort: Effort) -> list[Part]:
        return cover(self.vertices, sorted(self.edges), effort)

    def choices(self, parts: Sequence[Part]) -> list[Place]:
        """A place for every decision: the innermost one if the cover has all its vertices, and order allows it."""
        covered = {vertex for part in parts for vertex in part.cover}
        holding: set[Statement] = set()
        for statement, wanted in self.unless.items():
            if not covered.issuperset(wanted):
                holding.update(self.implied[statement])
        choices = [inwards(left)[0] for left in self.domains]
        for index, chain in self.chains.items():
            choices[index] = next(
                (place for place in reversed(chain[1:]) if Statement(index, place) in holding), chain[0]
            )
        return choices

    def decisions(self, part: Part) -> list[int]:
        """Undecided decisions of a part. Every part has one, since each decision has a vertex of its own."""
        return list(dict.fromkeys(index for vertex in part.vertices for index in self.vertices[vertex].unwanted))

    def least(self, parts: Sequence[Part]) -> Mapping[str, int] | None:
        """First host of each part -> lower bound on the part's first level. None if that level is no sum over hosts."""
        if self.levels.metrics[0] not in (Metric.ADMS, Metric.SIDECARS):
            return None
        return {self.names[part.vertices[0]]: part.bound[0] for part in parts if part.vertices[0] < len(self.names)}


def gaps(parts: Sequence[Part], levels: Levels) -> Vector:
    """The most by which each level may be above its optimum."""
    total = [Bounded(0, 0)] * len(levels.zero)
    for part in parts:
        if part.value != part.bound:
            pairs = zip(total, part.value, part.bound, strict=True)
            total = [Bounded(sum_.value + value, sum_.bound + bound) for sum_, value, bound in pairs]
    return tuple(level.value - level.bound for level in total)


def _statements(chains: Mapping[int, tuple[Place, ...]], index: int) -> list[Statement]:
    """The statements of a decision, the weakest first: one for each of its places but the innermost."""
    return [Statement(index, place) for place in chains[index][1:]]


def _closure(
    chains: Mapping[int, tuple[Place, ...]], members: Sequence[int], clashing: Sequence[Clash]
) -> dict[Statement, set[Statement]]:
    """Return, for each statement about decisions of one destination, the statements that hold if this one does.

    If the second decision of a clash is at a place, the first is there or further out.
    """
    before: dict[Statement, list[Statement]] = {}
    for index in members:
        of = _statements(chains, index)
        for at, statement in enumerate(of):
            before[statement] = of[at - 1 : at] if at else []
    for clash in clashing:
        if clash.first in chains and clash.second in chains:
            for statement in _statements(chains, clash.second):
                reached = next(place for place in chains[clash.first] if place.position <= statement.place.position)
                if reached is not chains[clash.first][0]:
                    before[statement].append(Statement(clash.first, reached))
    closure = {statement: {statement} for statement in before}
    for statement, implied in closure.items():
        waiting = [statement]
        while waiting:
            for other in before[waiting.pop()]:
                if other not in implied:
                    implied.add(other)
                    waiting.append(other)
    return closure
