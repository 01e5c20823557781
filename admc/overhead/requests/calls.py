"""What the ADMs of a layout add to one request of a call: latency and CPU of all hops that it passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from admc.overhead.model.layout import Layout, LoadedHop
from admc.overhead.model.overhead import Overhead
from admc.overhead.model.prices import PartFunctions, Prices
from admc.overhead.profiles.amounts import Whole, added
from admc.overhead.profiles.law import ONE, Amount, total
from admc.overhead.profiles.profile import CPU
from dsl.program import Program


class CallCost(NamedTuple):
    latency: Whole
    """Nanoseconds."""
    cpu: Amount
    """Seconds of one core."""
    cpu_at_least: bool
    """Some of the CPU is not known, and not in `cpu`."""


def call_costs(
    program: Program, layout: Layout, overhead: Overhead, prices: Prices, calls: Iterable[int]
) -> Mapping[int, CallCost]:
    """For some calls, by index. `overhead` is the estimate of `layout`, perhaps with more ADMs."""
    latencies: dict[int, list[Whole | None]] = {index: [] for index in calls}
    cpu: dict[int, list[Amount | None]] = {index: [] for index in latencies}
    adms = {adm.service: adm for adm in overhead.adms}
    for service, hops in layout.items():
        adm = adms[service]
        unrated = any(program.calls[index].rate is None for hop in hops for index in hop.calls)
        rate = None if unrated else adm.rate or None
        for hop, estimated in zip(hops, adm.hops, strict=True):
            for index, latency in estimated.calls:
                if index in latencies:
                    latencies[index].append(latency)
                    cpu[index] += _cpu(program, prices, hop, index, rate)
    return {
        index: CallCost(
            added(latencies[index]),
            total((Amount.of(0, 0, 0), *(each for each in cpu[index] if each is not None))),
            None in cpu[index],
        )
        for index in latencies
    }


def _cpu(
    program: Program, prices: Prices, hop: LoadedHop, index: int, rate: Fraction | None
) -> Iterable[Amount | None]:
    """CPU of one request at one hop, by part and policy; None for each figure that is missing."""
    size = program.calls[index].size
    protocol = hop.port.protocol
    parts = prices.hops.get(protocol)
    if size is None or parts is None:
        yield None
    slopes = parts is not None and prices.slope_known(protocol, CPU)
    for part in parts or ():
        yield from _part(part, rate, size, slopes=slopes)
    for enforced in hop.enforced:
        if index in enforced.calls:
            cost = prices.component(enforced.policy, protocol, hop.side)
            if cost is None or cost.floor:
                yield None
            if cost is not None:
                yield from _part(prices.functions(cost), rate, size, slopes=False)


def _part(part: PartFunctions, rate: Fraction | None, size: int | None, *, slopes: bool) -> Iterable[Amount | None]:
    """`slopes`: another part has the cost of bytes."""
    function = part.functions[CPU]
    # CPU of a request falls as the rate of the sidecar rises, so the rates that are known give no bound.
    if function is None or (rate is None and function.depends_on_rate):
        yield None
        return
    found = function.of_traffic(rate, {size: ONE}, ONE)
    if found.no_slope and not slopes:
        yield None
    yield found.amount
