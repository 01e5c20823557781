"""Which workloads the selector of a resource selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admc.istio.mesh.model import Workload, spec_of
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.manifests.documents import Object, Where

MATCH_LABELS = ("selector", "matchLabels")
WORKLOAD_LABELS = ("workloadSelector", "labels")
WORKLOAD_MATCH_LABELS = ("workloadSelector", "matchLabels")


def selector(manifest: Object, where: Where) -> Mapping[str, Any]:
    labels = at(spec_of(manifest), where)
    return labels if isinstance(labels, dict) else {}


def has_labels(workload: Workload, labels: Mapping[str, Any]) -> bool:
    """Whether a workload has all of some labels. No labels select every workload."""
    return all(workload.labels.get(key) == value for key, value in labels.items())


def targets(manifest: Object) -> bool:
    """Whether a resource names what it is attached to: gateways and waypoints, and never a sidecar."""
    spec = spec_of(manifest)
    return bool(spec.get("targetRefs") or spec.get("targetRef"))


def attached(manifest: Object, workload: Workload, root: str, where: Where = MATCH_LABELS) -> bool:
    """Whether a policy with a selector is attached to a sidecar: one of the root namespace selects in all others."""
    if targets(manifest) or manifest.namespace not in (workload.namespace, root):
        return False
    return has_labels(workload, selector(manifest, where))


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
