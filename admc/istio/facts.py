"""The advice as plain JSON values, for the fields of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admc.istio.common_reasons import common_reasons
from admc.istio.in_force.effects import key_of_place
from admc.istio.mesh.model import Place, Presence, Revision, Workload
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
def facts(advice: Advice) -> dict[str, object]:
    modules = provenance()["modules"]
    places = _Locations()
    kept = {id(it.workload): it for it in advice.answer.workloads}
    common = common_reasons(advice.answer)
    return {
        "schemas": {module["path"]: module["version"] for module in modules},
        "sidecars": {
            "today": advice.sidecars,
            "at_least": advice.at_least,
            "pods": advice.pods,
            "gateways": advice.gateways,
            "ambient": advice.ambient,
            "by_declaration": [_share(share) for share in advice.by_declaration],
            "without_proxy": [_share(share) for share in advice.without],
        },
        "calls": _calls(advice),
        "kept": {
            "sidecars": advice.answer.kept,
            "of_layer_4_alone": advice.answer.of_connections,
            "features": [str(feature) for feature in advice.kept_features],
        },
        "free": advice.sidecars - advice.answer.kept,
        "price": None if advice.price is None else _price(advice.price),
        "groups": [_group(total) for total in advice.answer.totals],
        "reasons": [_reason(reason, places) for reason in advice.answer.reasons],
        "unasked": [_cost(cost) for cost in advice.features],
        "not_in_force": [_unused(unused, places) for unused in advice.nowhere],
        "skipped": advice.skipped,
        "resources": [_judged(judged, places) for judged in advice.resources],
        **({"common_reasons": _common(common, places)} if common.lists else {}),
        "workloads": [_workload(workload, kept.get(id(workload)), common, places) for workload in advice.workloads],
        "revisions": [_revision(revision, places) for revision in advice.revisions],
    }


def _share(share: Share) -> dict[str, object]:
    return {"by": str(share.declaration), "pods": share.sidecars}


def _judged(judged: Judged, places: _Locations) -> dict[str, object]:
    return {
        "kind": judged.kind,
        "concerns": str(judged.concerns),
        "resources": [
            {"namespace": manifest.namespace, "name": manifest.name, "location": places.of(Place(manifest, ()))}
            for manifest in judged.resources
        ],
    }


def _calls(advice: Advice) -> dict[str, object] | None:
    measured = advice.measured
    if measured is None:
        return None
    return {
        "source": measured.source,
        "guessed": measured.is_guess,
        "days": measured.days,
        "calls": len(measured.calls.known or ()),
        "without_caller": measured.unattributed,
    }


def _price(made: Price) -> dict[str, object]:
    """What the free sidecars take at rest: the least that goes with them."""
    return {
        "sidecars": made.sidecars,
        "profile": made.profile,
        "sha256": made.sha256,
        "machine": made.machine,
        "at_least": True,
        "cores": None if made.cpu is None else float(made.cpu),
        "bytes": None if made.memory is None else float(made.memory),
    }


def _group(total: GroupTotal) -> dict[str, object]:
    return {"for": str(total.group), "sidecars": total.sidecars, "of_layer_7": total.of_requests}


def _reason(reason: Reason, places: _Locations) -> dict[str, object]:
    return {
        "for": str(reason.group),
        "reason": reason.name,
        "location": places.of(reason.place),
        "does": [str(what) for what in reason.whats],
        "layer": int(reason.layer),
        "sidecars": reason.sidecars,
        "alone": reason.alone,
    }


def _cost(cost: Cost) -> dict[str, object]:
    return {
        "feature": str(cost.feature),
        "sidecars": cost.sidecars,
        "added": cost.added,
        "kept_in_all": cost.total,
    }


def _unused(unused: Unused, places: _Locations) -> dict[str, object]:
    manifest = unused.resource.object
    return {
        "kind": manifest.kind,
        "namespace": manifest.namespace,
        "name": manifest.name,
        "location": places.of(unused.resource),
        "cause": str(unused.cause),
        "by": places.of(unused.by),
    }


def _cited(cited: Cited, places: _Locations) -> dict[str, object]:
    return {
        "reason": cited.name,
        "location": places.of(cited.place),
        "does": [str(what) for what in cited.whats],
        "layer": int(cited.layer),
    }


def _common(common: CommonReasons, places: _Locations) -> dict[str, object]:
    return {"reasons": [_cited(cited, places) for cited in common.reasons], "lists": list(map(list, common.lists))}


def _workload(workload: Workload, kept: Kept | None, common: CommonReasons, places: _Locations) -> dict[str, object]:
    return {
        "namespace": workload.namespace,
        "kind": workload.kind,
        "name": workload.name,
        "pods": workload.replicas,
        "counted_by": str(workload.counting),
        **_presence(workload.presence, places),
        "sidecars": 0 if kept is None else kept.sidecars,
        **({"reasons": []} if kept is None else _reasons(kept, common, places)),
        "location": places.of(Place(workload.object, ())),
    }


def _reasons(kept: Kept, common: CommonReasons, places: _Locations) -> dict[str, object]:
    reference = common.reference(kept)
    if reference is None:
        return {"reasons": [_cited(cited, places) for cited in kept.reasons]}
    own = [_cited(cited, places) for cited in kept.own]
    return {"reasons": own, "common_reasons": {"list": reference.list, "without": list(reference.without)}}


def _presence(presence: Presence, places: _Locations) -> dict[str, object]:
    place = places.of(presence.place)
    return {"proxy": str(presence.proxy), "by": str(presence.by), "revision": presence.revision, "declared": place}


def _revision(revision: Revision, places: _Locations) -> dict[str, object]:
    settings: dict[str, Any] = {
        setting.name: {"value": setting.value, "default": setting.is_default} for setting in revision.settings
    }
    place = places.of(revision.source)
    return {"name": revision.name, "location": place, "settings": settings}


class _Locations:
    """The lines of fields. Each is looked for once: many workloads have the same reasons."""

    def __init__(self) -> None:
        self._made: dict[PlaceKey, dict[str, object]] = {}

    def of(self, place: Place | None) -> dict[str, object] | None:
        if place is None:
            return None
        key = key_of_place(place)
        if key not in self._made:
            span = span_of(place.object.document, (*place.object.where, *place.where))
            self._made[key] = {"path": span.source.path, "line": span.line}
        return self._made[key]
