"""Estimates the latency that hops add to requests, by the size of messages, at the rate of the whole sidecar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from admc.cost.model.hop_figures import Base, HopFigures, split, subject_of
from admc.cost.model.layout import Enforced, LoadedHop
from admc.cost.model.overhead import Lack, Notes
from admc.cost.model.prices import Prices, latency_of
from admc.cost.model.traffic import Traffics
from admc.cost.profiles.amounts import ZERO, Whole, whole
from admc.cost.profiles.law import Estimate
from admc.cost.profiles.profile import LATENCY
from dsl.program import Program, Protocol

_NANO_OF_MICRO: Final = 1000


class Latencies(NamedTuple):
    """The latency that a hop adds to a request of each size."""

    base: Mapping[int | None, Base]
    policies: Sequence[Mapping[int | None, Whole | None]]
    scopes: Sequence[frozenset[int]]
    """The calls in the scope of each policy."""


class HopLatency(HopFigures):
    def __init__(self, program: Program, traffics: Traffics, prices: Prices, notes: Notes) -> None:
        super().__init__(program, traffics, prices, notes)
        self._bases: dict[tuple[Protocol, float | None, int | None], tuple[Base, Estimate]] = {}

    def of_hop(self, hop: LoadedHop, rate: float | None) -> Latencies:
        sizes = dict.fromkeys(self.program.calls[index].size for index in hop.calls)
        return Latencies(
            {size: self._base(hop, rate, size) for size in sizes},
            [{size: self._component(hop, enforced, rate, size) for size in sizes} for enforced in hop.enforced],
            [frozenset(enforced.calls) for enforced in hop.enforced],
        )

    def of_call(self, hop: LoadedHop, index: int, latencies: Latencies | None) -> Whole | None:
        if latencies is None:
            return None
        size = self.program.calls[index].size
        policies = (
            by_size[size] if index in scope else ZERO
            for by_size, scope in zip(latencies.policies, latencies.scopes, strict=True)
        )
        return self.together(hop, latencies.base[size].whole, policies)

    def _base(self, hop: LoadedHop, rate: float | None, size: int | None) -> Base:
        protocol = hop.port.protocol
        own = self.prices.hops.get(protocol, ())
        parts = self.prices.bases.get((protocol, LATENCY), ())
        # Latency falls as the rate of the sidecar rises, so a sum of the known rates alone gives no lower bound.
        if not parts or (rate is None and any(part.depends_on_rate(LATENCY) for part in parts)):
            return Base(None, (None,) * len(own))
        key = protocol, rate, size
        if key not in self._bases:
            self._bases[key] = self._base_of(*key)
        base, costs = self._bases[key]
        self.parts_lack(hop, LATENCY)
        self.note(hop, f"{protocol} hop", costs)
        return base

    def _base_of(self, protocol: Protocol, rate: float | None, size: int | None) -> tuple[Base, Estimate]:
        """The base for a request, and its estimate. `_base` keeps both, since many hops have the same size and rate."""
        own, parts = self.prices.hops[protocol], self.prices.bases[protocol, LATENCY]
        costs = [latency_of(part, rate, size) for part in parts]
        together = self.prices.sum_of(costs, protocol, LATENCY)
        at_least = (protocol, LATENCY) in self.prices.lacking or together.no_slope or size is None
        base = whole(together.amount, _NANO_OF_MICRO, at_least=at_least)
        shared = costs if own is parts else [latency_of(part, rate, size) for part in own]
        return Base(base, split(base, shared, _NANO_OF_MICRO)), together

    def _component(self, hop: LoadedHop, enforced: Enforced, rate: float | None, size: int | None) -> Whole | None:
        policy = enforced.policy
        cost = self.prices.component(policy, hop.port.protocol, hop.side)
        if cost is None:
            return None
        subject = subject_of(policy.kind.component, policy.kind.name, hop.port.protocol)
        part = self.prices.functions(cost)
        if rate is None and part.depends_on_rate(LATENCY):
            return None
        estimate = latency_of(part, rate, size)
        if self.lacks_figure(hop, Lack.COMPONENT, subject, estimate, LATENCY) or estimate is None:
            return None
        self.note(hop, subject, estimate)
        return whole(estimate.amount, _NANO_OF_MICRO, at_least=estimate.no_slope or size is None or cost.floor)
