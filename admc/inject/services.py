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
    from collections.abc import Iterable, Mapping

    from admc.inject.manifests import Object
    from admc.serve.observe.injection import InjectionDocument, ServiceRow

Selectors = dict[str, dict[str, Any] | None]
"""Service of the program -> the selector of its Kubernetes Service in the manifests; None: that has none."""


def wanted(document: InjectionDocument, name: str) -> Wanted:
    """What the pods of a service are to have."""
    row = document.services[name]
    found = row.captures
    captures = None if found is None else PodCaptures(frozenset(found.ingress), frozenset(found.egress))
    return Wanted(f"{document.app}/{name}", captures, waits=row.awaited)


def selectors(found: Iterable[Object], rows: Mapping[str, ServiceRow]) -> Selectors:
    names = {(row.namespace, row.object): name for name, row in rows.items()}
    selected: Selectors = {}
    for each in found:
        name = names.get((each.namespace, each.name))
        if name is not None and each.kind == "Service" and each.data.get("apiVersion") == "v1":
            spec = each.data.get("spec")
            selector = spec.get("selector") if isinstance(spec, dict) else None
            selected[name] = selector if isinstance(selector, dict) and selector else None
    return selected


def service_of(
    namespace: str, labels: Mapping[str, Any], rows: Mapping[str, ServiceRow], selected: Selectors
) -> str | Finding | None:
    """The service of a template with these labels; None if it is of no service."""
    inside = [name for name in sorted(rows) if rows[name].namespace == namespace]
    found = [name for name in inside if (wanted := selected.get(name)) and _selects(wanted, labels)]
    if not found:
        found = [name for name in inside if name not in selected and _selects(rows[name].labels, labels)]
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


def _selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
