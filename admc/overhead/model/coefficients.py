"""Costs for the solver: what each ADM, hop and enforcement that a placement may have costs by a profile.

A coefficient takes its hop at the hop's own rate, since the other hops of the sidecar are not decided yet. CPU of a
request never rises with the rate (`ADM867`), so a sum of coefficients is never below the full model: `capacity` (R9)
errs on the safe side. Each coefficient is rounded once from exact decimals, as the model rounds each of its figures.
What the profile lacks costs nothing here; a plan says what that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from admc.overhead.model.estimate import traffic
from admc.overhead.model.layout import LoadedHop, of_every_decision
from admc.overhead.model.prices import Prices, Traffic
from admc.overhead.profiles.amounts import NANO, whole
from admc.overhead.profiles.law import Function, amount
from admc.overhead.profiles.profile import CPU, LATENCY, Profile
from dsl.program import Program, Side
from solver.placement import Placement


class Coefficient(NamedTuple):
    """`cpu` in nano-cores of all replicas; `latency` in nanoseconds that are added in each second to all requests."""

    cpu: int = 0
    latency: int = 0

    def plus(self, other: Coefficient) -> Coefficient:
        return Coefficient(self.cpu + other.cpu, self.latency + other.latency)


@dataclass(frozen=True, slots=True)
class Coefficients:
    adm: Mapping[str, Coefficient]
    """Service -> cost of an ADM without any request."""
    hop: Mapping[tuple[str, Side, str, int], Coefficient]
    """(hosting service, side, destination, port number) -> cost of the hop, due once."""
    enforcement: Mapping[tuple[str, Side, str, str], Coefficient]
    """(hosting service, side, policy, destination) -> cost of the policy, at all ports of the destination."""


def coefficients(program: Program, decisions: Placement, profile: Profile) -> Coefficients:
    """For all sides that the policies of `decisions` may take; the sides that it has taken do not matter."""
    prices = Prices(profile)
    idle = profile.sidecar.idle_cpu
    adm: dict[str, Coefficient] = {}
    hops: dict[tuple[str, Side, str, int], Coefficient] = {}
    enforcements: dict[tuple[str, Side, str, str], Coefficient] = {}
    for name, found in of_every_decision(program, decisions).items():
        replicas = program.services[name].replicas
        adm[name] = Coefficient(0 if idle is None else whole(amount(idle), replicas * NANO).value)
        for hop in found:
            row = traffic(program, hop.calls)
            cpu, latency = (prices.whole_hops.get((hop.port.protocol, quantity)) for quantity in (CPU, LATENCY))
            hops[name, hop.side, hop.destination, hop.port.number] = _coefficient(cpu, latency, row, replicas)
            for policy, cost in _policies(program, prices, hop, replicas):
                key = name, hop.side, policy, hop.destination
                enforcements[key] = enforcements.get(key, Coefficient()).plus(cost)
    return Coefficients(adm, hops, enforcements)


def _policies(program: Program, prices: Prices, hop: LoadedHop, replicas: int) -> list[tuple[str, Coefficient]]:
    found = []
    for enforced in hop.enforced:
        cost = prices.component(enforced.policy, hop.port.protocol, hop.side)
        if cost is not None:
            functions = prices.functions(cost).functions
            row = traffic(program, enforced.calls)
            found.append((enforced.policy.name, _coefficient(functions[CPU], functions[LATENCY], row, replicas)))
    return found


def _coefficient(cpu: Function | None, latency: Function | None, row: Traffic, replicas: int) -> Coefficient:
    rate: Fraction | None = row.rate / replicas or None
    return Coefficient(
        0 if cpu is None else whole(cpu.of_traffic(rate, row.by_size).amount, NANO).value,
        0 if latency is None else whole(latency.of_traffic(rate, row.by_size).amount, 1000).value,
    )
