"""The hosts that a name in a text or in a metric may stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from admc.istio.in_force.hosts import is_wild, resolved
from admc.istio.in_force.selection import has_labels, items, selector
from admc.istio.mesh.model import spec_of
from admc.istio.mesh.references import DOMAIN, NETWORKING

if TYPE_CHECKING:
    from admc.istio.mesh.model import Mesh, Workload

_OF_A_POD: Final = re.compile(r".*-[0-9]+")


class HostNames:
    """The hosts that resources are about: those of Services, ServiceEntries and VirtualServices."""

    def __init__(self, mesh: Mesh) -> None:
        self._services = {f"{it.name}.{it.namespace}.svc.{DOMAIN}": it for it in mesh.services}
        written = {
            resolved(str(name), it.namespace)
            for kind in ("ServiceEntry", "VirtualService")
            for it in mesh.of_kind(NETWORKING, kind)
            for name in items(spec_of(it).get("hosts"))
        }
        self._names = written | self._services.keys()
        # Without `*` itself, which no sidecar has as a host.
        self._ends = frozenset(name[1:] for name in written if is_wild(name)) - {""}

    def of(self, name: str, namespace: str) -> Iterator[str]:
        """Yield the hosts that a name in lower case stands for in a pod of a namespace."""
        yield from [host for host in dict.fromkeys(_full_names(name, namespace)) if host in self._names][:1]
        if self._ends:
            yield from (f"*{name[start:]}" for start in range(1, len(name)) if name[start:] in self._ends)

    def is_own(self, workload: Workload, host: str) -> bool:
        """Whether a workload is behind a Service."""
        service = self._services.get(host)
        if service is None or service.namespace != workload.namespace:
            return False
        labels = selector(service, ("selector",))
        return bool(labels) and has_labels(workload, labels)


def _full_names(name: str, namespace: str) -> Iterator[str]:
    """The hosts that a name may stand for, in the order in which a pod would take them."""
    yield name
    parts = name.removesuffix(f".svc.{DOMAIN}").removesuffix(".svc").split(".")
    if len(parts) <= 2:
        yield _service(parts, namespace)
    if len(parts) > 1 and _OF_A_POD.fullmatch(parts[0]):
        yield _service(parts[1:], namespace)  # the pod of a StatefulSet


def _service(parts: list[str], namespace: str) -> str:
    short, *rest = parts
    return f"{short}.{'.'.join(rest) or namespace}.svc.{DOMAIN}"
