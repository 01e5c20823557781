"""Estimates what the ADMs of a layout cost by a profile: the full model, a pure function.

    Program, Layout, Profile -> [Overhead]

The figures of every hop are those at the rate of the whole sidecar (of one replica). If one of its calls has no rate,
CPU is a lower bound, and a latency that depends on the rate is not known. Retries, injected delays and the
time that an authorization service takes are no overhead of a sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from admc.cost.model.cpu import HopCpu
from admc.cost.model.hop_figures import Base
from admc.cost.model.latency import HopLatency, Latencies
from admc.cost.model.layout import Enforced, Layout, LoadedHop
from admc.cost.model.overhead import (
    AdmOverhead,
    CallLatency,
    ComponentShare,
    HopOverhead,
    Lack,
    Notes,
    Overhead,
    PartShare,
    Totals,
)
from admc.cost.model.prices import Prices, Traffic
from admc.cost.model.traffic import Traffics, connections, weights_of
from admc.cost.profiles.amounts import NANO, Whole, added, mean, mean_whole, nearest, whole
from admc.cost.profiles.law import Amount, amount
from admc.cost.profiles.profile import Figure, Profile
from dsl.program import Program, Service


def estimate(program: Program, layout: Layout, profile: Profile) -> Overhead:
    return _Model(program, profile).overhead(layout)


class _Model:
    def __init__(self, program: Program, profile: Profile) -> None:
        self.program = program
        self.profile = profile
        self.prices = Prices(profile)
        self.notes = Notes()
        self.traffics = Traffics(program)
        self.cpu = HopCpu(program, self.traffics, self.prices, self.notes)
        self.latency = HopLatency(program, self.traffics, self.prices, self.notes)

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
        """The sum over all calls of their rate times their added latency, as far as both are known, rounded once."""
        values: list[float] = []
        lows: list[float] = []
        highs: list[float] = []
        at_least = False
        for call in (call for adm in adms for hop in adm.hops for call in hop.calls):
            rate = self.program.calls[call.call].rate
            if rate is None or call.latency is None:
                at_least = True
                continue
            at_least = at_least or call.latency.at_least
            values.append(rate * call.latency.value)
            if call.latency.low is not None and call.latency.high is not None:
                lows.append(rate * call.latency.low)
                highs.append(rate * call.latency.high)
        known = len(lows) == len(values)
        ends = (fsum(lows), fsum(highs)) if known else (None, None)
        return whole(Amount(fsum(values), *ends), at_least=at_least)

    # ---- one ADM ----

    def _adm(self, service: Service, hops: Sequence[LoadedHop]) -> AdmOverhead:
        passing = [self.traffics.of(hop.calls) for hop in hops]
        rate = fsum(traffic.rate for traffic in passing) / service.replicas
        figure_rate = self.prices.equivalent(rate or None)
        # Latency and the CPU of a request fall as the rate rises, so the sum of the known rates gives no lower bound.
        is_known = not any(traffic.unrated for traffic in passing)
        latency_rate = figure_rate if is_known else None
        cpu_rate = figure_rate if is_known else self.prices.highest_rate
        idle = self._figure(self.profile.sidecar.idle_cpu, Lack.IDLE, service, service.replicas * NANO)
        costed = [
            self.cpu.of_hop(hop, traffic, cpu_rate, rate_is_known=is_known)
            for hop, traffic in zip(hops, passing, strict=True)
        ]
        at_hops = [
            self.cpu.together(hop, base.whole, components) for hop, (base, components) in zip(hops, costed, strict=True)
        ]
        cpu = added((idle, *at_hops))
        saturated = self._saturated(service, cpu)
        estimated = tuple(
            self._hop(hop, traffic, latency_rate, base, components, saturated=saturated)
            for hop, traffic, (base, components) in zip(hops, passing, costed, strict=True)
        )
        return AdmOverhead(
            service.name,
            service.replicas,
            rate,
            idle,
            cpu,
            self._memory(service, hops, estimated),
            saturated,
            estimated,
        )

    def _saturated(self, service: Service, cpu: Whole) -> bool:
        """Return, and note, whether one replica takes more cores than the profile holds for."""
        limit = self.profile.saturation
        saturated = limit is not None and cpu.value > limit * service.replicas * NANO
        if saturated:
            self.notes.lacks(Lack.SATURATED, "latency", service.name)
        return saturated

    def _figure(self, figure: Figure | None, lack: Lack, service: Service, factor: int) -> Whole | None:
        if figure is None:
            self.notes.lacks(lack, lack.value, service.name)
            return None
        return whole(amount(figure), factor)

    def _hop(
        self,
        hop: LoadedHop,
        passing: Traffic,
        rate: float | None,
        base: Base,
        components: Sequence[Whole | None],
        *,
        saturated: bool,
    ) -> HopOverhead:
        """The costs of a hop. `rate` is the rate of the whole sidecar; None if one of its calls has no rate, or no
        figure has one."""
        parts = self.prices.hops.get(hop.port.protocol, ())
        latencies = None if saturated else self.latency.of_hop(hop, rate)
        calls = tuple(CallLatency(index, self.latency.of_call(hop, index, latencies)) for index in hop.calls)
        weights = weights_of(self.program, hop.calls)
        shared = tuple(
            PartShare(part.name, cpu, latency)
            for part, cpu, latency in zip(
                parts,
                base.parts or (None,) * len(parts),
                self._parts(hop, latencies, weights) or (None,) * len(parts),
                strict=True,
            )
        )
        shares = tuple(
            self._share(hop, enforced, cpu, latencies and _of_scope(self.program, enforced, latencies.policies[at]))
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
            self.cpu.together(hop, base.whole, components),
            mean_whole([call.latency for call in calls], weights),
            shared,
            shares,
            calls,
        )

    def _parts(self, hop: LoadedHop, latencies: Latencies | None, weights: Sequence[float]) -> Sequence[int | None]:
        """The mean latency of each part of the base over the calls; empty if it is not known."""
        if latencies is None or not latencies.base:
            return ()
        if len(latencies.base) == 1:
            return next(iter(latencies.base.values())).parts
        bases = [latencies.base[self.program.calls[index].size].parts for index in hop.calls]
        return [_mean_part(part, weights) for part in zip(*bases, strict=True)]

    def _share(self, hop: LoadedHop, enforced: Enforced, cpu: Whole | None, latency: Whole | None) -> ComponentShare:
        kind = enforced.policy.kind
        return ComponentShare(enforced.policy.name, kind.component, cpu, latency, self._policy_memory(hop, enforced))

    # ---- memory ----

    def _memory(self, service: Service, hops: Sequence[LoadedHop], estimated: Sequence[HopOverhead]) -> Whole:
        costs = self.profile.sidecar
        figures = [
            self._figure(costs.memory, Lack.MEMORY, service, service.replicas),
            self._figure(costs.memory_hop, Lack.MEMORY, service, len(hops) * service.replicas),
            self._figure(
                costs.memory_connection, Lack.MEMORY, service, sum(connections(self.program, hop) for hop in hops)
            ),
        ]
        return added((*figures, *(component.memory for hop in estimated for component in hop.components)))

    def _policy_memory(self, hop: LoadedHop, enforced: Enforced) -> Whole | None:
        cost = self.prices.component(enforced.policy, hop.port.protocol, hop.side)
        service = self.program.services[hop.service]
        own = None if cost is None else cost.memory
        return self._figure(own or self.profile.sidecar.memory_policy, Lack.MEMORY, service, service.replicas)


def _mean_part(values: Sequence[int | None], weights: Sequence[float]) -> int | None:
    known = [value for value in values if value is not None]
    return nearest(mean(known, weights)) if known and len(known) == len(values) else None


def _of_scope(program: Program, enforced: Enforced, by_size: Mapping[int | None, Whole | None]) -> Whole | None:
    """The latency that a policy adds to a request in its scope, on average over its calls."""
    calls = [index for index in enforced.calls if program.calls[index].size in by_size]
    return mean_whole([by_size[program.calls[index].size] for index in calls], weights_of(program, calls))
