"""The estimate for programs: whole nano-cores, nanoseconds and bytes, each with its interval or null."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from admc.overhead.model.overhead import AdmOverhead, ComponentShare, HopOverhead, Overhead, Totals
from admc.overhead.profiles.amounts import Whole
from admc.overhead.profiles.write import json_text
from admc.overhead.report import Report
from admc.overhead.requests.estimate import RequestCost, RequestOverhead
from admc.render.decimals import fixed
from dsl.program import Program
from emitters.hops import hop_name


def render(program: Program, report: Report) -> str:
    named = report.profile
    overhead = report.overhead
    return json_text(
        {
            "app": program.app,
            "profile": {
                "named": named.named,
                "name": named.profile.name,
                "sha256": named.sha256,
                "platform": named.profile.platform._asdict(),
            },
            "units": {
                "cpu": "nano-cores",
                "latency": "ns",
                "memory": "bytes",
                "rate": "requests/s",
                "cpu_of_request": "ns",
            },
            "totals": {
                "plan": _totals(overhead.totals),
                "full_mesh": _totals(report.full_mesh.hosting),
                "full_mesh_everywhere": _totals(report.full_mesh.everywhere),
            },
            "adms": [_adm(program, adm) for adm in overhead.adms],
            "requests": [_request(request) for request in report.requests],
            **_lacks(overhead),
        }
    )


def _lacks(overhead: Overhead) -> dict[str, object]:
    return {
        "missing": [
            {"reason": each.lack.value, "subject": each.subject, "services": list(each.services)}
            for each in overhead.missing
        ],
        "extrapolated": [
            {"what": each.what, "subject": each.subject, "services": list(each.services)}
            for each in overhead.extrapolated
        ],
        "saturated": list(overhead.saturated),
    }


def _totals(totals: Totals) -> dict[str, object]:
    return {
        "sidecars": totals.sidecars,
        "hops": totals.hops,
        "cpu": _whole(totals.cpu),
        "memory": _whole(totals.memory),
        "latency_per_second": _whole(totals.latency),
    }


def _adm(program: Program, adm: AdmOverhead) -> dict[str, object]:
    return {
        "service": adm.service,
        "replicas": adm.replicas,
        "rate_of_replica": _rate(program, adm.rate, adm.hops),
        "cpu": _whole(adm.cpu),
        "cpu_of_replica": _each(adm.cpu, adm.replicas),
        "idle_cpu": _whole(adm.idle),
        "memory": _whole(adm.memory),
        "saturated": adm.saturated,
        "hops": [_hop(program, hop) for hop in adm.hops],
    }


def _hop(program: Program, hop: HopOverhead) -> dict[str, object]:
    return {
        "hop": hop_name(hop.side, hop.destination, hop.port),
        "protocol": hop.protocol.value,
        "rate": _rate(program, hop.rate, [hop]),
        "cpu": _whole(hop.cpu),
        "base_cpu": _whole(hop.base),
        "latency": _whole(hop.latency),
        "parts": [{"name": part.name, "cpu": part.cpu, "latency": part.latency} for part in hop.parts],
        "components": [_component(share) for share in hop.components],
        "calls": [
            {
                "source": program.calls[each.call].source,
                "destination": program.calls[each.call].destination,
                "latency": _whole(each.latency),
            }
            for each in hop.calls
        ],
    }


def _request(request: RequestOverhead) -> dict[str, object]:
    return {
        "request": request.name,
        "rate": None if request.rate is None else Decimal(fixed(request.rate, 6)),
        "plan": _cost(request.plan),
        "full_mesh": _cost(request.hosting),
        "full_mesh_everywhere": _cost(request.everywhere),
    }


def _cost(cost: RequestCost) -> dict[str, object]:
    return {
        "latency_mean": _whole(cost.mean),
        "latency_worst": _whole(cost.worst),
        "cpu_of_request": _whole(cost.cpu),
    }


def _component(share: ComponentShare) -> dict[str, object]:
    return {
        "policy": share.policy,
        "component": share.component,
        "cpu": _whole(share.cpu),
        "latency": _whole(share.latency),
        "memory": _whole(share.memory),
    }


def _whole(amount: Whole | None) -> dict[str, object] | None:
    if amount is None:
        return None
    interval = None if amount.low is None or amount.high is None else [amount.low, amount.high]
    return {"value": amount.value, "interval": interval, "at_least": amount.at_least}


def _each(amount: Whole, replicas: int) -> dict[str, object] | None:
    low, high = amount.low, amount.high
    shared = Whole(
        (2 * amount.value + replicas) // (2 * replicas),
        None if low is None else low // replicas,
        None if high is None else -(-high // replicas),
        amount.at_least,
    )
    return _whole(shared)


def _rate(program: Program, rate: Fraction, hops: Iterable[HopOverhead]) -> Decimal | None:
    """The sum of known rates; None if no call has one."""
    if not rate and any(program.calls[each.call].rate is None for hop in hops for each in hop.calls):
        return None
    return Decimal(fixed(rate, 6))
