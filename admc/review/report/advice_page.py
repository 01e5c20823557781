"""The page of an advice: why the sidecars of a mesh with Istio are there, and what would be free without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

from admc.base.terminal import visible
from admc.istio import wording
from admc.istio.document import AdviceDocument, DeclaredPods, PriceRow, ReasonRow, WorkloadRow
from admc.istio.in_force.effects import Layer, What
from admc.istio.mesh.model import Counting
from admc.istio.prices import Price, in_words
from admc.review.report.advice_lists import configuration, findings, guesses, nowhere, resources
from admc.review.report.advice_reasons import Cited, CitedAt, Reasons, WorkloadReasons
from admc.review.report.figures import counts, fraction
from admc.review.report.model import Bar, BarGroup, Cell, Key, Page, Section
from admc.review.report.words import line_of, more, row, short
from dsl.words import few

MOST_REASONS: Final = 100
MOST_LISTED: Final = 50
"""The workloads that one reason lists."""
MOST_WORKLOADS: Final = 2000
MOST_NAMESPACES: Final = 100
_MOST_CITED: Final = 5
"""The reasons that one row names."""
_LOOKS: Final = {Layer.REQUEST: "layer7", Layer.CONNECTION: "layer4"}
_NOT_JUDGED: Final = "not judged"
_LEGEND: Final = (
    Key("layer7", "layer 7: this reason alone keeps these sidecars"),
    Key("layer7 pale", "layer 7, and these have other reasons, too"),
    Key("layer4", "layer 4, which ztunnel carries: this reason alone"),
    Key("layer4 pale", "layer 4, with other reasons"),
)
_NAMESPACE_LEGEND: Final = (Key("bars", "sidecars with a reason"), Key("bars pale", "sidecars without one"))


def advice_page(advice: AdviceDocument) -> Page:
    return Page(
        "The sidecars of the mesh: what they do, and why they are there",
        tuple(_facts(advice)),
        tuple(_doubts(advice)),
        nodes=(),
        edges=(),
        policies=(),
        legend=(),
        sections=tuple(_sections(advice)),
        graph_note="A click on a reason lists its workloads. All numbers are sidecars, so pods, and not workloads.",
    )


def _facts(advice: AdviceDocument) -> Iterable[str]:
    """The head of the text form, as sentences."""
    sidecars, kept = advice.sidecars, advice.kept
    yield wording.today(sidecars.today, sidecars.pods, at_least=sidecars.at_least)
    if not sidecars.today:
        return
    yield wording.declared_by([(share.pods, share.by) for share in sidecars.by_declaration])
    yield wording.conclusion(kept.sidecars, sidecars.today, chosen=bool(kept.features))
    if kept.of_layer_4_alone:
        yield wording.of_layer_4(kept.of_layer_4_alone, kept.sidecars)
    yield wording.about_calls(_calls(advice))
    if advice.price is not None and advice.free:
        yield in_words(_price(advice.price))


def _calls(advice: AdviceDocument) -> wording.CallsGiven | None:
    given = advice.calls
    if given is None:
        return None
    return wording.CallsGiven(
        given.source, given.guessed, given.calls, given.days, given.without_caller, given.without_host
    )


def _price(made: PriceRow) -> Price:
    cores, size = (None if figure is None else Decimal(str(figure)) for figure in (made.cores, made.bytes))
    return Price(made.sidecars, made.profile, made.sha256, made.machine, cores, size)


def _doubts(advice: AdviceDocument) -> Iterable[str]:
    """What makes the numbers too high, too low, or uncertain."""
    if advice.skipped:
        yield f"{wording.lacks(advice.skipped).capitalize()}."
    if advice.sidecars.at_least:
        yield "More pods may run than are counted: one a node, those of an autoscaler, or those of a job."
    if advice.calls is None and advice.sidecars.today:
        yield "No calls were given, so each workload may call every host that it sees; with calls reasons may be fewer."
    elif advice.calls is not None and advice.calls.guessed:
        yield "The calls are guessed, so a sidecar without a reason may be needed for a call that was not guessed."
    not_judged = sum(len(it.resources) for it in advice.resources if it.concerns == _NOT_JUDGED)
    if not_judged:
        what = wording.counted(not_judged, "resource that is", "resources that are")
        yield f"Sidecars are kept by {what} not judged."
    if not advice.revisions:
        yield "No mesh configuration was given: Istio's defaults are taken."


def _sections(advice: AdviceDocument) -> Iterable[Section]:
    reasons = Reasons(advice, MOST_LISTED)
    yield _today(advice)
    yield _reasons(advice, reasons)
    if advice.unasked:
        yield _unasked(advice)
    yield _free(advice, reasons)
    yield from _namespaces(reasons)
    yield nowhere(advice)
    yield from resources(advice)
    yield from guesses(advice)
    yield findings(advice)
    yield _workloads(reasons)
    yield configuration(advice)


def _today(advice: AdviceDocument) -> Section:
    sidecars, kept = advice.sidecars, advice.kept
    proxies = [
        ("with a sidecar", sidecars.today, ""),
        ("gateways and waypoints", sidecars.gateways, ""),
        ("in ambient mode", sidecars.ambient, ""),
        *((f"without a proxy, by {share.by}", share.pods, "") for share in sidecars.without_proxy),
    ]
    reasons = [
        ("layer 7", kept.sidecars - kept.of_layer_4_alone, "layer7"),
        ("layer 4 alone", kept.of_layer_4_alone, "layer4"),
        ("no reason", advice.free, ""),
    ]
    groups = [(visible(it.group), it.sidecars, "") for it in advice.groups]
    shown = (
        BarGroup("Sidecars by what they are needed for", counts(reasons)),
        BarGroup("Sidecars by what resources ask for", counts(groups)),
        BarGroup("Sidecars by what declares them", counts(_shares(sidecars.by_declaration))),
        BarGroup("Pods", counts([it for it in proxies if it[1]])),
    )
    return Section("Sidecars today", groups=tuple(group for group in shown if group.bars))


def _shares(shares: Sequence[DeclaredPods]) -> list[tuple[str, int, str]]:
    return [(str(share.by), share.pods, "") for share in shares]


def _reasons(advice: AdviceDocument, reasons: Reasons) -> Section:
    """A bar for each reason, the one at the most sidecars first."""
    title = "Sidecars by reason"
    if not advice.reasons:
        return Section(title, "No sidecar does anything that a resource asks for.")
    most = max(reason.sidecars for reason in advice.reasons)
    listed = sorted(advice.reasons, key=lambda it: (-it.sidecars, -it.alone, it.reason))
    bars = tuple(_reason(reason, reasons.of(reason), most) for reason in listed[:MOST_REASONS])
    return Section(title, more(len(listed), MOST_REASONS, "reason"), bars=bars, legend=_LEGEND)


def _reason(reason: ReasonRow, cited: CitedAt, most: int) -> Bar:
    parts = [f"{reason.sidecars:,}", f"{reason.alone:,} by it alone", f"layer {int(reason.layer)}"]
    does = f": {_does(reason.does)}" if reason.does else ""
    rows = [
        (
            Cell(_name(it.workload.row)),
            Cell(f"{it.workload.row.sidecars:,}"),
            Cell(str(int(it.cited.layer))),
            Cell(_does(it.cited.does)),
            Cell(_others(it)),
            Cell(line_of(it.cited.location), look="quiet"),
            Cell(line_of(it.workload.row.location), look="quiet"),
        )
        for it in cited.first
    ]
    return Bar(
        f"{short(reason.reason)}{does}" + (f" [{line_of(reason.location)}]" if reason.location else ""),
        ", ".join(parts),
        fraction(reason.sidecars, most),
        look=_LOOKS[reason.layer],
        solid=fraction(reason.alone, most),
        head=("workload", "sidecars", "layer", "does", "other reasons", "reason at", "workload at"),
        rows=tuple(rows),
        note=more(cited.number, MOST_LISTED, "workload"),
    )


def _others(one: Cited) -> str:
    number = one.workload.number - 1
    if not number:
        return "none"
    first = next(it for it in one.workload.first(2) if it is not one.cited)
    return short(first.reason) + (f" and {number - 1} more" if number > 1 else "")


def _does(whats: Iterable[What]) -> str:
    return ", ".join(dict.fromkeys(whats))


def _unasked(advice: AdviceDocument) -> Section:
    note = (
        "What Istio does without any resource. `added` is what keeping this feature alone costs: its sidecars that no "
        "resource keeps. `all` is what is kept with this feature and those above it."
    )
    rows = []
    for cost in advice.unasked:
        chosen = " (kept)" if cost.feature in advice.kept.features else ""
        option = f"`--keep {visible(cost.feature)}`{chosen}"
        figures = (f"{number:,}" for number in (cost.sidecars, cost.added, cost.kept_in_all))
        rows.append(row(visible(cost.title), option, *figures))
    head = ("feature", "option", "sidecars", "added", "all")
    return Section("What no resource asks for", note, head=head, rows=tuple(rows))


def _free(advice: AdviceDocument, reasons: Reasons) -> Section:
    title = "Sidecars without a reason"
    listed = [it.row for it in reasons.workloads if it.row.sidecars and not it.number]
    if not listed:
        return Section(title, "Each sidecar has a reason." if advice.sidecars.today else "There are no sidecars.")
    most = sorted(listed, key=lambda it: (-it.sidecars, it.namespace, it.name, it.kind))
    rows = tuple(
        (
            Cell(_name(it)),
            Cell(f"{it.sidecars:,}"),
            Cell(_declared(it)),
            Cell(line_of(it.location), look="quiet"),
        )
        for it in most[:MOST_WORKLOADS]
    )
    head = ("workload", "sidecars", "has them by", "at")
    return Section(title, more(len(listed), MOST_WORKLOADS, "workload"), head=head, rows=rows)


def _namespaces(reasons: Reasons) -> Iterable[Section]:
    """A bar for each namespace, if there are several."""
    sidecars: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for it in reasons.workloads:
        sidecars[it.row.namespace] += it.row.sidecars
        kept[it.row.namespace] += it.row.sidecars if it.number else 0
    listed = sorted(((name, number) for name, number in sidecars.items() if number), key=lambda it: (-it[1], it[0]))
    if len(listed) < 2:
        return
    longest = listed[0][1]
    bars = [
        Bar(
            short(name),
            f"{number:,}, {kept[name]:,} with a reason",
            fraction(number, longest),
            solid=fraction(kept[name], longest),
        )
        for name, number in listed[:MOST_NAMESPACES]
    ]
    note = more(len(listed), MOST_NAMESPACES, "namespace")
    yield Section("Sidecars by namespace", note, bars=tuple(bars), legend=_NAMESPACE_LEGEND)


def _workloads(reasons: Reasons) -> Section:
    workloads = reasons.workloads
    rows = tuple(
        (
            Cell(_name(it.row)),
            Cell(f"{'at least ' if it.row.counted_by is Counting.MINIMUM else ''}{it.row.pods:,}"),
            Cell(f"{it.row.sidecars:,}"),
            Cell(it.row.proxy if not it.row.sidecars else ""),
            Cell("" if it.layer is None else str(int(it.layer))),
            Cell(_why(it)),
            Cell(_declared(it.row)),
            Cell(line_of(it.row.location), look="quiet"),
        )
        for it in workloads[:MOST_WORKLOADS]
    )
    title = f"All workloads ({len(workloads):,})"
    note = more(len(workloads), MOST_WORKLOADS, "workload")
    head = ("workload", "pods", "sidecars", "proxy", "layer", "reasons", "has it by", "at")
    return Section(title, note, head=head, rows=rows, folded=True)


def _why(workload: WorkloadReasons) -> str:
    if not workload.row.sidecars:
        return ""
    names, number = workload.names(_MOST_CITED)
    return few([short(name) for name in names], _MOST_CITED, number) or "none"


def _declared(workload: WorkloadRow) -> str:
    revision = "" if workload.revision is None else f", revision `{short(workload.revision)}`"
    return f"{workload.by}{revision}" + (f" [{line_of(workload.declared)}]" if workload.declared else "")


def _name(workload: WorkloadRow) -> str:
    return f"{short(workload.namespace)}/{short(workload.name)} ({short(workload.kind)})"
