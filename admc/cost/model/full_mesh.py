"""Estimates the totals of a full mesh. Its hops get no figures: in a large application they are ten times as many as
those of the plan.

    Program, Placement, Profile -> [FullMesh]

The model is that of `estimate`. All requests of one protocol at one sidecar are taken together, since a law is linear
in the size. So a sum is rounded once for a sidecar, and not once for each hop. The figures that are missing or
extrapolated are not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from admc.cost.model.layout import LoadedHop, of_full_mesh
from admc.cost.model.overhead import Totals
from admc.cost.model.prices import PartFunctions, Prices, Traffic
from admc.cost.model.traffic import Traffics, connections
from admc.cost.profiles.amounts import NANO, Whole, added, whole
from admc.cost.profiles.law import Amount, Function, amount, independent, total
from admc.cost.profiles.profile import CPU, LATENCY, Figure, Profile
from dsl.program import Program, Protocol, Service
from solver.placement import Placement


class FullMesh(NamedTuple):
    """Totals with a sidecar at every service that can host one (`hosting`), and at all services (`everywhere`)."""

    hosting: Totals
    everywhere: Totals


def full_mesh(program: Program, placement: Placement, profile: Profile) -> FullMesh:
    """The totals of a full mesh that enforces each policy where the plan does."""
    sidecars = _Sidecars(program, profile)
    layout = of_full_mesh(program, placement, everywhere=True)
    by_service = {name: sidecars.totals(program.services[name], hops) for name, hops in layout.items()}
    hosting = [totals for name, totals in by_service.items() if program.services[name].can_host]
    return FullMesh(_sum(hosting), _sum(by_service.values()))


def _sum(totals: Iterable[Totals]) -> Totals:
    rows = tuple(totals)
    return Totals(
        sum(row.sidecars for row in rows),
        sum(row.hops for row in rows),
        added(row.cpu for row in rows),
        added(row.memory for row in rows),
        added(row.latency for row in rows),
        sum(row.saturated for row in rows),
    )


class _Sidecars:
    def __init__(self, program: Program, profile: Profile) -> None:
        self.program = program
        self.profile = profile
        self.prices = Prices(profile)
        self.traffics = Traffics(program)

    def totals(self, service: Service, hops: Sequence[LoadedHop]) -> Totals:
        passing: dict[Protocol, list[int]] = {}
        for hop in hops:
            passing.setdefault(hop.port.protocol, []).extend(hop.calls)
        together = {protocol: self.traffics.of(tuple(calls)) for protocol, calls in passing.items()}
        rate = fsum(traffic.rate for traffic in together.values()) / service.replicas or None
        idle = self._figure(self.profile.sidecar.idle_cpu, service.replicas * NANO)
        # Latency and the CPU of a request fall as the rate rises, so the sum of the known rates gives no lower bound.
        is_known = not any(traffic.unrated for traffic in together.values())
        cpu_rate = rate if is_known else self.prices.highest_rate
        cpu = added((idle, self._requests(CPU, hops, together, cpu_rate, NANO)))
        limit = self.profile.saturation
        saturated = limit is not None and cpu.value > limit * service.replicas * NANO
        latency_rate = rate if is_known else None
        latency = None if saturated else self._requests(LATENCY, hops, together, latency_rate, 1000)
        memory = self._memory(service, hops)
        return Totals(service.replicas, len(hops), cpu, memory, added((latency,)), service.replicas if saturated else 0)

    def _requests(
        self,
        quantity: str,
        hops: Sequence[LoadedHop],
        together: Mapping[Protocol, Traffic],
        rate: float | None,
        factor: int,
    ) -> Whole:
        """The cost of all requests of one second, at hops and by policies, in nano-cores or nanoseconds.

        Without a rate, each latency that depends on the rate is missing."""
        amounts: dict[int, list[Amount]] = {}
        at_least = False
        for protocol, row in together.items():
            at_least = at_least or not self.prices.complete(protocol, quantity)
            base = amounts.setdefault(id(protocol), [])
            function = self.prices.whole_hops.get((protocol, quantity))
            if _unknown(quantity, rate, self.prices.bases.get((protocol, quantity), ())):
                function = None
            at_least = self._add(base, function, row, rate) or at_least
        for hop in hops:
            for enforced in hop.enforced:
                cost = self.prices.component(enforced.policy, hop.port.protocol, hop.side)
                part = None if cost is None else self.prices.functions(cost)
                unknown = part is None or _unknown(quantity, rate, [part])
                function = None if part is None or unknown else part.functions[quantity]
                row = self.traffics.of(enforced.calls)
                at_least = at_least or cost is None or cost.floor
                at_least = self._add(amounts.setdefault(id(cost), []), function, row, rate) or at_least
        # Policies with one figure share its error; the errors of different figures are independent.
        return whole(independent(total(shared) for shared in amounts.values()), factor, at_least=at_least)

    @staticmethod
    def _add(amounts: list[Amount], function: Function | None, row: Traffic, rate: float | None) -> bool:
        """Add the cost of some traffic to `amounts`. Return whether that cost lacks a figure."""
        if function is None:
            return True
        estimate = function.of_traffic(rate, row.by_size, row.rate)
        amounts.append(estimate.amount)
        return estimate.no_slope or bool(row.unrated) or row.unsized

    def _memory(self, service: Service, hops: Sequence[LoadedHop]) -> Whole:
        costs = self.profile.sidecar
        policies = []
        for hop in hops:
            for enforced in hop.enforced:
                cost = self.prices.component(enforced.policy, hop.port.protocol, hop.side)
                own = None if cost is None else cost.memory
                policies.append(self._figure(own or costs.memory_policy, service.replicas))
        return added(
            (
                self._figure(costs.memory, service.replicas),
                self._figure(costs.memory_hop, len(hops) * service.replicas),
                None
                if costs.memory_connection is None
                else self._figure(costs.memory_connection, sum(connections(self.program, hop) for hop in hops)),
                *policies,
            )
        )

    @staticmethod
    def _figure(figure: Figure | None, factor: int) -> Whole | None:
        return None if figure is None else whole(amount(figure), factor)


def _unknown(quantity: str, rate: float | None, parts: Iterable[PartFunctions]) -> bool:
    return quantity == LATENCY and rate is None and any(part.depends_on_rate(quantity) for part in parts)
