"""Which service of the program a pod template is.

Kubernetes itself goes by Services: the pods of a service are those that its Service selects. So the Services in the
given manifests decide. For a service without one there, the labels of its pods in the program do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admc.inject.model import Finding, Wanted
from dsl.diagnostics.diagnostic import Severity
from emitters.interception.pod import PodCaptures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.inject.manifests import Object
    from admc.serve.observe.injection import InjectionDocument, ServiceRow


def wanted(document: InjectionDocument, name: str) -> Wanted:
    """What the pods of a service are to have."""
    row = document.services[name]
    found = row.captures
    captures = None if found is None else PodCaptures(frozenset(found.ingress), frozenset(found.egress))
    return Wanted(f"{document.app}/{name}", captures, waits=row.awaited)


class Services:
    """The services of a program by what selects their pods."""

    def __init__(self, rows: Mapping[str, ServiceRow], manifests: Iterable[Object]) -> None:
        selected = dict(_selectors(rows, manifests))
        self._by_service = _Index((rows[name].namespace, name, labels) for name, labels in selected.items())
        self._by_labels = _Index(
            (row.namespace, name, row.labels) for name, row in rows.items() if name not in selected
        )

    def of(self, namespace: str, labels: Mapping[str, Any]) -> str | Finding | None:
        """The service of a template with these labels; None if it is of no service."""
        found = self._by_service.selecting(namespace, labels) or self._by_labels.selecting(namespace, labels)
        if len(found) < 2:
            return found[0] if found else None
        names = " and ".join(f"`{name}`" for name in found[:3])
        return Finding(
            "ADM926",
            Severity.ERROR,
            f"its pods are those of {names}",
            ("metadata", "labels"),
            "a pod is of one service: with two, each would have an ADM of its own in it",
            "give each service pods of its own, or declare one service with the ports of both",
        )


def _selectors(rows: Mapping[str, ServiceRow], manifests: Iterable[Object]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Service of the program -> the selector of its Kubernetes Service in the manifests; empty if that has none."""
    names = {(row.namespace, row.object): name for name, row in rows.items()}
    for each in manifests:
        name = names.get((each.namespace, each.name))
        if name is not None and each.kind == "Service" and each.data.get("apiVersion") == "v1":
            spec = each.data.get("spec")
            selector = spec.get("selector") if isinstance(spec, dict) else None
            yield name, selector if isinstance(selector, dict) else {}


class _Index:
    """Selectors by one of their labels: there are thousands of services, and of templates."""

    def __init__(self, selectors: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        self._found: dict[tuple[str, str, str], list[tuple[str, Mapping[str, Any]]]] = {}
        for namespace, name, labels in selectors:
            if labels:  # a Service without a selector selects nothing
                key = min(labels)
                self._found.setdefault((namespace, key, str(labels[key])), []).append((name, labels))

    def selecting(self, namespace: str, labels: Mapping[str, Any]) -> list[str]:
        """The services whose pods have these labels, sorted."""
        near = (item for key, value in labels.items() for item in self._found.get((namespace, key, str(value)), ()))
        return sorted(name for name, wanted in near if wanted.items() <= labels.items())
