"""Telemetry: which of them a workload has. One of the root namespace, one of its own, and those with a selector for it.

Of two without a selector in one namespace the older one counts. What only turns something off needs no sidecar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.istio.in_force.effects import Effect, Layer, What
from admc.istio.in_force.selection import MATCH_LABELS, attached, items, mapping, selector, targets
from admc.istio.in_force.view import TELEMETRY
from admc.istio.mesh.model import Place, Workload, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.in_force.view import View
    from admc.manifests.documents import Object

KIND: Final = "Telemetry"
_PARTS: Final = ("accessLogging", "metrics", "tracing")
_OFF: Final = ("disabled", "disableSpanReporting")
_ABOUT: Final = frozenset(("match", "providers"))


def effects(view: View, workload: Workload) -> Iterator[Effect]:
    for manifest in applied(view, workload):
        for part in _PARTS:
            if any(not _is_off(mapping(it)) for it in items(spec_of(manifest).get(part))):
                place = Place(manifest, ("spec", part))
                yield Effect(None, None, None, place, Layer.REQUEST, What.TELEMETRY)


def applied(view: View, workload: Workload) -> Iterator[Object]:
    namespaces = dict.fromkeys((view.configuration.root, workload.namespace))
    for namespace in namespaces:
        for_all = for_namespace(view, namespace)
        if for_all is not None:
            yield for_all
    for manifest in view.near(TELEMETRY, KIND, workload):
        own = manifest.namespace == workload.namespace and selector(manifest, MATCH_LABELS)
        if own and attached(manifest, workload, view.configuration.root):
            yield manifest


def for_namespace(view: View, namespace: str) -> Object | None:
    return next((it for it in view.for_all(TELEMETRY, KIND, namespace) if not targets(it)), None)


def _is_off(part: dict[str, Any]) -> bool:
    """Whether a part of a Telemetry does nothing but turn something off."""
    overrides = items(part.get("overrides"))
    others = {name for name, value in part.items() if value} - _ABOUT - {*_OFF, "overrides"}
    is_off = any(part.get(name) is True for name in _OFF)
    off = all(mapping(it).get("disabled") is True for it in overrides) if overrides else is_off
    return not others and off and (not overrides or not _removes_tags(overrides))


def _removes_tags(overrides: list[Any]) -> bool:
    return any(mapping(it).get("tagOverrides") for it in overrides)
