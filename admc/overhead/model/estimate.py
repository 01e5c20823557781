"""The full model: what the ADMs of a layout cost by a profile. A pure function, in exact arithmetic.

    Program, Layout, Profile -> [Overhead]

Every hop of a sidecar is taken at the rate of the whole sidecar (of one replica). Retries, delays of faults and the
time of an authorization service are no overhead of a sidecar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Final, NamedTuple

from admc.overhead.model.layout import Enforced, Layout, LoadedHop
from admc.overhead.model.notes import Notes
from admc.overhead.model.overhead import (
    AdmOverhead,
    CallLatency,
    ComponentShare,
    HopOverhead,
    Lack,
    Overhead,
    PartShare,
    Totals,
)
from admc.overhead.model.prices import PartFunctions, Prices, Traffic, cpu_of, latency_of
from admc.overhead.profiles.amounts import (
    NANO,
    ZERO,
    Whole,
    added,
    independently_added,
    mean,
    mean_whole,
    shares,
    whole,
)
from admc.overhead.profiles.law import Amount, Estimate, amount, total
from admc.overhead.profiles.profile import CPU, LATENCY, Figure, Profile
from dsl.program import Program, Protocol, Service

_NANO_OF_MICRO: Final = 1000


def estimate(program: Program, layout: Layout, profile: Profile) -> Overhead:
    return _Model(program, profile).overhead(layout)


def traffic(program: Program, calls: Iterable[int]) -> Traffic:
    """What some calls carry together."""
    by_size: dict[int | None, Fraction] = {}
    number = unrated = 0
    for index in calls:
        call = program.calls[index]
        number += 1
        if call.rate is None:
            unrated += 1
        else:
            rate = exact_rate(call.rate)
            by_size[call.size] = by_size[call.size] + rate if call.size in by_size else rate
    return Traffic(sum(by_size.values(), Fraction(0)), by_size, number, unrated)


class Base(NamedTuple):
    """The base of a hop and its parts, in the profile's order; None where the profile has no figure."""

    whole: Whole | None
    parts: tuple[int | None, ...]


class _Latencies(NamedTuple):
    """What a hop adds to requests, by their size."""

    base: Mapping[int | None, Base]
    policies: Sequence[Mapping[int | None, Whole | None]]
    scopes: Sequence[frozenset[int]]
    """The calls in the scope of each policy."""


