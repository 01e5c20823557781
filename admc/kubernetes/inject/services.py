"""Which service of the program a pod template belongs to.

In Kubernetes, the pods of a service are those that its Service selects. So the Services in the given manifests decide.
For a service without one there, the labels of its pods in the program decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.manifests import at
from admc.kubernetes.inject.model import PodNeeds, TemplateFinding
from dsl.diagnostics.diagnostic import Severity
from emitters.interception.pod import PodCaptures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from admc.kubernetes.inject.manifests import Object
    from admc.serve.observe.injection import InjectionDocument, ServiceRow

_ANYWHERE: Final = ""
"""Stands for the namespace in an index of all namespaces."""


def needs_of(document: InjectionDocument, name: str) -> PodNeeds:
    """Return what the pods of a service need."""
    row = document.services[name]
    captured = row.captures
    captures = None if captured is None else PodCaptures(frozenset(captured.ingress), frozenset(captured.egress))
    return PodNeeds(f"{document.app}/{name}", captures, waits=row.awaited)


def is_service(manifest: Object) -> bool:
    return manifest.kind == "Service" and manifest.data.get("apiVersion") == "v1"


def selector_of(service: Object) -> Mapping[str, Any]:
    """Return the selector of a Kubernetes Service; empty if it has none."""
    spec = service.data.get("spec")
    selector = spec.get("selector") if isinstance(spec, dict) else None
    return selector if isinstance(selector, dict) else {}


class Services:
    """The services of a program, found by the selectors and labels of their pods."""

    def __init__(self, rows: Mapping[str, ServiceRow], manifests: Iterable[Object]) -> None:
        manifests = list(manifests)
        self._names = {(row.namespace, row.object): name for name, row in rows.items()}
        self._objects = {row.object: (name, row.namespace) for name, row in rows.items()}
        selected = {name: selector_of(manifest) for manifest in manifests if (name := self.named(manifest)) is not None}
        self._by_service = _Index((rows[name].namespace, name, labels) for name, labels in selected.items())
        self._by_labels = _Index(
            (row.namespace, name, row.labels) for name, row in rows.items() if name not in selected
        )
        self._all_by_labels = _Index((row.namespace, name, row.labels) for name, row in rows.items())
        self._anywhere = _Index((_ANYWHERE, name, selected.get(name) or row.labels) for name, row in rows.items())
        self._rows = rows
        self._selected_by = self._other_services(manifests)

    def named(self, manifest: Object) -> str | None:
        """Return the service of the program whose Kubernetes Service an object is."""
        return self.known_as(manifest.namespace, manifest.name) if is_service(manifest) else None

    def known_as(self, namespace: str, name: str) -> str | None:
        """Return the service of the program whose Kubernetes Service has this name."""
        return self._names.get((namespace, name))

    def of(self, namespace: str, labels: Mapping[str, Any]) -> str | TemplateFinding | None:
        """Return the service of a template with these labels; None if it belongs to no service, and a finding if it
        belongs to several."""
        matching = self._by_service.selecting(namespace, labels) or self._by_labels.selecting(namespace, labels)
        if len(matching) < 2:
            return matching[0] if matching else None
        names = " and ".join(f"`{name}`" for name in matching[:3])
        return TemplateFinding(
            "ADM926",
            Severity.ERROR,
            f"its pods are those of {names}",
            ("metadata", "labels"),
            "a pod is of one service: with two, each would have an ADM of its own in it",
            "give each service pods of its own, or declare one service with the ports of both",
        )

    def by_labels(self, namespace: str, labels: Mapping[str, Any]) -> list[str]:
        """Return the services whose labels in the program a template has, sorted; whatever their Services select."""
        return self._all_by_labels.selecting(namespace, labels)

    def elsewhere(self, labels: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return a service that a template with these labels would belong to, in the namespace of that service, and the
        namespace."""
        services = self._anywhere.selecting(_ANYWHERE, labels)
        return (services[0], self._rows[services[0]].namespace) if services else None

    def named_elsewhere(self, manifest: Object) -> tuple[str, str] | None:
        """Return the service whose Kubernetes Service an object would be in the namespace of that service, and the
        namespace. None if the object is such a Service in its own namespace."""
        is_one = is_service(manifest) and self.named(manifest) is None
        return self._objects.get(manifest.name) if is_one else None

    def selected_by(self, service: Object) -> Sequence[str]:
        """Return the services of the program, sorted, with a template that another Kubernetes Service selects."""
        return sorted(self._selected_by.get(id(service), ()))

    def _other_services(self, manifests: list[Object]) -> Mapping[int, set[str]]:
        others = [manifest for manifest in manifests if is_service(manifest) and self.named(manifest) is None]
        selecting = _Index(
            (manifest.namespace, str(index), selector_of(manifest)) for index, manifest in enumerate(others)
        )
        selected: dict[int, set[str]] = {}
        for labels, namespace in _templates(manifests):
            service = self.of(namespace, labels) if others else None
            if isinstance(service, str):
                for position in selecting.selecting(namespace, labels):
                    selected.setdefault(id(others[int(position)]), set()).add(service)
        return selected


def _templates(manifests: Iterable[Object]) -> Iterator[tuple[Mapping[str, Any], str]]:
    for manifest in manifests:
        if manifest.template is not None:
            labels = at(manifest.data, (*manifest.template, "metadata", "labels"))
            yield labels if isinstance(labels, dict) else {}, manifest.namespace


class _Index:
    """Selectors, found by one of their labels: there are thousands of services and of templates."""

    def __init__(self, selectors: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        self._selectors: dict[tuple[str, str, str], list[tuple[str, Mapping[str, Any]]]] = {}
        for namespace, name, labels in selectors:
            if labels:  # a Service without a selector selects nothing
                key = min(labels)
                self._selectors.setdefault((namespace, key, str(labels[key])), []).append((name, labels))

    def selecting(self, namespace: str, labels: Mapping[str, Any]) -> list[str]:
        """Return the services whose pods have these labels, sorted."""
        near = (item for key, value in labels.items() for item in self._selectors.get((namespace, key, str(value)), ()))
        return sorted(name for name, selector in near if selector.items() <= labels.items())
