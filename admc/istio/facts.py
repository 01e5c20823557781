"""The advice as the document that `--format json` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from admc import __version__
from admc.base.findings.json import finding_rows
from admc.base.findings.report import Report
from admc.istio.common_reasons import common_reasons
from admc.istio.document import (
    SCHEMA_VERSION,
    AdviceDocument,
    CallsRow,
    CitedRow,
    CommonReasonsRow,
    DeclaredPods,
    GroupRow,
    GuessRow,
    KeptSidecars,
    Line,
    NotInForceRow,
    PriceRow,
    ReasonRow,
    ReferenceRow,
    ResourceRow,
    ResourcesRow,
    RevisionRow,
    SettingRow,
    Sidecars,
    UnaskedRow,
    WorkloadRow,
)
from admc.istio.guesses import spans_of_guesses
from admc.istio.implicit import TITLES
from admc.istio.in_force.effects import key_of_place
from admc.istio.mesh.model import Place, Revision, Workload
from admc.istio.schemas.data import provenance
from admc.manifests.places import span_of
from dsl.collector import no_collection

if TYPE_CHECKING:
    from admc.istio.advice import Advice, Cost, Judged, Share
    from admc.istio.common_reasons import CommonReasons
    from admc.istio.in_force.effects import PlaceKey, Unused
    from admc.istio.prices import Price
    from admc.istio.reasons import Cited, GroupTotal, Kept, Reason


@no_collection()
def document(advice: Advice, report: Report) -> AdviceDocument:
    """`report` has the findings of the run, and its exit code."""
    places = _Locations()
    kept = {id(it.workload): it for it in advice.answer.workloads}
    common = common_reasons(advice.answer)
    return AdviceDocument(
        SCHEMA_VERSION,
        "admc",
        __version__,
        _exit_code(report),
        schemas={module["path"]: module["version"] for module in provenance()["modules"]},
        sidecars=_sidecars(advice),
        calls=_calls(advice),
        kept=KeptSidecars(
            advice.answer.kept,
            advice.answer.of_connections,
            tuple(str(feature) for feature in advice.kept_features),
        ),
        free=advice.sidecars - advice.answer.kept,
        price=None if advice.price is None else _price(advice.price),
        groups=tuple(map(_group, advice.answer.totals)),
        reasons=tuple(_reason(reason, places) for reason in advice.answer.reasons),
        unasked=tuple(map(_cost, advice.features)),
        not_in_force=tuple(_unused(unused, places) for unused in advice.nowhere),
        skipped=advice.skipped,
        resources=tuple(_judged(judged, places) for judged in advice.resources),
        common_reasons=_common(common, places),
        workloads=tuple(_workload(workload, kept.get(id(workload)), common, places) for workload in advice.workloads),
        revisions=tuple(_revision(revision, places) for revision in advice.revisions),
        diagnostics=finding_rows(report),
    )


def _exit_code(report: Report) -> Literal[0, 1, 4]:
    match report.exit_code:
        case 0 | 1 | 4 as code:
            return code
    raise AssertionError(f"`admc advise` does not end with {report.exit_code}")


def _sidecars(advice: Advice) -> Sidecars:
    return Sidecars(
        advice.sidecars,
        advice.at_least,
        advice.pods,
        advice.gateways,
        advice.ambient,
        tuple(map(_share, advice.by_declaration)),
        tuple(map(_share, advice.without)),
    )


def _share(share: Share) -> DeclaredPods:
    return DeclaredPods(share.declaration, share.sidecars)


def _judged(judged: Judged, places: _Locations) -> ResourcesRow:
    rows = (
        ResourceRow(manifest.namespace, manifest.name, places.at(Place(manifest, ()))) for manifest in judged.resources
    )
    return ResourcesRow(judged.kind, str(judged.concerns), tuple(rows))


def _calls(advice: Advice) -> CallsRow | None:
    measured = advice.measured
    if measured is None:
        return None
    number = len(measured.calls.known or ())
    guesses = tuple(
        GuessRow(*call, Line(span.source.path, span.line))
        for call, span in sorted(spans_of_guesses(measured.guesses or ()).items())
    )
    return CallsRow(
        measured.source,
        measured.is_guess,
        measured.days,
        number,
        measured.unattributed,
        measured.hostless,
        guesses,
    )


def _price(made: Price) -> PriceRow:
    return PriceRow(
        made.sidecars,
        made.profile,
        made.sha256,
        made.machine,
        True,
        None if made.cpu is None else float(made.cpu),
        None if made.memory is None else float(made.memory),
    )


def _group(total: GroupTotal) -> GroupRow:
    return GroupRow(str(total.group), total.sidecars, total.of_requests)


def _reason(reason: Reason, places: _Locations) -> ReasonRow:
    return ReasonRow(
        str(reason.group),
        reason.name,
        places.of(reason.place),
        reason.whats,
        reason.layer,
        reason.sidecars,
        reason.alone,
    )


def _cost(cost: Cost) -> UnaskedRow:
    return UnaskedRow(str(cost.feature), TITLES[cost.feature], cost.sidecars, cost.added, cost.total)


def _unused(unused: Unused, places: _Locations) -> NotInForceRow:
    manifest = unused.resource.object
    line = places.at(unused.resource)
    return NotInForceRow(manifest.kind, manifest.namespace, manifest.name, line, unused.cause, places.of(unused.by))


def _cited(cited: Cited, places: _Locations) -> CitedRow:
    return CitedRow(cited.name, places.of(cited.place), cited.whats, cited.layer)


def _common(common: CommonReasons, places: _Locations) -> CommonReasonsRow | None:
    if not common.lists:
        return None
    return CommonReasonsRow(tuple(_cited(cited, places) for cited in common.reasons), common.lists)


def _workload(workload: Workload, kept: Kept | None, common: CommonReasons, places: _Locations) -> WorkloadRow:
    presence = workload.presence
    reference = None if kept is None else common.reference(kept)
    return WorkloadRow(
        workload.namespace,
        workload.kind,
        workload.name,
        workload.replicas,
        workload.counting,
        presence.proxy,
        presence.by,
        presence.revision,
        places.of(presence.place),
        0 if kept is None else kept.sidecars,
        () if kept is None else tuple(_cited(cited, places) for cited in (kept.own if reference else kept.reasons)),
        None if reference is None else ReferenceRow(reference.list, reference.without),
        places.at(Place(workload.object, ())),
    )


def _revision(revision: Revision, places: _Locations) -> RevisionRow:
    settings = {setting.name: SettingRow(setting.value, setting.is_default) for setting in revision.settings}
    return RevisionRow(revision.name, places.of(revision.source), settings)


class _Locations:
    """The lines of fields. Each is looked for once: many workloads have the same reasons."""

    def __init__(self) -> None:
        self._made: dict[PlaceKey, Line] = {}

    def of(self, place: Place | None) -> Line | None:
        return None if place is None else self.at(place)

    def at(self, place: Place) -> Line:
        key = key_of_place(place)
        if key not in self._made:
            span = span_of(place.object.document, (*place.object.where, *place.where))
            self._made[key] = Line(span.source.path, span.line)
        return self._made[key]
