"""Turns an estimate into the rows of JSON that plans and `admc overhead --format json` share.

Report -> OverheadRow, ProfileRow; AdmOverhead -> AdmRow; RequestOverhead -> RequestRow
"""

from __future__ import annotations

from typing import overload

from admc.cost.model.overhead import AdmOverhead, ComponentShare, HopOverhead, Totals
from admc.cost.profiles.amounts import ZERO, Whole
from admc.cost.profiles.profile import WHOLE
from admc.cost.profiles.source import NamedProfile
from admc.cost.report import Report
from admc.cost.requests.estimate import RequestCost, RequestOverhead
from admc.cost.rows import (
    AdmRow,
    AllTotals,
    AmountRow,
    ComponentRow,
    ExtrapolatedRow,
    HopRow,
    MissingRow,
    OverheadRow,
    PartRow,
    ProfileRow,
    RequestCostRow,
    RequestRow,
    TotalsRow,
)
from emitters.hops import hop_name

_NONE = Totals(0, 0, ZERO, ZERO, ZERO)
"""The totals of an application without a sidecar."""


def profile_row(named: NamedProfile) -> ProfileRow:
    return ProfileRow(named.named, named.profile.name, named.sha256, named.profile.platform)


def overhead_row(report: Report) -> OverheadRow:
    overhead = report.overhead
    return OverheadRow(
        AllTotals(
            plan=_totals(overhead.totals),
            full_mesh=_totals(report.full_mesh.hosting),
            full_mesh_everywhere=_totals(report.full_mesh.everywhere),
            none=_totals(_NONE),
        ),
        tuple(MissingRow(gap.lack.value, gap.subject, gap.services) for gap in overhead.missing),
        tuple(ExtrapolatedRow(figure.what, figure.subject, figure.services) for figure in overhead.extrapolated),
        overhead.saturated,
        tuple(request_row(request) for request in report.requests),
    )


def adm_row(adm: AdmOverhead) -> AdmRow:
    return AdmRow(
        amount(adm.cpu),
        amount(_of_replica(adm.cpu, adm.replicas)),
        amount(adm.idle),
        amount(adm.memory),
        adm.saturated,
        _parts(adm),
        tuple(hop_row(hop) for hop in adm.hops),
    )


def hop_row(hop: HopOverhead) -> HopRow:
    return HopRow(
        hop_name(hop.side, hop.destination, hop.port),
        amount(hop.cpu),
        amount(hop.latency),
        tuple(_component(share) for share in hop.components),
    )


def request_row(request: RequestOverhead) -> RequestRow:
    return RequestRow(request.name, _cost(request.plan), _cost(request.hosting), _cost(request.everywhere))


@overload
def amount(figure: Whole) -> AmountRow: ...
@overload
def amount(figure: Whole | None) -> AmountRow | None: ...
def amount(figure: Whole | None) -> AmountRow | None:
    if figure is None:
        return None
    low, high = figure.low, figure.high
    interval = None if low is None or high is None else (low, high)
    return AmountRow(figure.value, interval, figure.at_least)


def _totals(totals: Totals) -> TotalsRow:
    return TotalsRow(totals.sidecars, totals.hops, amount(totals.cpu), amount(totals.memory), amount(totals.latency))


def _cost(cost: RequestCost) -> RequestCostRow:
    return RequestCostRow(amount(cost.mean), amount(cost.worst), amount(cost.cpu))


def _component(share: ComponentShare) -> ComponentRow:
    return ComponentRow(share.policy, share.component, amount(share.cpu), amount(share.latency), amount(share.memory))


def _parts(adm: AdmOverhead) -> tuple[PartRow, ...]:
    """The CPU of each part, summed over the hops that have the figure; None if no hop has it."""
    totals: dict[str, int | None] = {}
    for hop in adm.hops:
        for part in hop.parts:
            before = totals.get(part.name)
            totals[part.name] = before if part.cpu is None else (before or 0) + part.cpu
    if any(cpu is not None for cpu in totals.values()) and totals.get(WHOLE, 0) is None:
        del totals[WHOLE]  # the other parts add up to `whole`
    return tuple(PartRow(name, cpu) for name, cpu in totals.items())


def _of_replica(whole: Whole, replicas: int) -> Whole:
    low, high = whole.low, whole.high
    return Whole(
        (2 * whole.value + replicas) // (2 * replicas),
        None if low is None else low // replicas,
        None if high is None else -(-high // replicas),
        whole.at_least,
    )
