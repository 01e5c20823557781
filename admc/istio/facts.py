"""The advice as plain JSON values, for the fields of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admc.istio.mesh.model import Place, Presence, Revision, Workload
from admc.istio.schemas.data import provenance
from admc.manifests.places import span_of

if TYPE_CHECKING:
    from admc.istio.advice import Advice, Cost, Judged, Share
    from admc.istio.in_force.effects import Unused
    from admc.istio.prices import Price
    from admc.istio.reasons import Cited, GroupTotal, Kept, Reason


def facts(advice: Advice) -> dict[str, object]:
    modules = provenance()["modules"]
    kept = {id(it.workload): it for it in advice.answer.workloads}
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
        "reasons": [_reason(reason) for reason in advice.answer.reasons],
        "unasked": [_cost(cost) for cost in advice.features],
        "not_in_force": [_unused(unused) for unused in advice.nowhere],
        "skipped": advice.skipped,
        "resources": [_judged(judged) for judged in advice.resources],
        "workloads": [_workload(workload, kept.get(id(workload))) for workload in advice.workloads],
        "revisions": [_revision(revision) for revision in advice.revisions],
    }


def _share(share: Share) -> dict[str, object]:
    return {"by": str(share.declaration), "pods": share.sidecars}


def _judged(judged: Judged) -> dict[str, object]:
    return {
        "kind": judged.kind,
        "concerns": str(judged.concerns),
        "resources": [
            {"namespace": manifest.namespace, "name": manifest.name, "location": _location(Place(manifest, ()))}
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


def _reason(reason: Reason) -> dict[str, object]:
    return {
        "for": str(reason.group),
        "reason": reason.name,
        "location": None if reason.place is None else _location(reason.place),
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


def _unused(unused: Unused) -> dict[str, object]:
    manifest = unused.resource.object
    return {
        "kind": manifest.kind,
        "namespace": manifest.namespace,
        "name": manifest.name,
        "location": _location(unused.resource),
        "cause": str(unused.cause),
        "by": None if unused.by is None else _location(unused.by),
    }


def _cited(cited: Cited) -> dict[str, object]:
    return {
        "reason": cited.name,
        "location": None if cited.place is None else _location(cited.place),
        "does": [str(what) for what in cited.whats],
        "layer": int(cited.layer),
    }


def _workload(workload: Workload, kept: Kept | None) -> dict[str, object]:
    return {
        "namespace": workload.namespace,
        "kind": workload.kind,
        "name": workload.name,
        "pods": workload.replicas,
        "counted_by": str(workload.counting),
        **_presence(workload.presence),
        "sidecars": 0 if kept is None else kept.sidecars,
        "reasons": [] if kept is None else [_cited(cited) for cited in kept.reasons],
        "location": _location(Place(workload.object, ())),
    }


def _presence(presence: Presence) -> dict[str, object]:
    place = None if presence.place is None else _location(presence.place)
    return {"proxy": str(presence.proxy), "by": str(presence.by), "revision": presence.revision, "declared": place}


def _revision(revision: Revision) -> dict[str, object]:
    settings: dict[str, Any] = {
        setting.name: {"value": setting.value, "default": setting.is_default} for setting in revision.settings
    }
    place = None if revision.source is None else _location(revision.source)
    return {"name": revision.name, "location": place, "settings": settings}


def _location(place: Place) -> dict[str, object]:
    span = span_of(place.object.document, (*place.object.where, *place.where))
    return {"path": span.source.path, "line": span.line}
