"""Builds the mesh from objects."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from admc.istio.mesh.model import Declaration, Mesh, Proxy, spec_of
from admc.istio.mesh.presence import Injecting
from admc.istio.mesh.revisions import revisions_of, tags_of
from admc.istio.mesh.workloads import workloads_of
from admc.istio.schemas.data import kinds
from admc.manifests.documents import Object, at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics.diagnostic import Diagnostics

_UNDECLARED = frozenset((Declaration.NOTHING, Declaration.HOST_NETWORK, Declaration.SYSTEM_NAMESPACE))


def build(objects: Sequence[Object], findings: Diagnostics, injected: frozenset[str] | None = frozenset()) -> Mesh:
    """The mesh. `injected` has the namespaces of `--injected`; None stands for all."""
    namespaces = {manifest.name: manifest for manifest in objects if _is(manifest, "Namespace")}
    resources: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for manifest in objects:
        if (manifest.group, manifest.kind) in kinds():
            resources[manifest.group, manifest.kind].append(manifest)
    gateways = [at(spec_of(manifest), ("selector",)) for manifest in resources["networking.istio.io", "Gateway"]]
    revisions, tags = revisions_of(objects, findings), tags_of(objects)
    selectors = tuple(selector for selector in gateways if isinstance(selector, dict))
    injecting = Injecting(namespaces, revisions, tags, injected, selectors)
    return Mesh(
        workloads_of(objects, injecting),
        namespaces,
        tuple(manifest for manifest in objects if _is(manifest, "Service")),
        {key: tuple(listed) for key, listed in resources.items() if listed},
        revisions,
        tags,
        {(it.namespace, it.name): it for it in objects if _is(it, "ConfigMap")},
    )


def is_declared(mesh: Mesh) -> bool:
    """Whether any object says which pods have a sidecar. A gateway is a proxy by itself, and says nothing of others."""
    presences = [presence for workload in mesh.workloads for presence in (workload.presence, *workload.pods)]
    return any(it.by not in _UNDECLARED and it.proxy is not Proxy.GATEWAY for it in presences)


def _is(manifest: Object, kind: str) -> bool:
    return manifest.api_version == "v1" and manifest.kind == kind
