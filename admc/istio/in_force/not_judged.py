"""What cannot be judged, and so keeps its sidecar: filters of Envoy, extensions, tokens, and a Sidecar's own settings.

Which sidecars such a resource concerns is judged; what it does there is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.istio.in_force.effects import Direction, Effect, Layer, What
from admc.istio.in_force.hosts import resolved
from admc.istio.in_force.selection import (
    MATCH_LABELS,
    WORKLOAD_LABELS,
    attached,
    items,
    mapping,
)
from admc.istio.in_force.sidecar_scope import is_judged
from admc.istio.in_force.view import SECURITY, TELEMETRY
from admc.istio.mesh.model import Place, Workload, spec_of
from admc.istio.mesh.references import NETWORKING
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.in_force.sidecar_scope import Scope
    from admc.istio.in_force.view import View
    from admc.manifests.documents import Object

EXTENSIONS: Final = "extensions.istio.io"
GATEWAY_API: Final = "gateway.networking.k8s.io"
_SELECTING: Final = {
    (NETWORKING, "EnvoyFilter"): WORKLOAD_LABELS,
    (EXTENSIONS, "WasmPlugin"): MATCH_LABELS,
    (EXTENSIONS, "TrafficExtension"): MATCH_LABELS,
    (SECURITY, "RequestAuthentication"): MATCH_LABELS,
}
JUDGED: Final = frozenset(
    (
        (NETWORKING, "VirtualService"),
        (NETWORKING, "DestinationRule"),
        (NETWORKING, "Gateway"),
        (NETWORKING, "ServiceEntry"),
        (NETWORKING, "WorkloadEntry"),
        (NETWORKING, "WorkloadGroup"),
        (NETWORKING, "ProxyConfig"),
        (NETWORKING, "Sidecar"),
        (SECURITY, "PeerAuthentication"),
        (SECURITY, "AuthorizationPolicy"),
        (TELEMETRY, "Telemetry"),
    )
)
OF_GATEWAYS: Final = frozenset(("Gateway", "GatewayClass", "ListenerSet", "ReferenceGrant"))


def effects(view: View, scope: Scope, workload: Workload) -> Iterator[Effect]:
    """Those of resources that select workloads, and of the settings of a Sidecar."""
    for group, kind in view.mesh.resources:
        where = _SELECTING.get((group, kind))
        if (group, kind) in JUDGED or group == GATEWAY_API:
            continue
        for manifest in view.of_kind(group, kind) if where is None else view.near(group, kind, workload, where):
            if is_empty(manifest) or is_for_gateways(manifest):
                continue
            if where is None or attached(manifest, workload, view.configuration.root, where):
                yield _effect(manifest, None, None)
    if scope.sidecar is not None and not is_judged(scope.sidecar):
        yield _effect(scope.sidecar, None, None)


def effects_of_clients(view: View, scope: Scope) -> Iterator[Effect]:
    """Those of resources of the Gateway API, at all clients of a scope."""
    for group, kind in view.mesh.resources:
        for manifest in view.of_kind(group, kind) if group == GATEWAY_API else ():
            if not is_for_gateways(manifest):
                yield from _of_gateway_api(manifest, scope)


def is_empty(manifest: Object) -> bool:
    """Whether a resource has nothing to do: a RequestAuthentication without rules."""
    return manifest.kind == "RequestAuthentication" and not items(spec_of(manifest).get("jwtRules"))


def is_for_gateways(manifest: Object) -> bool:
    """Whether a resource concerns gateways alone."""
    spec = spec_of(manifest)
    if manifest.kind == "EnvoyFilter":
        patches = items(spec.get("configPatches"))
        return bool(patches) and all(at(patch, ("match", "context")) == "GATEWAY" for patch in patches)
    if manifest.group != GATEWAY_API:
        return False
    if manifest.kind in OF_GATEWAYS:
        return True
    parents = [mapping(it) for it in items(spec.get("parentRefs"))]
    return manifest.kind.endswith("Route") and bool(parents) and all(_is_gateway(it) for it in parents)


def _is_gateway(parent: dict[str, Any]) -> bool:
    return (parent.get("kind") or "Gateway") in ("Gateway", "ListenerSet")


def _of_gateway_api(manifest: Object, scope: Scope) -> Iterator[Effect]:
    """A route, or a policy, for a Service: at the sidecars of the clients that know it."""
    spec = spec_of(manifest)
    references = items(spec.get("parentRefs")) + items(spec.get("targetRefs"))
    services = [mapping(it) for it in references if not _is_gateway(mapping(it))]
    for service in services:
        name, namespace = str(service.get("name")), str(service.get("namespace") or manifest.namespace)
        host = resolved(name, namespace)
        if host in scope.hosts or name in scope.hosts:
            yield _effect(manifest, Direction.OUTBOUND, host if host in scope.hosts else name)


def _effect(manifest: Object, direction: Direction | None, peer: str | None) -> Effect:
    return Effect(direction, None, peer, Place(manifest, ()), Layer.REQUEST, What.NOT_JUDGED)
