"""The namespaces that see a VirtualService."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.istio.in_force.registry import exported_to, is_exported
from admc.istio.in_force.selection import items
from admc.istio.mesh.model import spec_of

if TYPE_CHECKING:
    from admc.istio.in_force.view import View
    from admc.manifests.documents import Object


def exports_of_route(view: View, virtual_service: Object) -> frozenset[str]:
    otherwise = view.configuration.exports.virtual_services
    return exported_to(items(spec_of(virtual_service).get("exportTo")), virtual_service.namespace, otherwise)


def is_seen(view: View, virtual_service: Object, namespace: str) -> bool:
    return is_exported(exports_of_route(view, virtual_service), namespace)
