"""Writes two estimates as JSON: both in full, and their differences."""

from __future__ import annotations

from decimal import Decimal

from admc.base.decimals import fixed
from admc.cost import overhead_json
from admc.cost.money.bill import Bill
from admc.cost.profiles.write import json_text
from admc.cost.what_if.comparison import AdmPair, Comparison, HopPair, Pair, RequestPair, TotalsPair
from admc.cost.what_if.scenario import Scenario
from dsl.program import Program


def render(programs: tuple[Program, Program], comparison: Comparison, bills: tuple[Bill, Bill] | None = None) -> str:
    """`programs` are the program before and after the change: their rates may differ."""
    before, after = bills or (None, None)
    return json_text(
        {
            "app": programs[0].app,
            "change": _scenario(comparison.scenario),
            "before": overhead_json.document(programs[0], comparison.before, before),
            "after": overhead_json.document(programs[1], comparison.after, after),
            "differences": {
                "plan": _totals(comparison.plan),
                "full_mesh": _totals(comparison.full_mesh),
                "full_mesh_everywhere": _totals(comparison.everywhere),
                "adms": [_adm(adm) for adm in comparison.adms],
                "requests": [_request(request) for request in comparison.requests],
            },
            "over_capacity": list(comparison.over_capacity),
            "unused": [change.text for change in comparison.unused],
            "cautions": list(comparison.cautions),
        }
    )


def _scenario(scenario: Scenario) -> dict[str, object]:
    return {
        "what_if": [
            {"name": change.name, "quantity": change.quantity, "factor": change.factor} for change in scenario.changes
        ],
        "profile": scenario.profile,
        "traffic": scenario.traffic,
        "replan": scenario.replan,
    }


def _totals(pair: TotalsPair) -> dict[str, object]:
    return {
        "sidecars": pair.sidecars[1] - pair.sidecars[0],
        "hops": pair.hops[1] - pair.hops[0],
        "cpu": _difference(pair.cpu),
        "memory": _difference(pair.memory),
        "latency_per_second": _difference(pair.latency),
    }


def _adm(adm: AdmPair) -> dict[str, object]:
    return {
        "service": adm.service,
        "planned": list(adm.planned),
        "cpu": _difference(adm.cpu),
        "memory": _difference(adm.memory),
        "hops": [_hop(hop) for hop in adm.hops],
    }


def _hop(hop: HopPair) -> dict[str, object]:
    return {
        "hop": hop.name,
        "protocol": hop.protocol,
        "planned": list(hop.planned),
        "cpu": _difference(hop.cpu),
        "latency": _difference(hop.latency),
    }


def _request(request: RequestPair) -> dict[str, object]:
    return {
        "request": request.name,
        "latency_mean": _difference(request.mean),
        "latency_worst": _difference(request.worst),
        "cpu_of_request": _difference(request.cpu),
    }


def _difference(pair: Pair) -> dict[str, object] | None:
    """The difference of two figures; None if they are not comparable."""
    if pair.difference is None or pair.before is None:
        return None
    before = pair.before.value
    percent = Decimal(fixed(100 * pair.difference / before, 3)) if before else None
    return {"value": pair.difference, "percent": percent}
