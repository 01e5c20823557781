"""The page of an advice: why the sidecars of a mesh with Istio are there, and what would be free without it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from admc.base.terminal import visible
from admc.istio import wording
from admc.istio.document import AdviceDocument, CitedRow, DeclaredPods, PriceRow, ReasonRow, WorkloadRow
from admc.istio.in_force.effects import Layer, What
from admc.istio.mesh.model import Counting
from admc.istio.prices import Price, in_words
from admc.review.report.advice_lists import configuration, findings, guesses, nowhere, resources
from admc.review.report.figures import counts, fraction
from admc.review.report.model import Bar, BarGroup, Cell, Key, Page, Section
from admc.review.report.words import line_of, more, row
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


class _Kept(NamedTuple):
    """A reason at one workload."""

    workload: WorkloadRow
    cited: CitedRow


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
    yield _today(advice)
    yield _reasons(advice)
    if advice.unasked:
        yield _unasked(advice)
    yield _free(advice)
    yield from _namespaces(advice)
    yield nowhere(advice)
    yield from resources(advice)
    yield from guesses(advice)
    yield findings(advice)
    yield _workloads(advice)
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


def _reasons(advice: AdviceDocument) -> Section:
    """A bar for each reason, the one at the most sidecars first."""
    title = "Sidecars by reason"
    if not advice.reasons:
        return Section(title, "No sidecar does anything that a resource asks for.")
    at: dict[str, list[_Kept]] = defaultdict(list)
    for workload in advice.workloads:
        for cited in workload.reasons:
            at[cited.reason].append(_Kept(workload, cited))
    most = max(reason.sidecars for reason in advice.reasons)
    listed = sorted(advice.reasons, key=lambda it: (-it.sidecars, -it.alone, it.reason))
    bars = tuple(_reason(reason, at[reason.reason], most) for reason in listed[:MOST_REASONS])
    return Section(title, more(len(listed), MOST_REASONS, "reason"), bars=bars, legend=_LEGEND)


def _reason(reason: ReasonRow, kept: Sequence[_Kept], most: int) -> Bar:
    # One resource may be two reasons, a route and mTLS say: they do not do the same.
    own = [it for it in kept if set(it.cited.does) <= set(reason.does)]
    own.sort(key=lambda it: len(it.workload.reasons) > 1)  # those that it alone keeps come first
    parts = [f"{reason.sidecars:,}", f"{reason.alone:,} by it alone", f"layer {int(reason.layer)}"]
    does = f": {_does(reason.does)}" if reason.does else ""
    rows = [
        (
            Cell(_name(it.workload)),
            Cell(f"{it.workload.sidecars:,}"),
            Cell(str(int(it.cited.layer))),
            Cell(_does(it.cited.does)),
            Cell(_others(it.workload, it.cited)),
            Cell(line_of(it.cited.location), look="quiet"),
            Cell(line_of(it.workload.location), look="quiet"),
        )
        for it in own[:MOST_LISTED]
    ]
    return Bar(
        f"{visible(reason.reason)}{does}" + (f" [{line_of(reason.location)}]" if reason.location else ""),
        ", ".join(parts),
        fraction(reason.sidecars, most),
        look=_LOOKS[reason.layer],
        solid=fraction(reason.alone, most),
        head=("workload", "sidecars", "layer", "does", "other reasons", "reason at", "workload at"),
        rows=tuple(rows),
        note=more(len(own), MOST_LISTED, "workload"),
    )


def _others(workload: WorkloadRow, cited: CitedRow) -> str:
    number = len(workload.reasons) - 1
    if not number:
        return "none"
    first = next(it for it in workload.reasons if it is not cited)
    return visible(first.reason) + (f" and {number - 1} more" if number > 1 else "")


def _does(whats: Iterable[What]) -> str:
    return ", ".join(whats)


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


def _free(advice: AdviceDocument) -> Section:
    title = "Sidecars without a reason"
    listed = [it for it in advice.workloads if it.sidecars and not it.reasons]
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


def _namespaces(advice: AdviceDocument) -> Iterable[Section]:
    """A bar for each namespace, if there are several."""
    sidecars: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for workload in advice.workloads:
        sidecars[workload.namespace] += workload.sidecars
        kept[workload.namespace] += workload.sidecars if workload.reasons else 0
    listed = sorted(((name, number) for name, number in sidecars.items() if number), key=lambda it: (-it[1], it[0]))
    if len(listed) < 2:
        return
    longest = listed[0][1]
    bars = [
        Bar(
            visible(name),
            f"{number:,}, {kept[name]:,} with a reason",
            fraction(number, longest),
            solid=fraction(kept[name], longest),
        )
        for name, number in listed[:MOST_NAMESPACES]
    ]
    note = more(len(listed), MOST_NAMESPACES, "namespace")
    yield Section("Sidecars by namespace", note, bars=tuple(bars), legend=_NAMESPACE_LEGEND)


def _workloads(advice: AdviceDocument) -> Section:
    rows = tuple(
        (
            Cell(_name(it)),
            Cell(f"{'at least ' if it.counted_by is Counting.MINIMUM else ''}{it.pods:,}"),
            Cell(f"{it.sidecars:,}"),
            Cell(it.proxy if not it.sidecars else ""),
            Cell(str(max((int(cited.layer) for cited in it.reasons), default=""))),
            Cell(_why(it)),
            Cell(_declared(it)),
            Cell(line_of(it.location), look="quiet"),
        )
        for it in advice.workloads[:MOST_WORKLOADS]
    )
    title = f"All workloads ({len(advice.workloads):,})"
    note = more(len(advice.workloads), MOST_WORKLOADS, "workload")
    head = ("workload", "pods", "sidecars", "proxy", "layer", "reasons", "has it by", "at")
    return Section(title, note, head=head, rows=rows, folded=True)


def _why(workload: WorkloadRow) -> str:
    if not workload.sidecars:
        return ""
    names = dict.fromkeys(visible(it.reason) for it in workload.reasons)
    return few(list(names), _MOST_CITED) or "none"


def _declared(workload: WorkloadRow) -> str:
    revision = "" if workload.revision is None else f", revision `{visible(workload.revision)}`"
    return f"{workload.by}{revision}" + (f" [{line_of(workload.declared)}]" if workload.declared else "")


def _name(workload: WorkloadRow) -> str:
    return visible(f"{workload.namespace}/{workload.name} ({workload.kind})")
