"""Writes an estimate for a person at a terminal: totals, the first `ROWS` ADMs with
their hops and as many requests, and what is missing or extrapolated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from admc.base.columns import fitted, table
from admc.base.decimals import fixed, significant
from admc.base.terminal import counted, visible
from admc.cost.model.overhead import AdmOverhead, HopOverhead, Totals
from admc.cost.money import text as money
from admc.cost.money.bill import Bill
from admc.cost.overhead_notes import notes
from admc.cost.profiles.amounts import NANO, Whole
from admc.cost.report import Report
from admc.cost.requests.estimate import RequestOverhead
from dsl.program import Program
from emitters.hops import hop_name

ROWS: Final = 40
MEGA: Final = 1_000_000
MESH: Final = "a full mesh enforces each policy where the plan does; it has more sidecars and hops"
HOSTING: Final = "full mesh, where a sidecar can be"
EVERYWHERE: Final = "full mesh, everywhere"


def render(program: Program, report: Report, bill: Bill | None = None, *, width: int | None = None) -> str:
    profile = report.profile
    lines = [
        f"{visible(program.app)}, estimated by the profile {visible(profile.named)} (sha256 {profile.sha256[:12]}), "
        f"measured on {visible(profile.profile.platform.machine)}",
        "",
        *_totals(report, width),
        "",
        *([] if bill is None else [*money.lines(bill, width), ""]),
        *_adms(program, report.overhead.adms, width),
        *_requests(report.requests, width),
    ]
    remarks = [*notes(report.overhead.missing, report.overhead.extrapolated), *_of_mesh(program, report)]
    return "".join(f"{line}\n" for line in fitted((*lines, *([""] if remarks else []), *remarks), width))


def _totals(report: Report, width: int | None) -> list[str]:
    rows = [("", "sidecars", "hops", "cores", "memory MB", "latency us/s")]
    for name, totals in (
        ("plan", report.overhead.totals),
        (HOSTING, report.full_mesh.hosting),
        (EVERYWHERE, report.full_mesh.everywhere),
    ):
        rows.append((name, *_row(totals)))
    return [*table(rows, right=(1, 2, 3, 4, 5), width=width), f"({MESH})"]


def _of_mesh(program: Program, report: Report) -> list[str]:
    """Lines that explain why figures of the full mesh are lower bounds where those of the plan are not."""
    plan, mesh = report.overhead.totals, report.full_mesh.everywhere
    saturated = counted(mesh.saturated, "sidecar")
    lines = [f"{saturated} of the full mesh would be saturated, so the sum has no latency of them"] * bool(
        mesh.saturated
    )
    cpu, memory, latency = (
        one.at_least and not other.at_least
        for one, other in ((mesh.cpu, plan.cpu), (mesh.memory, plan.memory), (mesh.latency, plan.latency))
    )
    if cpu or memory or (latency and not mesh.saturated):
        lacking = [
            f"{counted(number, 'call')} without a {what}"
            for what, number in (
                ("rate", sum(call.rate is None for call in program.calls)),
                ("size", sum(call.size is None for call in program.calls)),
            )
            if number
        ]
        reason = " and ".join(lacking) or "figures that the profile does not have"
        lines.append(
            f"the full mesh has every call, so its figures are lower bounds where the plan's are not: {reason}"
        )
    return lines


def _row(totals: Totals) -> tuple[str, str, str, str, str]:
    return (
        str(totals.sidecars),
        str(totals.hops),
        shown(totals.cpu, NANO),
        shown(totals.memory, MEGA),
        shown(totals.latency, 1000),
    )


def _adms(program: Program, adms: tuple[AdmOverhead, ...], width: int | None) -> list[str]:
    rows = [("ADM and hops", "replicas", "requests/s", "cores", "memory MB", "latency us")]
    for adm in adms[:ROWS]:
        saturated = "saturated" if adm.saturated else ""
        rate = _rate(program, adm.rate, adm.hops)
        rows.append((adm.service, str(adm.replicas), rate, shown(adm.cpu, NANO), shown(adm.memory, MEGA), saturated))
        rows += [_hop(program, hop) for hop in adm.hops]
    lines = table(rows, right=(1, 2, 3, 4, 5), width=width)
    if len(adms) > ROWS:
        lines.append(f"... and {len(adms) - ROWS} more ADMs; `--format json` has them all")
    return lines


def _requests(requests: tuple[RequestOverhead, ...], width: int | None) -> list[str]:
    if not requests:
        return []
    rows = [("a request, with", "requests/s", "mean latency us", "worst us", "CPU us")]
    for request in requests[:ROWS]:
        rows.append((request.name, "-" if request.rate is None else significant(request.rate), "", "", ""))
        for name, cost in (("plan", request.plan), (HOSTING, request.hosting), (EVERYWHERE, request.everywhere)):
            mean, worst, cpu = (shown(amount, 1000) for amount in cost)
            rows.append((f"  {name}", "", mean, worst, cpu))
    lines = ["", *table(rows, right=(1, 2, 3, 4), width=width)]
    if len(requests) > ROWS:
        lines.append(f"... and {len(requests) - ROWS} more requests; `--format json` has them all")
    return lines


def _rate(program: Program, rate: float, hops: Iterable[HopOverhead]) -> str:
    """The sum of the known rates: `>= 5` if calls lack their rates, and `-` if no other call adds to the sum."""
    unrated = any(program.calls[call.call].rate is None for hop in hops for call in hop.calls)
    if unrated:
        return f">= {significant(rate)}" if rate else "-"
    return significant(rate)


def _hop(program: Program, hop: HopOverhead) -> tuple[str, str, str, str, str, str]:
    return (
        f"  {hop_name(hop.side, hop.destination, hop.port)} ({hop.protocol})",
        "",
        _rate(program, hop.rate, [hop]),
        shown(hop.cpu, NANO),
        "",
        shown(hop.latency, 1000),
    )


def shown(amount: Whole | None, unit: int) -> str:
    """An amount in a unit: `1.2 [1.1, 1.3]` with its interval, `>= 1.2` as a lower bound, `-` for a bound of zero."""
    if amount is None or (amount.at_least and not amount.value):
        return "-"
    text = significant(amount.value / unit, 4)
    if amount.at_least:
        return f">= {text}"
    if amount.low is None or amount.high is None or amount.low == amount.high:
        return text
    places = max(0, len(text.partition(".")[2]))
    return f"{text} [{fixed(amount.low / unit, places)}, {fixed(amount.high / unit, places)}]"
