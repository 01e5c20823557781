"""Settings of the mesh configuration that hold at every sidecar: a traffic policy for all hosts, and access logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.istio.in_force.effects import Effect, Layer, What
from admc.istio.mesh.model import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.in_force.view import View
    from admc.istio.mesh.model import Workload

_WHATS: Final = {"connectionPool": What.POOL, "outlierDetection": What.OUTLIERS}


def effects(view: View, workload: Workload) -> Iterator[Effect]:
    source = None if view.source is None else view.source.source
    if source is None:
        return
    # A mesh configuration in a ConfigMap is a text: the place is that of the text.
    place = Place(source.object, source.where)
    for name, what in _WHATS.items():
        if view.configuration.traffic_policy.get(name) is not None:
            yield Effect(None, None, None, place, Layer.REQUEST, what)
    if view.configuration.logs:
        yield Effect(None, None, None, place, Layer.REQUEST, What.TELEMETRY)