class _Model:
    def __init__(self, program: Program, profile: Profile) -> None:
        self.program = program
        self.profile = profile
        self.prices = Prices(profile)
        self.notes = Notes()

    def overhead(self, layout: Layout) -> Overhead:
        adms = tuple(self._adm(self.program.services[name], hops) for name, hops in layout.items())
        totals = Totals(
            sidecars=sum(adm.replicas for adm in adms),
            hops=sum(len(adm.hops) for adm in adms),
            cpu=added(adm.cpu for adm in adms),
            memory=added(adm.memory for adm in adms),
            latency=self._weighted(adms),
            saturated=sum(adm.replicas for adm in adms if adm.saturated),
        )
        saturated = tuple(adm.service for adm in adms if adm.saturated)
        return Overhead(adms, totals, self.notes.missing(), self.notes.extrapolated(), saturated)

    def _weighted(self, adms: Sequence[AdmOverhead]) -> Whole:
        """The sum over calls of rate and added latency, rounded once."""
        value, low, high = Fraction(0), Fraction(0), Fraction(0)
        known = True
        at_least = False
        for each in (each for adm in adms for hop in adm.hops for each in hop.calls):
            rate = self.program.calls[each.call].rate
            if rate is None or each.latency is None:
                at_least = True
                continue
            weight = exact_rate(rate)
            value += weight * each.latency.value
            at_least = at_least or each.latency.at_least
            if each.latency.low is None or each.latency.high is None:
                known = False
            else:
                low += weight * each.latency.low
                high += weight * each.latency.high
        return whole(Amount.of(value, low if known else None, high if known else None), at_least=at_least)

    # ---- one ADM ----

    def _adm(self, service: Service, hops: Sequence[LoadedHop]) -> AdmOverhead:
        passing = [traffic(self.program, hop.calls) for hop in hops]
        rate = sum((each.rate for each in passing), Fraction(0)) / service.replicas
        whole_rate = None if any(each.unrated for each in passing) else rate or None
        idle = self._figure(self.profile.sidecar.idle_cpu, Lack.IDLE, service, service.replicas * NANO)
        costed = [self._cpu(hop, each, rate or None) for hop, each in zip(hops, passing, strict=True)]
        at_hops = [self._together(hop, base.whole, found) for hop, (base, found) in zip(hops, costed, strict=True)]
        cpu = added((idle, *at_hops))
        saturated = self._saturated(service, cpu)
        found = tuple(
            self._hop(hop, each, whole_rate, base, components, saturated=saturated)
            for hop, each, (base, components) in zip(hops, passing, costed, strict=True)
        )
        return AdmOverhead(
            service.name, service.replicas, rate, idle, cpu, self._memory(service, hops, found), saturated, found
        )

    def _saturated(self, service: Service, cpu: Whole) -> bool:
        """Whether one replica takes more cores than those up to which the profile holds."""
        limit = self.profile.saturation
        found = limit is not None and cpu.value > Fraction(limit) * service.replicas * NANO
        if found:
            self.notes.lacks(Lack.SATURATED, "latency", service.name)
        return found

    def _figure(self, figure: Figure | None, lack: Lack, service: Service, factor: int) -> Whole | None:
        if figure is None:
            self.notes.lacks(lack, lack.value, service.name)
            return None
        return whole(amount(figure), factor)

    # ---- CPU ----

    def _cpu(self, hop: LoadedHop, passing: Traffic, rate: Fraction | None) -> tuple[Base, tuple[Whole | None, ...]]:
        """The base with its parts, and the policies of a hop, in nano-cores."""
        components = tuple(self._component_cpu(hop, enforced, rate) for enforced in hop.enforced)
        self._rates_known(hop, passing)
        parts = self.prices.hops.get(hop.port.protocol)
        if parts is None:
            self.notes.lacks(Lack.HOP, f"{hop.port.protocol} hop", hop.service)
            return Base(None, ()), components
        subject = f"{hop.port.protocol} hop"
        costs = [cpu_of(part, rate, passing) for part in parts]
        at_least = self._parts_complete(hop, parts, costs, CPU) or bool(passing.unrated)
        slopes = self.prices.slope_known(hop.port.protocol, CPU)
        at_least = self._bytes(hop, subject, passing, [cost for cost in costs if cost is not None], slopes) or at_least
        base = whole(total(cost.amount for cost in costs if cost is not None), NANO, at_least=at_least)
        rounded = iter(shares(base.value, [cost.amount for cost in costs if cost is not None], NANO))
        return Base(base, tuple(None if cost is None else next(rounded) for cost in costs)), components

    def _component_cpu(self, hop: LoadedHop, enforced: Enforced, rate: Fraction | None) -> Whole | None:
        policy = enforced.policy
        cost = self.prices.component(policy, hop.port.protocol, hop.side)
        subject = _subject(policy.kind.component, policy.kind.name, hop.port.protocol)
        if cost is None:
            self.notes.lacks(Lack.COMPONENT, subject, hop.service)
            return None
        passing = traffic(self.program, enforced.calls)
        part = self.prices.functions(cost)
        found = cpu_of(part, rate, passing)
        at_least = self._complete(hop, Lack.COMPONENT, subject, found, CPU) or bool(passing.unrated)
        if cost.floor:
            self.notes.lacks(Lack.FLOOR, subject, hop.service)
            at_least = True
        if found is None:
            return None
        at_least = self._bytes(hop, subject, passing, [found], not found.no_slope) or at_least
        return whole(found.amount, NANO, at_least=at_least)

    def _rates_known(self, hop: LoadedHop, passing: Traffic) -> None:
        for index in hop.calls if passing.unrated else ():
            call = self.program.calls[index]
            if call.rate is None:
                self.notes.lacks(Lack.RATE, f"{call.source} -> {call.destination}", hop.service)

    def _parts_complete(
        self, hop: LoadedHop, parts: Sequence[PartFunctions], costs: Sequence[object | None], quantity: str
    ) -> bool:
        """Whether a part of the base lacks a figure; notes all such parts at once."""
        names = [part.name for part, cost in zip(parts, costs, strict=True) if cost is None]
        of = "" if len(names) == len(parts) else f"{', '.join(names)} of "
        return self._complete(hop, Lack.HOP, f"{of}{hop.port.protocol} hop", None if names else parts, quantity)

    def _complete(self, hop: LoadedHop, lack: Lack, subject: str, cost: object | None, quantity: str) -> bool:
        """Whether a figure is missing; notes that."""
        if cost is None:
            self.notes.lacks(lack, f"{subject}: {quantity}", hop.service)
        return cost is None

    def _bytes(self, hop: LoadedHop, subject: str, passing: Traffic, costs: Sequence[Estimate], slopes: bool) -> bool:
        """Whether the cost of bytes is missing; notes that, and what is extrapolated."""
        at_least = False
        if any(cost.no_slope for cost in costs) and not slopes:
            self.notes.lacks(Lack.BYTES, subject, hop.service)
            at_least = True
        if passing.unsized:
            for index in hop.calls:
                call = self.program.calls[index]
                if call.size is None:
                    self.notes.lacks(Lack.SIZE, f"{call.source} -> {call.destination}", hop.service)
            at_least = True
        if any(cost.rate_outside for cost in costs):
            self.notes.extrapolates("rate", subject, hop.service)
        if any(cost.size_outside for cost in costs):
            self.notes.extrapolates("size", subject, hop.service)
        return at_least

    # ---- latency ----

    def _hop(
        self,
        hop: LoadedHop,
        passing: Traffic,
        rate: Fraction | None,
        base: Base,
        components: Sequence[Whole | None],
        *,
        saturated: bool,
    ) -> HopOverhead:
        """`rate` is that of the whole sidecar; None if one of its calls has none."""
        parts = self.prices.hops.get(hop.port.protocol, ())
        added_by = None if saturated else self._latencies(hop, parts, rate)
        calls = tuple(CallLatency(index, self._of_call(hop, index, added_by)) for index in hop.calls)
        weights = _weights(self.program, hop.calls)
        bases = [] if added_by is None else [added_by.base[self.program.calls[index].size] for index in hop.calls]
        shared = tuple(
            PartShare(part.name, cpu, _mean_part([each.parts[at] for each in bases], weights))
            for at, (part, cpu) in enumerate(zip(parts, base.parts or (None,) * len(parts), strict=True))
        )
        shares = tuple(
            self._share(hop, enforced, cpu, added_by and _of_scope(self.program, enforced, added_by.policies[at]))
            for at, (enforced, cpu) in enumerate(zip(hop.enforced, components, strict=True))
        )
        return HopOverhead(
            hop.service,
            hop.side,
            hop.destination,
            hop.port.number,
            hop.port.protocol,
            passing.rate,
            base.whole,
            self._together(hop, base.whole, components),
            mean_whole([each.latency for each in calls], weights),
            shared,
            shares,
            calls,
        )

    def _latencies(self, hop: LoadedHop, parts: Sequence[PartFunctions], rate: Fraction | None) -> _Latencies:
        sizes = dict.fromkeys(self.program.calls[index].size for index in hop.calls)
        return _Latencies(
            {size: self._base_latency(hop, parts, rate, size) for size in sizes},
            [{size: self._component_latency(hop, each, rate, size) for size in sizes} for each in hop.enforced],
            [frozenset(each.calls) for each in hop.enforced],
        )

    def _of_call(self, hop: LoadedHop, index: int, found: _Latencies | None) -> Whole | None:
        if found is None:
            return None
        size = self.program.calls[index].size
        met = (
            by_size[size] if index in scope else ZERO
            for by_size, scope in zip(found.policies, found.scopes, strict=True)
        )
        return self._together(hop, found.base[size].whole, met)

    def _together(self, hop: LoadedHop, base: Whole | None, policies: Iterable[Whole | None]) -> Whole:
        """The base and all policies of a hop. Policies with one figure share its error; others are independent."""
        by_figure: dict[int, Whole | None] = {}
        for enforced, found in zip(hop.enforced, policies, strict=True):
            key = id(self.prices.component(enforced.policy, hop.port.protocol, hop.side))
            by_figure[key] = added((by_figure[key], found)) if key in by_figure else found
        return independently_added((base, *by_figure.values()))

    def _share(self, hop: LoadedHop, enforced: Enforced, cpu: Whole | None, latency: Whole | None) -> ComponentShare:
        kind = enforced.policy.kind
        return ComponentShare(enforced.policy.name, kind.component, cpu, latency, self._policy_memory(hop, enforced))

    def _base_latency(
        self, hop: LoadedHop, parts: Sequence[PartFunctions], rate: Fraction | None, size: int | None
    ) -> Base:
        # Latency falls as the rate of the sidecar rises, so the rates that are known give no bound.
        if not parts or (rate is None and any(part.depends_on_rate(LATENCY) for part in parts)):
            return Base(None, (None,) * len(parts))
        subject = f"{hop.port.protocol} hop"
        found = [latency_of(part, rate, size) for part in parts]
        at_least = self._parts_complete(hop, parts, found, LATENCY)
        known = [each for each in found if each is not None]
        slopes = self.prices.slope_known(hop.port.protocol, LATENCY)
        at_least = self._outside(hop, subject, known, slopes, size) or at_least
        base = whole(total(each.amount for each in known), _NANO_OF_MICRO, at_least=at_least)
        rounded = iter(shares(base.value, [each.amount for each in known], _NANO_OF_MICRO))
        return Base(base, tuple(None if each is None else next(rounded) for each in found))

    def _component_latency(
        self, hop: LoadedHop, enforced: Enforced, rate: Fraction | None, size: int | None
    ) -> Whole | None:
        policy = enforced.policy
        cost = self.prices.component(policy, hop.port.protocol, hop.side)
        if cost is None:
            return None
        subject = _subject(policy.kind.component, policy.kind.name, hop.port.protocol)
        part = self.prices.functions(cost)
        if rate is None and part.depends_on_rate(LATENCY):
            return None
        found = latency_of(part, rate, size)
        if self._complete(hop, Lack.COMPONENT, subject, found, LATENCY) or found is None:
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

    # ---- memory ----

    def _memory(self, service: Service, hops: Sequence[LoadedHop], found: Sequence[HopOverhead]) -> Whole:
        costs = self.profile.sidecar
        each = [
            self._figure(costs.memory, Lack.MEMORY, service, service.replicas),
            self._figure(costs.memory_hop, Lack.MEMORY, service, len(hops) * service.replicas),
            self._figure(
                costs.memory_connection, Lack.MEMORY, service, sum(connections(self.program, hop) for hop in hops)
            ),
        ]
        return added((*each, *(component.memory for hop in found for component in hop.components)))

    def _policy_memory(self, hop: LoadedHop, enforced: Enforced) -> Whole | None:
        cost = self.prices.component(enforced.policy, hop.port.protocol, hop.side)
        service = self.program.services[hop.service]
        own = None if cost is None else cost.memory
        return self._figure(own or self.profile.sidecar.memory_policy, Lack.MEMORY, service, service.replicas)


