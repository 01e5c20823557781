"""Which services have to host an ADM, as a vertex cover.

A destination with undecided decisions hosts an ADM, or all their senders do. Where the objective depends on hosts
alone, no other choice remains (`docs/adr/0002-solver.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsl.program import Metric, Program
from solver.cover.vertex_cover import Part, cover
from solver.cpsat.engine import Bounded, Effort
from solver.objective import Levels, add, hosts
from solver.rules.options import DecisionPoint, senders
from solver.rules.order import EGRESS, INGRESS, sides_of


class Hosting:
    """The undecided decisions as a graph on services: a destination hosts an ADM, or all its senders do."""

    def __init__(
        self, program: Program, found: Sequence[DecisionPoint], domains: Sequence[int], levels: Levels
    ) -> None:
        self.program = program
        self.found = found
        self.domains = domains
        self.levels = levels
        self.free: dict[str, list[int]] = {}
        self.forced: set[str] = set()
        for index, (point, left) in enumerate(zip(found, domains, strict=True)):
            if left != INGRESS | EGRESS:
                for side in sides_of(left):
                    self.forced.update(hosts(point, side, program))
            elif point.calls:
                self.free.setdefault(point.destination, []).append(index)
        self.senders = {
            destination: sorted({sender for index in members for sender in senders(found[index], program)})
            for destination, members in self.free.items()
        }
        # A service that calls itself hosts an ADM in both cases.
        self.forced.update(destination for destination, near in self.senders.items() if destination in near)
        self.pairs = [
            (destination, sender)
            for destination, near in sorted(self.senders.items())
            if destination not in self.forced
            for sender in near
            if sender not in self.forced
        ]
        self.names = sorted({name for pair in self.pairs for name in pair})
        self.place = {name: at for at, name in enumerate(self.names)}
        self.prices, self.scale = self._prices()

    def _prices(self) -> tuple[list[int], int]:
        """Weights of the services, which combine all levels that depend on hosts; and the scale of the first level."""
        levels = list(dict.fromkeys(m for m in self.levels.metrics if m in (Metric.ADMS, Metric.SIDECARS)))
        if Metric.ADMS not in levels:
            levels.append(Metric.ADMS)  # the last tie-break: fewer ADMs
        prices, scale = [0] * len(self.names), 1
        for metric in reversed(levels):
            own = [1 if metric is Metric.ADMS else self.program.services[name].replicas for name in self.names]
            first = scale
            prices = [price + scale * weight for price, weight in zip(prices, own, strict=True)]
            scale *= sum(own) + 1
        return prices, first

    def solve(self, effort: Effort, reductions: bool) -> list[Part]:
        bonuses = [sum(self.found[index].closes for index in self.free.get(name, ())) for name in self.names]
        edges = sorted({tuple(sorted((self.place[one], self.place[other]))) for one, other in self.pairs})
        return cover(self.prices, bonuses, [(one, other) for one, other in edges], effort, reductions=reductions)

    def choices(self, parts: Sequence[Part]) -> list[int]:
        """A choice for every decision: at ingress wherever the destination hosts an ADM."""
        hosting = self.forced | {self.names[at] for part in parts for at in part.cover}
        return [
            (INGRESS if point.calls and point.destination in hosting else EGRESS) if left == INGRESS | EGRESS else left
            for point, left in zip(self.found, self.domains, strict=True)
        ]

    def bounds(self, parts: Sequence[Part]) -> list[Bounded]:
        """Value and bound of each level, summed over the parts whose cover is not proven to be cheapest."""
        totals = [Bounded(0, 0)] * len(self.levels.names)
        for part in parts:
            if part.value == part.bound:
                continue
            value = self.levels.zero
            for at in part.cover:
                value = add(value, self.levels.host(self.names[at]))
            first = min((i for i, own in enumerate(value) if own), default=0)
            for level, own in enumerate(value):
                bound = self.first_bound(part) if level == first else 0
                totals[level] = Bounded(totals[level].value + own, totals[level].bound + bound)
        return totals

    def first_bound(self, part: Part) -> int:
        """A bound on the first level from a bound on the combined weights."""
        rest = sum(self.prices[at] % self.scale for at in part.vertices)
        return -(-max(0, part.bound - rest) // self.scale)

    def least(self, parts: Sequence[Part]) -> Mapping[str, int] | None:
        """First host of each part -> lower bound on the part's first level. None if that level is no sum over hosts."""
        if self.levels.metrics[0] not in (Metric.ADMS, Metric.SIDECARS):
            return None
        return {self.names[part.vertices[0]]: self.first_bound(part) for part in parts}
