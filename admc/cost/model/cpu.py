"""Estimates the CPU of hops, of their base, its parts and their policies, at the rate of the whole sidecar."""

from __future__ import annotations

from collections.abc import Sequence

from admc.cost.model.hop_figures import Base, HopFigures, split, subject_of
from admc.cost.model.layout import Enforced, LoadedHop
from admc.cost.model.overhead import Lack
from admc.cost.model.prices import PartFunctions, Traffic, cpu_of
from admc.cost.profiles.amounts import NANO, Whole, whole
from admc.cost.profiles.law import Estimate
from admc.cost.profiles.profile import CPU


class HopCpu(HopFigures):
    def of_hop(
        self, hop: LoadedHop, passing: Traffic, rate: float | None, *, rate_is_known: bool
    ) -> tuple[Base, tuple[Whole | None, ...]]:
        """The CPU of the base of a hop with its parts, and of each policy there, in nano-cores. All are lower bounds if
        they depend on the rate of the sidecar, and that rate is not known."""
        components = tuple(
            self._component(hop, enforced, rate, rate_is_known=rate_is_known) for enforced in hop.enforced
        )
        self._rates_known(hop, passing)
        parts = self.prices.bases.get((hop.port.protocol, CPU))
        if parts is None:
            self.notes.lacks(Lack.HOP, f"{hop.port.protocol} hop", hop.service)
            return Base(None, ()), components
        subject = f"{hop.port.protocol} hop"
        costs = cpu_of(parts, rate, passing)
        together = self.prices.sum_of(costs, hop.port.protocol, CPU)
        at_least = self.parts_lack(hop, CPU) or bool(passing.unrated) or not (rate_is_known or _steady(parts))
        at_least = self._bytes(hop, subject, passing, together) or at_least
        base = whole(together.amount, NANO, at_least=at_least)
        own = self.prices.hops[hop.port.protocol]
        own_costs = costs if own is parts else cpu_of(own, rate, passing)
        return Base(base, split(base, own_costs, NANO)), components

    def _component(
        self, hop: LoadedHop, enforced: Enforced, rate: float | None, *, rate_is_known: bool
    ) -> Whole | None:
        policy = enforced.policy
        cost = self.prices.component(policy, hop.port.protocol, hop.side)
        subject = subject_of(policy.kind.component, policy.kind.name, hop.port.protocol)
        if cost is None:
            self.notes.lacks(Lack.COMPONENT, subject, hop.service)
            return None
        passing = self.traffics.of(enforced.calls)
        part = self.prices.functions(cost)
        (estimate,) = cpu_of([part], rate, passing)
        at_least = self.lacks_figure(hop, Lack.COMPONENT, subject, estimate, CPU) or bool(passing.unrated)
        at_least = at_least or not (rate_is_known or _steady([part]))
        if cost.floor:
            self.notes.lacks(Lack.FLOOR, subject, hop.service)
            at_least = True
        if estimate is None:
            return None
        at_least = self._bytes(hop, subject, passing, estimate) or at_least
        return whole(estimate.amount, NANO, at_least=at_least)

    def _rates_known(self, hop: LoadedHop, passing: Traffic) -> None:
        for index in hop.calls if passing.unrated else ():
            call = self.program.calls[index]
            if call.rate is None:
                self.notes.lacks(Lack.RATE, f"{call.source} -> {call.destination}", hop.service)

    def _bytes(self, hop: LoadedHop, subject: str, passing: Traffic, cost: Estimate) -> bool:
        """Note what the cost lacks or extrapolates. Return whether it lacks the cost of bytes."""
        self.note(hop, subject, cost)
        if passing.unsized:
            for index in hop.calls:
                call = self.program.calls[index]
                if call.size is None:
                    self.notes.lacks(Lack.SIZE, f"{call.source} -> {call.destination}", hop.service)
        return cost.no_slope or passing.unsized


def _steady(parts: Sequence[PartFunctions]) -> bool:
    """Whether the CPU of these parts does not depend on the rate."""
    return not any(part.depends_on_rate(CPU) for part in parts)
