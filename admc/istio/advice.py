"""The advice about a mesh: its sidecars by what declares them, and what is known of its resources.

What is not judged keeps its sidecar: no number here says that a sidecar could go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.mesh.model import Counting, Declaration, Mesh, Proxy, Revision, Workload, spec_of
from admc.istio.mesh.references import NETWORKING
from admc.manifests.documents import Object, at

if TYPE_CHECKING:
    from collections.abc import Iterable

_GATEWAY_API: Final = "gateway.networking.k8s.io"
_MESH: Final = "mesh"
"""The name by which a VirtualService names all sidecars; it is meant where none is given."""


class Concerns(StrEnum):
    """The proxies that a resource concerns."""

    GATEWAYS = "gateways"
    """No sidecar enforces it."""
    NOT_JUDGED = "not judged"
    """A sidecar may enforce it, so its sidecars are kept."""


class Share(NamedTuple):
    """Sidecars with one declaration."""

    declaration: Declaration
    sidecars: int


class Judged(NamedTuple):
    """The resources of one kind that concern the same proxies."""

    kind: str
    concerns: Concerns
    resources: tuple[Object, ...]


class Advice(NamedTuple):
    sidecars: int
    gateways: int
    ambient: int
    pods: int
    """Of all workloads."""
    at_least: bool
    """Whether more of them may run."""
    by_declaration: tuple[Share, ...]
    """Most sidecars first."""
    without: tuple[Share, ...]
    """Pods without a proxy, by what says so."""
    resources: tuple[Judged, ...]
    workloads: tuple[Workload, ...]
    revisions: tuple[Revision, ...]
    skipped: int
    """Documents and objects that were refused, and are missing in all numbers."""


def advise(mesh: Mesh, skipped: int = 0) -> Advice:
    counts: Counter[Proxy] = Counter()
    for workload in mesh.workloads:
        counts.update({proxy: workload.number(proxy) for proxy in Proxy})
    return Advice(
        counts[Proxy.SIDECAR],
        counts[Proxy.GATEWAY],
        counts[Proxy.AMBIENT],
        counts.total(),
        any(workload.counting is Counting.MINIMUM for workload in mesh.workloads),
        _shares(mesh.workloads, Proxy.SIDECAR),
        _shares(mesh.workloads, Proxy.NONE),
        _judged(mesh),
        mesh.workloads,
        tuple(mesh.revisions[name] for name in sorted(mesh.revisions)),
        skipped,
    )


def _shares(workloads: Iterable[Workload], proxy: Proxy) -> tuple[Share, ...]:
    counts: Counter[Declaration] = Counter()
    for workload in workloads:
        if workload.counting is Counting.PODS:
            counts.update(presence.by for presence in workload.pods if presence.proxy is proxy)
        elif workload.presence.proxy is proxy:
            counts[workload.presence.by] += workload.replicas
    listed = [Share(declaration, number) for declaration, number in counts.items() if number]
    return tuple(sorted(listed, key=lambda share: (-share.sidecars, share.declaration)))


def _judged(mesh: Mesh) -> tuple[Judged, ...]:
    made: dict[tuple[str, Concerns], list[Object]] = defaultdict(list)
    for (_, kind), resources in mesh.resources.items():
        for manifest in resources:
            made[kind, concerns(manifest)].append(manifest)
    return tuple(Judged(kind, what, tuple(listed)) for (kind, what), listed in sorted(made.items()))


def concerns(manifest: Object) -> Concerns:
    """Whether a resource concerns gateways alone."""
    of = manifest.group, manifest.kind
    if of == (NETWORKING, "VirtualService"):
        gateways = spec_of(manifest).get("gateways")
        # One without hosts is a part of others, which name the gateways.
        only = (
            bool(gateways) and isinstance(gateways, list) and _MESH not in gateways and spec_of(manifest).get("hosts")
        )
    elif of == (NETWORKING, "Gateway"):
        only = True
    elif manifest.group == _GATEWAY_API:
        only = _is_of_gateways(spec_of(manifest), manifest.kind)
    else:
        only = False
    return Concerns.GATEWAYS if only else Concerns.NOT_JUDGED


def _is_of_gateways(spec: dict[str, Any], kind: str) -> bool:
    """A route for a Service is one of the mesh; Gateways and what belongs to them concern no sidecar."""
    if not kind.endswith("Route"):
        return kind in ("Gateway", "GatewayClass", "ListenerSet", "ReferenceGrant")
    parents = spec.get("parentRefs")
    kinds = [at(parent, ("kind",)) or "Gateway" for parent in parents] if isinstance(parents, list) else []
    return bool(kinds) and all(parent in ("Gateway", "ListenerSet") for parent in kinds)
