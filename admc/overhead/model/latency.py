"""The latency that hops add to requests, by the size of their messages, at the rate of the whole sidecar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from admc.overhead.model.hop_figures import Base, HopFigures, split, subject_of
from admc.overhead.model.layout import Enforced, LoadedHop
from admc.overhead.model.overhead import Lack
from admc.overhead.model.prices import latency_of
from admc.overhead.profiles.amounts import ZERO, Whole, whole
from admc.overhead.profiles.law import Estimate, total
from admc.overhead.profiles.profile import LATENCY

_NANO_OF_MICRO: Final = 1000


class Latencies(NamedTuple):
    """What a hop adds to requests, by their size."""

    base: Mapping[int | None, Base]
    policies: Sequence[Mapping[int | None, Whole | None]]
    scopes: Sequence[frozenset[int]]
    """The calls in the scope of each policy."""


class HopLatency(HopFigures):
    def of_hop(self, hop: LoadedHop, rate: Fraction | None) -> Latencies:
        sizes = dict.fromkeys(self.program.calls[index].size for index in hop.calls)
        return Latencies(
            {size: self._base(hop, rate, size) for size in sizes},
            [{size: self._component(hop, each, rate, size) for size in sizes} for each in hop.enforced],
            [frozenset(each.calls) for each in hop.enforced],
        )

    def of_call(self, hop: LoadedHop, index: int, found: Latencies | None) -> Whole | None:
        if found is None:
            return None
        size = self.program.calls[index].size
        met = (
            by_size[size] if index in scope else ZERO
            for by_size, scope in zip(found.policies, found.scopes, strict=True)
        )
        return self.together(hop, found.base[size].whole, met)

    def _base(self, hop: LoadedHop, rate: Fraction | None, size: int | None) -> Base:
        own = self.prices.hops.get(hop.port.protocol, ())
        parts = self.prices.bases.get((hop.port.protocol, LATENCY), ())
        # Latency falls as the rate of the sidecar rises, so the rates that are known give no bound.
        if not parts or (rate is None and any(part.depends_on_rate(LATENCY) for part in parts)):
            return Base(None, (None,) * len(own))
        subject = f"{hop.port.protocol} hop"
        found = [latency_of(part, rate, size) for part in parts]
        at_least = self.parts_complete(hop, parts, found, LATENCY)
        known = [each for each in found if each is not None]
        slopes = self.prices.slope_known(hop.port.protocol, LATENCY)
        at_least = self._outside(hop, subject, known, slopes, size) or at_least
        base = whole(total(each.amount for each in known), _NANO_OF_MICRO, at_least=at_least)
        shared = found if own is parts else [latency_of(part, rate, size) for part in own]
        return Base(base, split(base, shared, _NANO_OF_MICRO))

    def _component(self, hop: LoadedHop, enforced: Enforced, rate: Fraction | None, size: int | None) -> Whole | None:
        policy = enforced.policy
        cost = self.prices.component(policy, hop.port.protocol, hop.side)
        if cost is None:
            return None
        subject = subject_of(policy.kind.component, policy.kind.name, hop.port.protocol)
        part = self.prices.functions(cost)
        if rate is None and part.depends_on_rate(LATENCY):
            return None
        found = latency_of(part, rate, size)
        if self.complete(hop, Lack.COMPONENT, subject, found, LATENCY) or found is None:
            return None
        at_least = self._outside(hop, subject, [found], not found.no_slope, size) or cost.floor
        return whole(found.amount, _NANO_OF_MICRO, at_least=at_least)

    def _outside(self, hop: LoadedHop, subject: str, found: Sequence[Estimate], slopes: bool, size: int | None) -> bool:
        """Whether the latency of bytes is missing; notes that, and what is extrapolated."""
        if any(each.rate_outside for each in found):
            self.notes.extrapolates("rate", subject, hop.service)
        if any(each.size_outside for each in found):
            self.notes.extrapolates("size", subject, hop.service)
        if any(each.no_slope for each in found) and not slopes:
            self.notes.lacks(Lack.BYTES, subject, hop.service)
            return True
        return size is None
