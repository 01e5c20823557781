"""The one serialisation of an estimate: from the result of the model to rows of JSON."""

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
"""Without any sidecar."""


def profile_row(named: NamedProfile) -> ProfileRow:
    return ProfileRow(named.named, named.profile.name, named.sha256, named.profile.platform)


def overhead_row(report: Report) -> OverheadRow:
    found = report.overhead
    return OverheadRow(
        AllTotals(
            plan=_totals(found.totals),
            full_mesh=_totals(report.full_mesh.hosting),
            full_mesh_everywhere=_totals(report.full_mesh.everywhere),
            none=_totals(_NONE),
        ),
        tuple(MissingRow(each.lack.value, each.subject, each.services) for each in found.missing),
        tuple(ExtrapolatedRow(each.what, each.subject, each.services) for each in found.extrapolated),
        found.saturated,
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
def amount(found: Whole) -> AmountRow: ...
@overload
def amount(found: Whole | None) -> AmountRow | None: ...
def amount(found: Whole | None) -> AmountRow | None:
    if found is None:
        return None
    low, high = found.low, found.high
    interval = None if low is None or high is None else (low, high)
    return AmountRow(found.value, interval, found.at_least)


def _totals(totals: Totals) -> TotalsRow:
    return TotalsRow(totals.sidecars, totals.hops, amount(totals.cpu), amount(totals.memory), amount(totals.latency))


def _cost(cost: RequestCost) -> RequestCostRow:
    return RequestCostRow(amount(cost.mean), amount(cost.worst), amount(cost.cpu))


def _component(share: ComponentShare) -> ComponentRow:
    return ComponentRow(share.policy, share.component, amount(share.cpu), amount(share.latency), amount(share.memory))


def _parts(adm: AdmOverhead) -> tuple[PartRow, ...]:
    """Sums over the hops; all that is known of a part."""
    found: dict[str, int | None] = {}
    for hop in adm.hops:
        for part in hop.parts:
            before = found.get(part.name)
            found[part.name] = before if part.cpu is None else (before or 0) + part.cpu
    if any(cpu is not None for cpu in found.values()) and found.get(WHOLE, 0) is None:
        del found[WHOLE]  # the others add up to it
    return tuple(PartRow(name, cpu) for name, cpu in found.items())


def _of_replica(whole: Whole, replicas: int) -> Whole:
    low, high = whole.low, whole.high
    return Whole(
        (2 * whole.value + replicas) // (2 * replicas),
        None if low is None else low // replicas,
        None if high is None else -(-high // replicas),
        whole.at_least,
    )
