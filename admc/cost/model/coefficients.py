"""Costs for the solver: what each ADM, hop and enforcement that a placement may have costs by a profile.

A coefficient takes its hop at the hop's own rate, since the other hops of the sidecar are not decided yet. CPU of a
request never rises with the rate (`ADM867`), so a sum of coefficients is never below the full model: `capacity` (R9)
errs on the safe side. Each coefficient is rounded once, as the model rounds each of its figures, after a margin that is
larger than all errors of floats: it changes a rounded figure only where the two would round to other sides.
What the profile lacks costs nothing here; a plan says what that is.
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
"""A part of each cost: more than `ROUNDING` at each of the most rates of a law (`MAX_RATES`) adds up to."""


def coefficients(program: Program, points: Sequence[DecisionPoint], profile: Profile) -> Costs:
    """Costs of everything that the decisions `points` may need at either side.

    CPU is in nano-cores of all replicas; latency in nanoseconds that are added in each second to all requests.
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
    """The sidecar works at the rate of the hop at least, whatever part of it a policy is for."""
    costs = []
    for enforced in hop.enforced:
        cost = prices.component(enforced.policy, hop.port.protocol, hop.side)
        if cost is not None:
            functions = prices.functions(cost).functions
            row = traffics.of(enforced.calls)
            costs.append((enforced.policy.name, _cost(functions[CPU], functions[LATENCY], row, rate)))
    return costs


def _cost(cpu: Function | None, latency: Function | None, row: Traffic, rate: float) -> Cost:
    """Of some traffic in a sidecar that works at `rate` (of one replica)."""
    return Cost(
        0 if cpu is None else _with_margin(cpu, row, rate or None, NANO),
        0 if latency is None else _with_margin(latency, row, rate or None, 1000),
    )


def _with_margin(function: Function, row: Traffic, rate: float | None, factor: int) -> int:
    """The margin is a part of the base, too: below the reference size a cost is a difference, with the base's error."""
    cost = function.of_traffic(rate, row.by_size, row.rate).amount.value
    base = function.base.at(rate)[0].value * row.rate
    return nearest((cost + _MARGIN * max(cost, base)) * factor)
