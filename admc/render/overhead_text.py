"""The estimate for a person at a terminal: totals, each ADM with its hops, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

from admc.overhead.model.overhead import AdmOverhead, HopOverhead, Lack, Missing, Totals
from admc.overhead.profiles.amounts import NANO, Whole
from admc.overhead.report import Report
from admc.overhead.requests.estimate import RequestOverhead
from admc.render.columns import table
from admc.render.decimals import fixed, significant
from admc.terminal import counted, visible
from dsl.program import Program
from emitters.hops import hop_name

ROWS: Final = 40
NAMES: Final = 6
MEGA: Final = 1_000_000
HOSTING: Final = "full mesh, where a sidecar can be"
EVERYWHERE: Final = "full mesh, everywhere"
_LACKS: Final = {
    Lack.COMPONENT: "the profile has no figure for",
    Lack.HOP: "the profile has no figure for",
    Lack.BYTES: "the profile has no cost of bytes for",
    Lack.RATE: "no rate, so no CPU:",
    Lack.SIZE: "no size, so no bytes:",
    Lack.IDLE: "the profile has no CPU of an idle sidecar",
    Lack.MEMORY: "the profile lacks figures of memory",
    Lack.FLOOR: "measured with a script that does nothing:",
    Lack.SATURATED: "saturated, so no latency",
}


def render(program: Program, report: Report) -> str:
    profile = report.profile
    lines = [
        f"{visible(program.app)}, estimated by the profile {visible(profile.named)} (sha256 {profile.sha256[:12]}), "
        f"measured on {visible(profile.profile.platform.machine)}",
        "",
        *_totals(report),
        "",
        *_adms(program, report.overhead.adms),
        *_requests(report.requests),
    ]
    notes = [*_missing(report), *_extrapolated(report)]
    return "".join(f"{line}\n" for line in (*lines, *([""] if notes else []), *notes))


def _totals(report: Report) -> list[str]:
    rows = [("", "sidecars", "hops", "cores", "memory MB", "latency us/s")]
    for name, totals in (
        ("plan", report.overhead.totals),
        (HOSTING, report.full_mesh.hosting),
        (EVERYWHERE, report.full_mesh.everywhere),
    ):
        rows.append((name, *_row(totals)))
    return table(rows, right=(1, 2, 3, 4, 5))


def _row(totals: Totals) -> tuple[str, str, str, str, str]:
    return (
        str(totals.sidecars),
        str(totals.hops),
        _shown(totals.cpu, NANO),
        _shown(totals.memory, MEGA),
        _shown(totals.latency, 1000),
    )


def _adms(program: Program, adms: tuple[AdmOverhead, ...]) -> list[str]:
    rows = [("ADM and hops", "replicas", "requests/s", "cores", "memory MB", "latency us")]
    for adm in adms[:ROWS]:
        saturated = "saturated" if adm.saturated else ""
        rate = _rate(program, adm.rate, adm.hops)
        rows.append((adm.service, str(adm.replicas), rate, _shown(adm.cpu, NANO), _shown(adm.memory, MEGA), saturated))
        rows += [_hop(program, hop) for hop in adm.hops]
    lines = table(rows, right=(1, 2, 3, 4, 5))
    if len(adms) > ROWS:
        lines.append(f"... and {len(adms) - ROWS} more ADMs; `--format json` has them all")
    return lines


def _requests(requests: tuple[RequestOverhead, ...]) -> list[str]:
    if not requests:
        return []
    rows = [("a request, with", "requests/s", "mean latency us", "worst us", "CPU us")]
    for request in requests[:ROWS]:
        rows.append((request.name, "-" if request.rate is None else significant(request.rate), "", "", ""))
        for name, cost in (("plan", request.plan), (HOSTING, request.hosting), (EVERYWHERE, request.everywhere)):
            mean, worst, cpu = (_shown(amount, 1000) for amount in cost)
            rows.append((f"  {name}", "", mean, worst, cpu))
    lines = ["", *table(rows, right=(1, 2, 3, 4))]
    if len(requests) > ROWS:
        lines.append(f"... and {len(requests) - ROWS} more requests; `--format json` has them all")
    return lines


def _rate(program: Program, rate: Fraction, hops: Iterable[HopOverhead]) -> str:
    """The sum of known rates: a lower bound if a call has none, and no figure if no call has one."""
    unrated = any(program.calls[each.call].rate is None for hop in hops for each in hop.calls)
    if unrated:
        return f">= {significant(rate)}" if rate else "-"
    return significant(rate)


def _hop(program: Program, hop: HopOverhead) -> tuple[str, str, str, str, str, str]:
    return (
        f"  {hop_name(hop.side, hop.destination, hop.port)} ({hop.protocol})",
        "",
        _rate(program, hop.rate, [hop]),
        _shown(hop.cpu, NANO),
        "",
        _shown(hop.latency, 1000),
    )


def _shown(amount: Whole | None, unit: int) -> str:
    """An amount in a unit, with its interval, or as a lower bound. A lower bound of zero is no figure."""
    if amount is None or (amount.at_least and not amount.value):
        return "-"
    text = significant(Fraction(amount.value, unit), 4)
    if amount.at_least:
        return f">= {text}"
    if amount.low is None or amount.high is None or amount.low == amount.high:
        return text
    places = max(0, len(text.partition(".")[2]))
    return f"{text} [{fixed(Fraction(amount.low, unit), places)}, {fixed(Fraction(amount.high, unit), places)}]"


def _missing(report: Report) -> Iterator[str]:
    for each in report.overhead.missing[:ROWS]:
        yield f"at least: {lacking(each)} ({_names(each.services)})"
    if len(report.overhead.missing) > ROWS:
        yield f"... and {counted(len(report.overhead.missing) - ROWS, 'more reason')}; `--format json` has them all"


def lacking(each: Missing) -> str:
    """What an estimate lacks, as a phrase."""
    subject = "" if each.lack in (Lack.IDLE, Lack.MEMORY, Lack.SATURATED) else f" {visible(each.subject)}"
    return f"{_LACKS[each.lack]}{subject}"


def _extrapolated(report: Report) -> Iterator[str]:
    for each in report.overhead.extrapolated[:ROWS]:
        yield f"extrapolated: {visible(each.subject)}, at another {each.what} than measured ({_names(each.services)})"


def _names(services: tuple[str, ...]) -> str:
    shown = ", ".join(visible(name) for name in services[:NAMES])
    return shown + (f" and {len(services) - NAMES} more" if len(services) > NAMES else "")
