"""Estimates the latency and the CPU that ADMs add to one request of a call, over all hops that the request passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from admc.cost.model.layout import Layout, LoadedHop
from admc.cost.model.overhead import Overhead
from admc.cost.model.prices import PartFunctions, Prices
from admc.cost.profiles.amounts import Whole, added
from admc.cost.profiles.law import NOTHING, Amount, independent, total
from admc.cost.profiles.profile import CPU
from dsl.program import Program


class CallCost(NamedTuple):
    latency: Whole
    """Nanoseconds."""
    cpu: Amount
    """Seconds of one core."""
    cpu_at_least: bool
    """`cpu` lacks a figure that is not known."""


def call_costs(
    program: Program, layout: Layout, overhead: Overhead, prices: Prices, calls: Iterable[int]
) -> Mapping[int, CallCost]:
    """The costs of `calls`, by index. `overhead` is the estimate of `layout`, and may have more ADMs."""
    latencies: dict[int, list[Whole | None]] = {index: [] for index in calls}
    cpu: dict[int, list[_Cpu]] = {index: [] for index in latencies}
    adms = {adm.service: adm for adm in overhead.adms}
    for service, hops in layout.items():
        adm = adms[service]
        unrated = any(program.calls[index].rate is None for hop in hops for index in hop.calls)
        rate = None if unrated else adm.rate or None
        for hop, estimated in zip(hops, adm.hops, strict=True):
            for index, latency in estimated.calls:
                if index in latencies:
                    latencies[index].append(latency)
                    cpu[index].append(_cpu(program, prices, hop, index, rate))
    return {
        index: CallCost(
            added(latencies[index]),
            total((NOTHING, *(hop_cpu.known for hop_cpu in cpu[index]))),
            any(hop_cpu.at_least for hop_cpu in cpu[index]),
        )
        for index in latencies
    }


class _Cpu(NamedTuple):
    known: Amount
    at_least: bool


def _cpu(program: Program, prices: Prices, hop: LoadedHop, index: int, rate: float | None) -> _Cpu:
    """The CPU of one request at one hop. Policies with the same figure share its error, and so do the parts of the
    hop; errors of different figures are independent."""
    size = program.calls[index].size
    protocol = hop.port.protocol
    parts = prices.bases.get((protocol, CPU))
    figures: dict[int, list[Amount | None]] = {}
    base = figures.setdefault(id(hop), [None] if size is None or parts is None else [])
    slopes = parts is not None and prices.slope_known(protocol, CPU)
    for part in parts or ():
        base += _part(part, rate, size, slopes=slopes)
    for enforced in hop.enforced:
        if index in enforced.calls:
            cost = prices.component(enforced.policy, protocol, hop.side)
            amounts = figures.setdefault(id(cost), [])
            if cost is None or cost.floor:
                amounts.append(None)
            if cost is not None:
                amounts += _part(prices.functions(cost), rate, size, slopes=False)
    known = (total(amount for amount in amounts if amount is not None) for amounts in figures.values())
    return _Cpu(independent(known), any(None in amounts for amounts in figures.values()))


def _part(part: PartFunctions, rate: float | None, size: int | None, *, slopes: bool) -> Iterable[Amount | None]:
    """Yield the CPU of a part, and None for a missing figure. With `slopes`, another part has the cost of bytes."""
    function = part.functions[CPU]
    # CPU of a request falls as the rate of the sidecar rises, so a sum of the known rates alone gives no lower bound.
    if function is None or (rate is None and function.depends_on_rate):
        yield None
        return
    estimate = function.estimate(rate, size)
    if estimate.no_slope and not slopes:
        yield None
    yield estimate.amount
