"""Workloads: templates with the pods that were made of them, and how many these are."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.mesh.model import Counting, Presence, Workload, spec_of
from admc.istio.mesh.presence import Injecting, presence
from admc.manifests.documents import Object, Where, at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_ENDED: Final = frozenset(("Succeeded", "Failed"))
_HASH: Final = "pod-template-hash"
_TEMPLATE: Final = ("spec", "template")


class _Key(NamedTuple):
    namespace: str
    kind: str
    name: str


def workloads_of(objects: Sequence[Object], mesh: Injecting) -> tuple[Workload, ...]:
    """All workloads, in the order of their namespaces, kinds and names."""
    templates: dict[_Key, tuple[Object, Where]] = {}
    owners: dict[_Key, _Key] = {}
    pods: dict[_Key, list[Object]] = defaultdict(list)
    for manifest in objects:
        where = _template(manifest)
        if where is None:
            continue
        key = _Key(manifest.namespace, manifest.kind, manifest.name)
        owner = _owner(manifest)
        if manifest.kind == "Pod":
            if at(manifest.data, ("status", "phase")) not in _ENDED:
                pods[owner or key].append(manifest)
        else:
            templates[key] = manifest, where
            if owner is not None:
                owners[key] = owner
    running: dict[_Key, list[Object]] = defaultdict(list)
    for key, made in pods.items():
        running[_top(key, owners, made[0])] += made
    scaled = _scaled(objects)
    named = {key for key in templates if key not in owners or key in running} | running.keys()
    return tuple(_workload(key, templates.get(key), running.get(key, []), scaled, mesh) for key in sorted(named))


def _template(manifest: Object) -> Where | None:
    """The place of the pod template, also in an object of a kind that admc does not know."""
    if manifest.kind == "PodTemplate":
        return None
    if manifest.template is not None:
        return manifest.template
    containers = at(manifest.data, (*_TEMPLATE, "spec", "containers"))
    return _TEMPLATE if isinstance(containers, list) and containers else None


def _owner(manifest: Object) -> _Key | None:
    owners = manifest.metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") and owner.get("kind") != "Node":
            return _Key(manifest.namespace, str(owner.get("kind")), str(owner.get("name")))
    return None


def _top(key: _Key, owners: Mapping[_Key, _Key], pod: Object) -> _Key:
    """The workload that pods belong to in the end: that of their ReplicaSet, or of their Job."""
    if key in owners:
        return owners[key]
    digest = at(pod.data, ("metadata", "labels", _HASH))
    if key.kind == "ReplicaSet" and isinstance(digest, str) and key.name.endswith(f"-{digest}"):
        return _Key(key.namespace, "Deployment", key.name.removesuffix(f"-{digest}"))
    return key


def _scaled(objects: Iterable[Object]) -> dict[_Key, int]:
    """The fewest replicas that an autoscaler leaves to a workload."""
    made = {}
    for manifest in objects:
        if manifest.kind == "HorizontalPodAutoscaler":
            target = at(manifest.data, ("spec", "scaleTargetRef"))
            fewest = spec_of(manifest).get("minReplicas")
            key = _Key(manifest.namespace, str(at(target, ("kind",))), str(at(target, ("name",))))
            made[key] = int(fewest) if isinstance(fewest, int | float) else 1
    return made


def _workload(
    key: _Key, template: tuple[Object, Where] | None, pods: list[Object], scaled: Mapping[_Key, int], mesh: Injecting
) -> Workload:
    presences: list[Presence] = [presence(pod, (), mesh) for pod in pods]
    of, where = template or (pods[0], ())
    own = presences[0] if presences else presence(of, where, mesh)
    if presences:
        replicas, counting = len(presences), Counting.PODS
    else:
        replicas, counting = _replicas(of, scaled.get(key))
    labels = at(of.data, (*where, "metadata", "labels"))
    texts = {str(name): str(value) for name, value in labels.items()} if isinstance(labels, dict) else {}
    return Workload(key.namespace, key.kind, key.name, texts, of, own, tuple(presences), replicas, counting)


def _replicas(manifest: Object, fewest: int | None) -> tuple[int, Counting]:
    if fewest is not None:
        return fewest, Counting.MINIMUM
    spec = spec_of(manifest)
    if manifest.kind == "CronJob":
        spec = _mapping(at(manifest.data, ("spec", "jobTemplate", "spec")))
    for name in ("replicas", "parallelism"):
        number = spec.get(name)
        if isinstance(number, int | float):
            return int(number), Counting.REPLICAS
    return 1, Counting.MINIMUM if manifest.kind in ("DaemonSet", "CronJob") else Counting.REPLICAS


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
