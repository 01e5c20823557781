"""An index of which Services select which pods, by labels. The cost of a change does not grow with the number of
either.

A Service is found by one label of its selector, and a pod by each of its labels.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.records import Key

_Label = tuple[str, str, str]
"""Namespace, name and value."""


class LabelIndex:
    """Selectors and labels as they are at present. A Service selects pods of its own namespace only."""

    def __init__(self) -> None:
        self._labels: dict[Key, Mapping[str, str]] = {}
        self._pods: defaultdict[_Label, set[Key]] = defaultdict(set)
        self._selectors: dict[Key, Mapping[str, str]] = {}
        self._services: defaultdict[_Label, set[Key]] = defaultdict(set)
        """Label -> the Services that are found by it."""
        self._found_by: dict[Key, _Label] = {}

    def set_labels(self, pod: Key, labels: Mapping[str, str] | None) -> None:
        """Set the labels of a pod; None if the pod is gone."""
        for item in self._labels.pop(pod, {}).items():
            _discard(self._pods, (pod.namespace, *item), pod)
        if labels is not None:
            self._labels[pod] = labels
            for item in labels.items():
                self._pods[pod.namespace, *item].add(pod)

    def set_selector(self, service: Key, selector: Mapping[str, str] | None) -> None:
        """Set the selector of a Service. None, or an empty one, selects no pods."""
        self._selectors.pop(service, None)
        if service in self._found_by:
            _discard(self._services, self._found_by.pop(service), service)
        if selector:
            labels = [(service.namespace, *item) for item in sorted(selector.items())]
            # The label by which the fewest Services are found: all Services may have another label of the selector.
            label = min(labels, key=lambda label: len(self._services.get(label, ())))
            self._selectors[service] = selector
            self._services[label].add(service)
            self._found_by[service] = label

    def services(self, pod: Key) -> tuple[Key, ...]:
        """Return the Services that select a pod, sorted."""
        labels = self._labels.get(pod, {}).items()
        candidates = {key for item in labels for key in self._services.get((pod.namespace, *item), ())}
        return tuple(sorted(key for key in candidates if self._selectors[key].items() <= labels))

    def pods(self, service: Key) -> frozenset[Key]:
        """Return the pods that a Service selects."""
        selector = self._selectors.get(service)
        if not selector:
            return frozenset()
        sets = [self._pods.get((service.namespace, *item), set()) for item in selector.items()]
        return frozenset(set.intersection(*sorted(sets, key=len)))


def _discard(index: defaultdict[_Label, set[Key]], label: _Label, key: Key) -> None:
    index[label].discard(key)
    if not index[label]:
        del index[label]
