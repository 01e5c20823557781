"""PeerAuthentication: the mode of mTLS at each port of a workload, and the resource that says it.

A port goes before its workload, that before the namespace, and that before the mesh. Of two at one level the older one
counts. A port is one of the pods, and not of a Service; one with a selector in the root namespace selects nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.istio.in_force.effects import Direction, Effect, Layer, What
from admc.istio.in_force.selection import MATCH_LABELS, has_labels, mapping, selector
from admc.istio.in_force.view import SECURITY
from admc.istio.mesh.model import Place, Workload, spec_of
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.istio.in_force.view import View
    from admc.manifests.documents import Object, Where

KIND: Final = "PeerAuthentication"
_UNSET: Final = "UNSET"


class Mode(StrEnum):
    DISABLE = "DISABLE"
    PERMISSIVE = "PERMISSIVE"
    STRICT = "STRICT"


class Level(NamedTuple):
    mode: Mode
    place: Place | None
    """None for Istio's default."""


class Modes(NamedTuple):
    """The modes of a workload."""

    all: Level
    ports: Mapping[int, Level]

    def at_port(self, port: int) -> Level:
        return self.ports.get(port, self.all)


_WHATS: Final = {
    Mode.STRICT: What.STRICT,
    Mode.PERMISSIVE: What.PERMISSIVE,
    Mode.DISABLE: What.PLAINTEXT,
}


def modes(view: View, namespace: str, workload: Workload | None) -> Modes:
    """The modes of a workload; without one, those of a namespace."""
    effective = Level(Mode.PERMISSIVE, None)
    for level in (for_namespace(view, view.configuration.root), _of_namespace(view, namespace)):
        if level is not None:
            effective = _at_level(level, ("mtls", "mode"), effective)
    own = None if workload is None else for_workload(view, workload)
    if own is None:
        return Modes(effective, {})
    effective = _at_level(own, ("mtls", "mode"), effective)
    ports = mapping(spec_of(own).get("portLevelMtls"))
    return Modes(effective, {int(port): _at_level(own, ("portLevelMtls", port, "mode"), effective) for port in ports})


def effects(view: View, workload: Workload) -> Iterator[Effect]:
    own = modes(view, workload.namespace, workload)
    for port, (mode, place) in ((None, own.all), *own.ports.items()):
        if place is not None:
            yield Effect(Direction.INBOUND, port, None, place, Layer.CONNECTION, _WHATS[mode])


def for_workload(view: View, workload: Workload) -> Object | None:
    """The oldest with a selector for a workload."""
    if workload.namespace == view.configuration.root:
        return None
    for manifest in view.near(SECURITY, KIND, workload):
        labels = selector(manifest, MATCH_LABELS)
        if labels and manifest.namespace == workload.namespace and has_labels(workload, labels):
            return manifest
    return None


def for_namespace(view: View, namespace: str) -> Object | None:
    """The oldest without a selector."""
    return next(iter(view.for_all(SECURITY, KIND, namespace)), None)


def _of_namespace(view: View, namespace: str) -> Object | None:
    return None if namespace == view.configuration.root else for_namespace(view, namespace)


def _at_level(manifest: Object, where: Where, above: Level) -> Level:
    """The mode of one level; that of the level above it where it is not set."""
    mode = at(spec_of(manifest), where)
    if mode in (None, _UNSET):
        return above
    return Level(Mode(mode), Place(manifest, ("spec", *where)))
