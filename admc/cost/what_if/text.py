"""Writes two estimates for a person at a terminal: before, after, and the difference as a figure and in per cent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admc.base.columns import fitted, table
from admc.base.decimals import percent, significant
from admc.base.terminal import counted, visible
from admc.cost.money import text as money
from admc.cost.money.bill import Bill, Money
from admc.cost.overhead_notes import notes
from admc.cost.overhead_text import EVERYWHERE, HOSTING, MEGA, MESH, ROWS, shown
from admc.cost.profiles.amounts import NANO, Whole
from admc.cost.what_if.comparison import AdmPair, Comparison, HopPair, Pair, RequestPair, TotalsPair, lacked, shared
from dsl.program import Program

MICROSECOND: Final = 1000
Row = tuple[str, str, str, str, str, str]
"""Name, before, arrow, after, difference, per cent."""


def render(
    program: Program, comparison: Comparison, bills: tuple[Bill, Bill] | None = None, *, width: int | None = None
) -> str:
    rows: list[Row | tuple[str]] = [("", "before", "", "after", "difference", "")]
    for at, (name, totals) in enumerate(
        (
            ("plan", comparison.plan),
            (HOSTING, comparison.full_mesh),
            (EVERYWHERE, comparison.everywhere),
        )
    ):
        rows += [*([("",)] if at else []), (name,), *_totals(totals)]
        if bills is not None:
            before, after = ((bill.plan, bill.full_mesh, bill.everywhere)[at] for bill in bills)
            rows += _money(totals, before, after, bills[0].currency)
    for adm in comparison.adms[:ROWS]:
        rows += [("",), *_adm(adm)]
    for request in comparison.requests[:ROWS]:
        rows += [("",), *_request(request)]
    lines = [*_head(program, comparison), "", *table(rows, right=(1, 3, 4, 5), width=width)]
    if len(comparison.adms) > ROWS:
        lines.append(f"... and {len(comparison.adms) - ROWS} more ADMs; `--format json` has them all")
    if len(comparison.requests) > ROWS:
        lines.append(f"... and {len(comparison.requests) - ROWS} more requests; `--format json` has them all")
    if not comparison.adms:
        lines += ["", "no ADM differs"]
    remarks = list(_notes(program, comparison))
    return "".join(f"{line}\n" for line in fitted((*lines, *([""] if remarks else []), *remarks), width))


def _head(program: Program, comparison: Comparison) -> list[str]:
    before, after = comparison.before.profile, comparison.after.profile
    scenario = comparison.scenario
    words = [f"the profile {visible(after.named)}"]
    if scenario.changes:
        words[0] += " with " + ", ".join(visible(change.text) for change in scenario.changes)
    else:
        words[0] += f" (sha256 {after.sha256[:12]})"
    if scenario.traffic is not None:
        words.append(f"all rates x{scenario.traffic}")
    words.append("solved again" if scenario.replan else "the same plan")
    return [
        f"{visible(program.app)}, estimated before and after a change",
        f"before: the profile {visible(before.named)} (sha256 {before.sha256[:12]})",
        f"after:  {'; '.join(words)}",
    ]


# ---- rows ----


def _totals(totals: TotalsPair) -> Iterator[Row]:
    yield _counts("sidecars", totals.sidecars)
    yield _counts("hops", totals.hops)
    yield from _figure("  cores", totals.cpu, NANO)
    yield from _figure("  memory MB", totals.memory, MEGA)
    yield from _figure("  latency us/s", totals.latency, MICROSECOND)


def _money(totals: TotalsPair, before: Money, after: Money, currency: str) -> Iterator[Row]:
    known = totals.cpu.difference is not None and totals.memory.difference is not None
    for name, one, other, comparable in (
        ("used", before.used, after.used, known),
        ("reserved", before.reserved, after.reserved, True),
    ):
        difference = other.value - one.value
        share = percent(difference, one.value) if comparable else ""
        shown_difference = f"{'+' if difference > 0 else ''}{money.figure(difference)}" if comparable else ""
        yield _row(f"  {name}, {currency} a month", money.shown(one), money.shown(other), shown_difference, share)


def _adm(adm: AdmPair) -> Iterator[Row | tuple[str]]:
    yield (f"{adm.service}{_planned(adm.planned, 'ADM')}",)
    yield from _figure("  cores", adm.cpu, NANO, always=False)
    yield from _figure("  memory MB", adm.memory, MEGA, always=False)
    for hop in adm.hops:
        yield from _hop(hop)


def _hop(hop: HopPair) -> Iterator[Row]:
    name = f"  {hop.name} ({hop.protocol})"
    rows = list(_figure(f"{name}, latency us", hop.latency, MICROSECOND, always=False))
    if not rows and hop.planned != (True, True):
        yield _row(f"{name}{_planned(hop.planned, 'hop')}", "", "")
    yield from rows


def _request(request: RequestPair) -> Iterator[Row | tuple[str]]:
    yield (f"request {request.name}, with the plan",)
    yield from _figure("  mean latency us", request.mean, MICROSECOND)
    yield from _figure("  worst latency us", request.worst, MICROSECOND)
    yield from _figure("  CPU us", request.cpu, MICROSECOND)


def _planned(planned: tuple[bool, bool], what: str) -> str:
    if planned == (True, True):
        return ""
    return f": a new {what}" if planned[1] else f": no {what} any more"


def _counts(name: str, pair: tuple[int, int]) -> Row:
    before, after = pair
    return _row(f"  {name}", str(before), str(after), *_change(after - before, before, 1))


def _figure(name: str, pair: Pair, unit: int, *, always: bool = True) -> Iterator[Row]:
    """Yield a row. Without any figure there is none, and without `always` there is none for equal figures."""
    before, after = (_known(figure) for figure in (pair.before, pair.after))
    if (before is None and after is None) or not (always or pair.differs):
        return
    change = ("", "")
    if pair.difference is not None and before is not None:
        change = _change(pair.difference, before.value, unit)
    one, other = ("-" if figure is None else shown(_without_interval(figure), unit) for figure in (before, after))
    yield _row(name, one, other, *change)


def _known(amount: Whole | None) -> Whole | None:
    """The amount; None for a lower bound of zero, which is no figure."""
    return None if amount is None or (amount.at_least and not amount.value) else amount


def _without_interval(amount: Whole) -> Whole:
    """The amount alone. Both sides share their errors, so intervals would not show whether the sides differ."""
    return amount._replace(low=None, high=None)


def _change(difference: int, before: int, unit: int) -> tuple[str, str]:
    sign = "+" if difference > 0 else ""
    return f"{sign}{significant(difference / unit, 4)}", percent(difference, before)


def _row(name: str, before: str, after: str, difference: str = "", percent: str = "") -> Row:
    return name, before, "->" if before or after else "", after, difference, percent


# ---- notes ----


def _notes(program: Program, comparison: Comparison) -> Iterator[str]:
    yield MESH
    for change in comparison.unused:
        yield f"`{visible(change.text)}` changes nothing in the plan: no hop of it has `{visible(change.name)}`"
    for service in comparison.over_capacity:
        limit = f"{program.services[service].capacity:g}"
        again = "" if comparison.scenario.replan else "; `--replan` solves again"
        yield f"after, a sidecar of `{service}` takes more than its capacity of {limit} cores{again}"
    if any(pair.differs and pair.difference is None for pair in _pairs(comparison)):
        yield "no difference is given where before and after lack different figures"
    if any(pair.difference is not None and _at_least(pair) for pair in _pairs(comparison)):
        yield "where a figure is `>=`, its difference is that of what is priced"
    for caution in comparison.cautions:
        yield f"the two profiles have {visible(caution)}"
    for when, counts in (("before", comparison.before.full_mesh), ("after", comparison.after.full_mesh)):
        if counts.everywhere.saturated:
            number = counted(counts.everywhere.saturated, "sidecar")
            yield f"{when}, {number} of the full mesh would be saturated, so the sum has no latency of them"
    for when, missing, extrapolated in (
        (" before and after", *shared(comparison)),
        (" only before", *lacked(comparison.before, comparison.after)),
        (" only after", *lacked(comparison.after, comparison.before)),
    ):
        yield from notes(missing, extrapolated, when)


def _pairs(comparison: Comparison) -> list[Pair]:
    return [
        pair
        for totals in (comparison.plan, comparison.full_mesh, comparison.everywhere)
        for pair in (totals.cpu, totals.memory, totals.latency)
    ]


def _at_least(pair: Pair) -> bool:
    return any(figure is not None and figure.at_least and figure.value > 0 for figure in (pair.before, pair.after))
