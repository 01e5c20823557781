"""Which workloads the selector of a resource selects."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from admc.istio.mesh.model import Workload, spec_of
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.manifests.documents import Object, Where

Value = TypeVar("Value")
Label = tuple[str, str]

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


# ---- indexes: a mesh has thousands of selectors and of workloads, and few of them have a label in common ----


class Selecting(Generic[Value]):
    """Values with a selector each, by a label that a workload has to have."""

    def __init__(self, selecting: Iterable[tuple[str, Mapping[str, Any], Value]]) -> None:
        """`selecting` has namespace, selector and value."""
        self._made: dict[tuple[str, Label | None], list[tuple[int, Value]]] = defaultdict(list)
        for position, (namespace, labels, value) in enumerate(selecting):
            self._made[namespace, next(_texts(labels), None)].append((position, value))

    def near(self, labels: Mapping[str, str], *namespaces: str) -> list[Value]:
        """The values of some namespaces that may select a workload, in their order. No others do."""
        asked: tuple[Label | None, ...] = (None, *labels.items())
        near = [it for name in dict.fromkeys(namespaces) for label in asked for it in self._made.get((name, label), ())]
        return [value for _, value in sorted(near, key=lambda it: it[0])]


class Labelled(Generic[Value]):
    """Values with labels, such as workloads, by each of these."""

    def __init__(self, labelled: Iterable[tuple[str, Mapping[str, Any], Value]]) -> None:
        """`labelled` has namespace, labels and value."""
        self._all: dict[str, list[Value]] = defaultdict(list)
        self._made: dict[tuple[str, Label], list[Value]] = defaultdict(list)
        for namespace, labels, value in labelled:
            self._all[namespace].append(value)
            for label in _texts(labels):
                self._made[namespace, label].append(value)

    def near(self, selector_: Mapping[str, Any], namespace: str) -> list[Value]:
        """The values of a namespace that a selector may select, in their order. It selects no others."""
        asked = [self._made.get((namespace, label), []) for label in _texts(selector_)]
        return min(asked, key=len) if asked else self._all.get(namespace, [])


def _texts(labels: Mapping[str, Any]) -> Iterator[Label]:
    """Labels with a text. A selector may have null, which a workload without the label has."""
    return ((key, value) for key, value in labels.items() if isinstance(value, str))
