"""Which Kubernetes Service each service of a program has, and which pods that Service selects.

    program, names of Services, View --> the pods of each service

A pod belongs to its service from its first record until it is gone: also while it is not ready, or terminates. An ADM
has to recognise the requests of a pod for as long as the pod may send any. A pod that is over (`Succeeded`, `Failed`)
belongs to no service: another pod may have its address by then.

A selection is immutable, and belongs to one program and one picture of the cluster. `mismatches` checks whether the
cluster fits the program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from admc.kubernetes.cluster.records import Key
from emitters.kubernetes import kubernetes_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from admc.kubernetes.cluster.core.view import View
    from admc.kubernetes.cluster.records import Namespace, Pod, Service, Slice
    from dsl.program import Program


@dataclass(frozen=True, slots=True)
class Selection:
    """The pods of each service of a program."""

    program: Program
    keys: Mapping[str, Key]
    """Name in the program -> its Service."""
    names: Mapping[Key, tuple[str, ...]]
    """Service -> its names in the program."""
    on_host: frozenset[str]
    """The services that the plans in force expect to have pods on the host's network."""
    view: View

    # ---- what a service has ----

    def service(self, name: str) -> Service | None:
        """Return the Service of a service; None if it is absent, or admc does not use its selector."""
        service = self.view.services.get(self.keys[name])
        return None if service is None or service.unusable else service

    def unusable(self, name: str) -> str:
        """Return why admc does not use the selector of a service's Service; empty if it does, or there is none."""
        service = self.view.services.get(self.keys[name])
        return "" if service is None else service.unusable

    def namespace(self, name: str) -> Namespace | None:
        """The namespace of a service."""
        return self.view.namespaces.get(self.keys[name].namespace)

    def pods(self, name: str) -> Mapping[Key, Pod]:
        return self.view.group(self.keys[name]).pods

    def slices(self, name: str) -> Mapping[Key, Slice]:
        """Return the EndpointSlices of a service's Service, also of one with a selector."""
        return self.view.slices_of(self.keys[name])

    def selector(self, name: str) -> Mapping[str, str]:
        """Return the labels by which NetworkPolicies find the pods of a service; empty if there are none."""
        service = self.service(name)
        return {} if service is None else service.selector

    def services_of(self, pod: Key) -> tuple[str, ...]:
        """Return the services that a pod belongs to, sorted. An ADM enforces the policies of one only."""
        keys = self.view.selecting.get(pod) or ()
        return tuple(sorted(name for key in keys for name in self.names.get(key, ())))

    def shared_with(self, name: str) -> tuple[str, ...]:
        """Return the other services with the same Service, or with a pod in common; sorted."""
        key = self.keys[name]
        others = {other for shared in (key, *self.view.group(key).shared) for other in self.names.get(shared, ())}
        return tuple(sorted(others - {name}))

    def surprises_by_host_network(self, name: str) -> bool:
        """Whether one of the pods is on the host's network, and neither the program nor the plan in force expects
        that."""
        return name not in self.on_host and self.view.group(self.keys[name]).on_host > 0

    def misfit(self, name: str) -> str:
        """Return what is wrong with a port that the Service finds by its name in some pod; empty if all pods fit."""
        service = self.service(name)
        named = (
            {} if service is None else {port.number: port.target for port in service.ports if port.protocol == "TCP"}
        )
        faults = (
            _wrong_port(pod, target, port.number, port.target)
            for port in self.program.services[name].ports
            if isinstance(target := named.get(port.number), str)
            for pod in self.pods(name).values()
        )
        return min(filter(None, faults), default="")

    def other_services(self, namespace: str) -> frozenset[str]:
        """Return the names of the Services of a namespace that belong to no service of the program."""
        services = self.view.services
        return frozenset(key.name for key in services if key.namespace == namespace and key not in self.names)

    # ---- another picture, other plans ----

    def at(self, view: View) -> Selection:
        return Selection(self.program, self.keys, self.names, self.on_host, view)

    def concerned(self, services: Iterable[Key]) -> frozenset[str]:
        """Return the services of the program that have one of these Services."""
        return frozenset(name for key in services for name in self.names.get(key, ()))

    def within(self, namespace: str) -> frozenset[str]:
        """Return the services of a namespace."""
        return frozenset(name for name, key in self.keys.items() if key.namespace == namespace)

    def resting_on(self, programs: Collection[Program]) -> Selection:
        """Return the selection for the time in which plans of these programs are published, each with the facts that it
        was made with. One of the plans may have been made without a pod on the host's network."""
        declared = {name: [program for program in programs if name in program.services] for name in self.keys}
        known = {
            name
            for name, having in declared.items()
            if having and all(program.services[name].host_network for program in having)
        }
        undeclared = {name for name in _on_host(self.program) if not declared[name]}
        return replace(self, on_host=frozenset(known | undeclared))


def selection_of(program: Program, names: Mapping[str, str], view: View) -> Selection:
    """Return the selection of a program. `names` has the Service of each service whose Service does not have its name
    (`kubernetes_name`)."""
    keys = {
        name: Key(service.namespace, names.get(name) or kubernetes_name(name))
        for name, service in program.services.items()
    }
    services: dict[Key, tuple[str, ...]] = {}
    for name, key in keys.items():
        services[key] = (*services.get(key, ()), name)
    return Selection(program, keys, services, _on_host(program), view)


def _on_host(program: Program) -> frozenset[str]:
    return frozenset(name for name, service in program.services.items() if service.host_network)


def _wrong_port(pod: Pod, target: str, number: int, declared: int) -> str:
    """Return what is wrong with the container port of this name; empty if nothing is."""
    port = pod.ports.get(target)
    if port == declared:
        return ""
    has = f"no container has a port `{target}`" if port is None else f"`{target}` is {port}"
    return f"{has} in a pod, and the target of port {number} is {declared} in the program"
