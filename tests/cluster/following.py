"""A selection that follows a cluster, change by change. Addresses are computed when a test asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.kubernetes.cluster.core import addresses
from admc.kubernetes.cluster.core.addresses import Endpoints
from admc.kubernetes.cluster.core.selection import selection_of
from admc.kubernetes.cluster.core.view import View, with_namespace, with_pod, with_service, with_slice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.core.view import Change
    from admc.kubernetes.cluster.records import Key, Namespace, Pod, Service, Slice
    from dsl.program import Program


class Following:
    """The picture, the selection and the addresses of one program. Each change returns the services it concerns."""

    def __init__(self, program: Program, names: Mapping[str, str] | None = None) -> None:
        self.selection = selection_of(program, names or {}, View())
        self._endpoints = Endpoints()
        self._stale = frozenset(program.services)
        self._moved: frozenset[str] = frozenset()

    @property
    def endpoints(self) -> Endpoints:
        """The addresses as they are now."""
        self._endpoints = addresses.renewed(self._endpoints, self.selection, self._stale, self._moved)
        self._stale = self._moved = frozenset()
        return self._endpoints

    def pods(self, *pods: Pod) -> frozenset[str]:
        return frozenset().union(*(self._take(with_pod(self.selection.view, pod.key, pod)) for pod in pods))

    def services(self, *services: Service) -> frozenset[str]:
        return frozenset().union(*(self._take(with_service(self.selection.view, made.key, made)) for made in services))

    def slices(self, *slices: Slice) -> frozenset[str]:
        return frozenset().union(*(self._take(with_slice(self.selection.view, made.key, made)) for made in slices))

    def pod_gone(self, key: Key) -> frozenset[str]:
        return self._take(with_pod(self.selection.view, key, None))

    def service_gone(self, key: Key) -> frozenset[str]:
        return self._take(with_service(self.selection.view, key, None))

    def slice_gone(self, key: Key) -> frozenset[str]:
        return self._take(with_slice(self.selection.view, key, None))

    def namespace(self, namespace: Namespace) -> None:
        self._take(with_namespace(self.selection.view, namespace.name, namespace))

    def rest_on(self, *programs: Program) -> frozenset[str]:
        """Plans of these programs are published. Returns the services for which that makes a difference."""
        before, self.selection = self.selection.on_host, self.selection.resting_on(programs)
        self._stale |= before ^ self.selection.on_host
        return before ^ self.selection.on_host

    def _take(self, change: Change) -> frozenset[str]:
        self.selection = self.selection.at(change.view)
        self._moved |= self._endpoints.moved(change.addresses)
        names = self.selection.concerned(change.services)
        self._stale |= names
        return names
