"""Which service of the program a pod template belongs to.

In Kubernetes, the pods of a service are those that its Service selects, and `InjectionSpec` has these selectors.
Without a cluster, the Services in the given manifests have them. For a service without one there, the labels of its
pods in the program stand in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.inject.model import PodNeeds, TemplateFinding
from admc.kubernetes.inject.needs import resources_of
from admc.kubernetes.inject.selectors import Selected, selected
from admc.kubernetes.inject.spec import ServiceInjection, injection_spec, services_of
from admc.manifests.documents import at
from dsl.diagnostics.diagnostic import Severity
from emitters.interception.pod import PodCaptures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from admc.kubernetes.inject.needs import Estimate
    from admc.kubernetes.inject.plan_rows import PlanRows
    from admc.kubernetes.inject.spec import InjectionSpec
    from admc.manifests.documents import Object

_NAMED: Final = 3
"""Services that a finding names."""
_ANYWHERE: Final = ""
"""Stands for the namespace in an index of all namespaces."""


def needs_of(spec: InjectionSpec, name: str) -> PodNeeds:
    """Return what the pods of a service need."""
    row = spec.services[name]
    captures = None
    if row.captures is not None:
        captures = PodCaptures(frozenset(row.captures.ingress), frozenset(row.captures.egress))
    return PodNeeds(f"{spec.app}/{name}", captures, row.waits, row.resources)


def service_of(spec: InjectionSpec | None, labels: Mapping[str, Any]) -> str | TemplateFinding | None:
    """Return the service of a template with these labels; None if it belongs to no service, and a finding if it belongs
    to several."""
    matching = () if spec is None else services_of(spec, _texts(labels))
    if len(matching) < 2:
        return matching[0] if matching else None
    names = " and ".join(f"`{name}`" for name in matching[:_NAMED])
    more = f" and {len(matching) - _NAMED} more" if len(matching) > _NAMED else ""
    return TemplateFinding(
        "ADM926",
        Severity.ERROR,
        f"its pods are those of {names}{more}",
        ("metadata", "labels"),
        "a pod is of one service: an ADM enforces the policies of one, and where another one needs the wait alone, the "
        "server does not know whose address the pod has",
        "give the pod the labels of one service, or declare one service with the ports of both",
    )


def _texts(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return labels as the API server has them."""
    return {str(key): str(value) for key, value in labels.items()}


def is_service(manifest: Object) -> bool:
    return manifest.kind == "Service" and manifest.data.get("apiVersion") == "v1"


def selector_of(service: Object) -> Mapping[str, Any]:
    """Return the selector of a Kubernetes Service; empty if it has none."""
    selector = at(service.data, ("spec", "selector"))
    return selector if isinstance(selector, dict) else {}


def pods_of(service: Object) -> Selected:
    """Return which pods are those of a Kubernetes Service."""
    annotations = at(service.data, ("metadata", "annotations"))
    return selected(_texts(selector_of(service)), _texts(annotations if isinstance(annotations, dict) else {}))


class Services:
    """The services of a program, found by the selectors and labels of their pods in manifests."""

    def __init__(
        self, plan: PlanRows, manifests: Iterable[Object], server: str, estimates: Mapping[str, Estimate] | None = None
    ) -> None:
        """`server` is the address of the xDS server, as pods dial it."""
        manifests, rows = list(manifests), plan.services
        self._names = {(row.namespace, row.object): name for name, row in rows.items()}
        self._objects = {row.object: (name, row.namespace) for name, row in rows.items()}
        selected = {
            name: pods_of(manifest).pods for manifest in manifests if (name := self.named(manifest)) is not None
        }
        selectors = {name: selected.get(name, row.labels) for name, row in rows.items()}
        self._all_by_labels = _Index((row.namespace, name, row.labels) for name, row in rows.items())
        self._anywhere = _Index((_ANYWHERE, name, selectors[name] or row.labels) for name, row in rows.items())
        self.plan = plan
        by_namespace: dict[str, dict[str, ServiceInjection]] = {}
        for name, row in rows.items():
            if selectors[name]:  # a Service without a selector selects nothing
                resources = resources_of((estimates or {}).get(name), None)
                service = ServiceInjection(selectors[name], row.needs.waits, resources, row.needs.captures)
                by_namespace.setdefault(row.namespace, {})[name] = service
        self.injections = {
            namespace: injection_spec(plan.app, server, rows) for namespace, rows in by_namespace.items()
        }
        """Namespace -> what the pods of its services need; those that need nothing are there, too."""
        self._selected_by = self._other_services(manifests)

    def named(self, manifest: Object) -> str | None:
        """Return the service of the program whose Kubernetes Service an object is."""
        return self.known_as(manifest.namespace, manifest.name) if is_service(manifest) else None

    def known_as(self, namespace: str, name: str) -> str | None:
        """Return the service of the program whose Kubernetes Service has this name."""
        return self._names.get((namespace, name))

    def of(self, namespace: str, labels: Mapping[str, Any]) -> str | TemplateFinding | None:
        """Return what `service_of` returns, for a template of this namespace."""
        return service_of(self.injections.get(namespace), labels)

    def by_labels(self, namespace: str, labels: Mapping[str, Any]) -> list[str]:
        """Return the services whose labels in the program a template has, sorted; whatever their Services select."""
        return self._all_by_labels.selecting(namespace, labels)

    def elsewhere(self, labels: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return a service that a template with these labels would belong to, in the namespace of that service, and the
        namespace."""
        services = self._anywhere.selecting(_ANYWHERE, labels)
        return (services[0], self.plan.services[services[0]].namespace) if services else None

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
