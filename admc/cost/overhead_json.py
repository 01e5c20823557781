"""Writes an estimate as JSON: whole nano-cores, nanoseconds and bytes, each with its interval or null."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from admc.base.decimals import fixed
from admc.cost.document import adm_row, amount, hop_row, overhead_row, profile_row, request_row
from admc.cost.model.overhead import AdmOverhead, HopOverhead
from admc.cost.money import text as money
from admc.cost.money.bill import Bill
from admc.cost.profiles.write import json_text
from admc.cost.report import Report
from admc.cost.requests.estimate import RequestOverhead
from dsl.documents import fields_of, plain
from dsl.program import Program


def render(program: Program, report: Report, bill: Bill | None = None) -> str:
    return json_text(document(program, report, bill))


def document(program: Program, report: Report, bill: Bill | None = None) -> dict[str, object]:
    fields = dict(fields_of(overhead_row(report)))
    del fields["requests"]  # the entry `requests` below also has their rates
    return {
        "app": program.app,
        "profile": plain(profile_row(report.profile)),
        "units": {
            "cpu": "nano-cores",
            "latency": "ns",
            "memory": "bytes",
            "rate": "requests/s",
            "cpu_of_request": "ns",
        },
        "totals": plain(fields.pop("totals")),
        "money": None if bill is None else money.document(bill),
        "adms": [_adm(program, adm) for adm in report.overhead.adms],
        "requests": [_request(request) for request in report.requests],
        **{name: plain(rows) for name, rows in fields.items()},
    }


def _adm(program: Program, adm: AdmOverhead) -> dict[str, object]:
    """The row of a plan with the rates, and with the parts and calls of each hop."""
    row = {name: plain(value) for name, value in fields_of(adm_row(adm))}
    return {
        "service": adm.service,
        "replicas": adm.replicas,
        "rate_of_replica": _rate(program, adm.rate, adm.hops),
        **row,
        "hops": [_hop(program, hop) for hop in adm.hops],
    }


def _hop(program: Program, hop: HopOverhead) -> dict[str, object]:
    row = {name: plain(value) for name, value in fields_of(hop_row(hop))}
    return {
        "hop": row.pop("hop"),
        "protocol": hop.protocol.value,
        "rate": _rate(program, hop.rate, [hop]),
        "cpu": row.pop("cpu"),
        "base_cpu": plain(amount(hop.base)),
        "latency": row.pop("latency"),
        "parts": [{"name": part.name, "cpu": part.cpu, "latency": part.latency} for part in hop.parts],
        **row,
        "calls": [
            {
                "source": program.calls[call.call].source,
                "destination": program.calls[call.call].destination,
                "latency": plain(amount(call.latency)),
            }
            for call in hop.calls
        ],
    }


def _request(request: RequestOverhead) -> dict[str, object]:
    """The row of a plan with the rate."""
    row = {name: plain(value) for name, value in fields_of(request_row(request))}
    rate = None if request.rate is None else Decimal(fixed(request.rate, 6))
    return {"request": row.pop("request"), "rate": rate, **row}


def _rate(program: Program, rate: float, hops: Iterable[HopOverhead]) -> Decimal | None:
    """The sum of the known rates; None if calls lack their rates and no other call adds to the sum."""
    if not rate and any(program.calls[call.call].rate is None for hop in hops for call in hop.calls):
        return None
    return Decimal(fixed(rate, 6))
