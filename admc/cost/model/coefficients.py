"""Computes the costs that the solver minimises: those of each ADM, hop and enforcement that a placement may have.

    Program, decision points, Profile -> [Costs]

The CPU of a sum of coefficients is never below the full model, so that `capacity` (R9) errs on the safe side:

- A coefficient takes its hop at the hop's own rate, since the other hops of the sidecar are not decided yet. The rate
  of the whole sidecar is not lower, and the CPU of a request never rises with the rate (`ADM867`).
- Each coefficient is rounded once, as each figure of the model is. A margin is added before, which is larger than all
  errors of floats. It matters only where these errors could round the coefficient down and the model's figure up.

A figure that the profile lacks counts as zero here, and the plan lists it as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admc.cost.model.layout import LoadedHop, of_every_decision
from admc.cost.model.prices import Prices, Traffic
from admc.cost.model.traffic import Traffics
from admc.cost.profiles.amounts import NANO, nearest, whole
from admc.cost.profiles.law import Function, amount
from admc.cost.profiles.profile import CPU, LATENCY, Profile
from dsl.program import Program, Side
from solver.placement import Cost, Costs, Hop
from solver.rules.options import DecisionPoint

_MARGIN: Final = 2.0**-40
"""A share of each cost that is larger than the sum of all rounding errors: `MAX_RATES` times `ROUNDING`."""


def coefficients(program: Program, points: Sequence[DecisionPoint], profile: Profile) -> Costs:
    """The costs of all ADMs, hops and enforcements that the decisions `points` may need at either side.

    CPU is in nano-cores of all replicas. Latency is in nanoseconds, added up over all requests of one second.
    """
    prices, traffics = Prices(profile), Traffics(program)
    idle = profile.sidecar.idle_cpu
    adm: dict[str, Cost] = {}
    hops: dict[Hop, Cost] = {}
    enforcements: dict[tuple[str, Side, str, str], Cost] = {}
    for name, loaded_hops in of_every_decision(program, points).items():
        replicas = program.services[name].replicas
        adm[name] = Cost(0 if idle is None else whole(amount(idle), replicas * NANO).value)
        for hop in loaded_hops:
            row = traffics.of(hop.calls)
            cpu, latency = (prices.whole_hops.get((hop.port.protocol, quantity)) for quantity in (CPU, LATENCY))
            key = Hop(name, hop.side, hop.destination, hop.port.number)
            hops[key] = _cost(cpu, latency, row, row.rate / replicas)
            for policy, cost in _policies(prices, traffics, hop, row.rate / replicas):
                share = name, hop.side, policy, hop.destination
                before = enforcements.get(share, Cost())
                enforcements[share] = Cost(before.cpu + cost.cpu, before.latency + cost.latency)
    return Costs(adm, enforcements, known=True, hop=hops)


def _policies(prices: Prices, traffics: Traffics, hop: LoadedHop, rate: float) -> list[tuple[str, Cost]]:
    """The cost of each policy at the rate of the whole hop, even if the policy is for a part of the hop's calls."""
    costs = []
    for enforced in hop.enforced:
        cost = prices.component(enforced.policy, hop.port.protocol, hop.side)
        if cost is not None:
            functions = prices.functions(cost).functions
            row = traffics.of(enforced.calls)
            costs.append((enforced.policy.name, _cost(functions[CPU], functions[LATENCY], row, rate)))
    return costs


def _cost(cpu: Function | None, latency: Function | None, row: Traffic, rate: float) -> Cost:
    """The cost of some traffic in a sidecar whose replicas each work at `rate`."""
    return Cost(
        0 if cpu is None else _with_margin(cpu, row, rate or None, NANO),
        0 if latency is None else _with_margin(latency, row, rate or None, 1000),
    )


def _with_margin(function: Function, row: Traffic, rate: float | None, factor: int) -> int:
    """The rounded cost with its margin.

    Below the reference size a cost is smaller than the base, but has the rounding error of the base: there the margin
    is a share of the base.
    """
    cost = function.of_traffic(rate, row.by_size, row.rate).amount.value
    base = function.base.at(rate)[0].value * row.rate
    return nearest((cost + _MARGIN * max(cost, base)) * factor)