def connections(program: Program, hop: LoadedHop) -> int:
    """Connections of callers to all replicas, one for each replica of a caller: the fewest that there are."""
    sources = [program.calls[index].source for index in hop.calls]
    return sum(program.services[name].replicas if name in program.services else 1 for name in sources)


def _subject(component: str | None, kind: str, protocol: Protocol) -> str:
    return f"{component or f'kind {kind}'} ({protocol})"


@cache
def exact_rate(rate: float) -> Fraction:
    """The shortest decimal of a rate: 6/m is 0.1, and not the binary fraction next to it."""
    return Fraction(repr(rate))


def _weights(program: Program, calls: Iterable[int]) -> list[int]:
    """Rates as whole weights; a call without a rate counts as 1/s."""
    rates = [Fraction(1) if (rate := program.calls[index].rate) is None else exact_rate(rate) for index in calls]
    over = lcm(*(rate.denominator for rate in rates))
    return [rate.numerator * (over // rate.denominator) for rate in rates]


def _mean_part(values: Sequence[int | None], weights: Sequence[int]) -> int | None:
    known = [value for value in values if value is not None]
    return mean(known, weights) if known and len(known) == len(values) else None


def _of_scope(program: Program, enforced: Enforced, by_size: Mapping[int | None, Whole | None]) -> Whole | None:
    """What a policy adds to a request in its scope, on average over its calls."""
    calls = [index for index in enforced.calls if program.calls[index].size in by_size]
    return mean_whole([by_size[program.calls[index].size] for index in calls], _weights(program, calls))
