"""The advice as plain JSON values, for the fields of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admc.istio.mesh.model import Place, Presence, Revision, Workload
from admc.istio.schemas.data import provenance
from admc.manifests.places import span_of

if TYPE_CHECKING:
    from admc.istio.advice import Advice, Judged, Share


def facts(advice: Advice) -> dict[str, object]:
    modules = provenance()["modules"]
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
        "saving": None,
        "skipped": advice.skipped,
        "resources": [_judged(judged) for judged in advice.resources],
        "workloads": [_workload(workload) for workload in advice.workloads],
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


def _workload(workload: Workload) -> dict[str, object]:
    return {
        "namespace": workload.namespace,
        "kind": workload.kind,
        "name": workload.name,
        "pods": workload.replicas,
        "counted_by": str(workload.counting),
        **_presence(workload.presence),
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
