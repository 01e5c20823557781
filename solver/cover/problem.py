"""A placement without capacities as a weighted vertex cover.

A vertex is something that a decision needs at a place:

    at ingress    its destination as a host, and the hops of its ports there
    at egress     its senders as hosts, their hops, and possibly a closed destination

A placement has all vertices of at least one place of each decision. So an edge joins each vertex at ingress to each
vertex at egress of the decision. If `q` at egress needs `p` at egress (R6), an edge also joins each vertex of `q` at
ingress to each vertex of `p` at egress. A cover of these edges is a placement, and the weight of the cover is the value
of the objective (`docs/adr/0002-solver.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.program import Metric, Place, Program
from solver.cover.vertex_cover import Part, Vertex, cover
from solver.cpsat.engine import Bounded, Effort
from solver.objective import Levels, Shared, Vector, add, closes, hosts
from solver.rules.options import ONE_END, DecisionPoint, senders
from solver.rules.order import Clash, Domain


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
            if len(left) > 1:
                self.free.setdefault(point.destination, []).append(index)
                continue
            for place in left:
                self.forced.update(hosts(point, place, program))
                self._shared.update(levels.shared(point, place))
        self._senders = {index: senders(points[index], program) for members in self.free.values() for index in members}
        # A service that calls itself hosts an ADM in both cases.
        self.forced.update(
            name for name, members in self.free.items() if any(name in self._senders[i] for i in members)
        )
        names = {name for near in self._senders.values() for name in near}.union(self.free)
        self.names = sorted(names - self.forced)
        self._place = {name: at for at, name in enumerate(self.names)}
        self.vertices = [Vertex(levels.host(name), (1, 0), host=True) for name in self.names]
        self.edges: set[tuple[int, int]] = set()
        self.at_ingress: dict[int, list[int]] = {}
        """The vertices that have to be in the cover for an undecided decision to be at ingress."""
        self.needs: dict[int, set[int]] = {}
        """Undecided decision -> the decisions that are at egress if this one is (R6), itself included."""
        for destination, members in sorted(self.free.items()):
            self._add(destination, members, clashes.get(destination, ()))

    def _add(self, destination: str, members: Sequence[int], clashing: Sequence[Clash]) -> None:
        """The vertices and edges of one destination."""
        local = self._local(members)
        at_ingress, at_egress = local[Place.INGRESS], local[Place.EGRESS]
        own = self._place.get(destination)
        for index in members:
            self.at_ingress[index] = at_ingress[index] if own is None else [own, *at_ingress[index]]
            at_egress[index] += [self._place[name] for name in self._senders[index] if name in self._place]
        self.needs.update(_closure(members, clashing))
        for index in members:
            beyond = {vertex for other in self.needs[index] for vertex in at_egress[other]}
            for one in self.at_ingress[index]:
                self.edges.update((one, other) if one < other else (other, one) for other in beyond)

    def _local(self, members: Sequence[int]) -> dict[Place, dict[int, list[int]]]:
        """Vertices for hops, closing and costs, by place and decision.

        Decisions share these vertices. Vertices with the same decisions have the same edges, and are therefore merged.
        """
        amounts = {place: self._amounts(members, place) for place in ONE_END}
        for index in members:
            # A decision is at exactly one place, so an amount that both places add has no influence.
            key = (index,)
            one, other = (amounts[place][key] for place in ONE_END)
            least = tuple(map(min, one, other))
            if any(least):
                for place, own in zip(ONE_END, (one, other), strict=True):
                    amounts[place][key] = tuple(amount - both for amount, both in zip(own, least, strict=True))
        vertices: dict[Place, dict[int, list[int]]] = {place: {index: [] for index in members} for place in ONE_END}
        for place in ONE_END:
            for indices, levels in amounts[place].items():
                vertex = self._vertex(indices, levels, place)
                if vertex is not None:
                    for index in indices:
                        vertices[place][index].append(len(self.vertices))
                    self.vertices.append(vertex)
        return vertices

    def _amounts(self, members: Sequence[int], place: Place) -> dict[tuple[int, ...], Vector]:
        """The amounts that the decisions add at a place, without hosts, by the decisions that share an amount."""
        needing: dict[Shared, list[int]] = {}
        for index in members:
            for item in self.levels.shared(self.points[index], place):
                if item not in self._shared:
                    needing.setdefault(item, []).append(index)
        items: dict[tuple[int, ...], list[Shared]] = {(index,): [] for index in members}
        for item, needers in needing.items():
            items.setdefault(tuple(needers), []).append(item)
        amounts = {indices: self.levels.of_shared(shared) for indices, shared in items.items()}
        if self.levels.by_choice:
            for index in members:
                amounts[(index,)] = add(amounts[(index,)], self.levels.choice(self.points[index], place))
        return amounts

    def _vertex(self, indices: tuple[int, ...], levels: Vector, place: Place) -> Vertex | None:
        """The vertex for an amount, or None if the amount is zero."""
        if len(indices) == 1 and place is self.avoided(indices[0]):
            opens = int(closes(self.points[indices[0]], place))
            return Vertex(levels, (0, opens), unwanted=indices)
        return Vertex(levels, (0, 0)) if any(levels) else None

    def avoided(self, index: int) -> Place:
        """The place that the last tie-break avoids."""
        return Place.EGRESS if self.points[index].calls else Place.INGRESS

    def solve(self, effort: Effort) -> list[Part]:
        return cover(self.vertices, sorted(self.edges), effort)

    def choices(self, parts: Sequence[Part]) -> list[Place]:
        """A place for every decision: ingress if the cover has all vertices of that place, and order allows it."""
        covered = {vertex for part in parts for vertex in part.cover}
        choices = [Place.INGRESS if Place.INGRESS in left else next(iter(left)) for left in self.domains]
        for index, wanted in self.at_ingress.items():
            if not covered.issuperset(wanted):
                for other in self.needs[index]:
                    choices[other] = Place.EGRESS
        return choices

    def decisions(self, part: Part) -> list[int]:
        """Undecided decisions of a part. Every part has one, since each decision has a vertex of its own."""
        return [index for vertex in part.vertices for index in self.vertices[vertex].unwanted]

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


def _closure(members: Sequence[int], clashing: Sequence[Clash]) -> dict[int, set[int]]:
    """Return, for each undecided decision, the decisions that are at egress if this one is.

    Of the two decisions of a clash, the second at egress needs the first at egress.
    """
    before: dict[int, list[int]] = {index: [] for index in members}
    for clash in clashing:
        if clash.first in before and clash.second in before:
            before[clash.second].append(clash.first)
    closure = {index: {index} for index in members}
    for index, reached in closure.items():
        waiting = [index]
        while waiting:
            for other in before[waiting.pop()]:
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
    return closure
