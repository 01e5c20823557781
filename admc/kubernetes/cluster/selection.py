"""Which Kubernetes Service each service of a program has, and which pods that Service selects.

    program, Services, Pods, EndpointSlices, Namespaces --changes--> the pods of each service

A pod belongs to its service from its first record until it is gone: also while it is not ready, or terminates. An ADM
has to recognise the requests of a pod for as long as the pod may send any. A pod that is over (`Succeeded`, `Failed`)
belongs to no service: another pod may have its address by then.

A selection is for one program; a program with other services needs a selection of its own. `mismatches` checks whether
the cluster fits the program.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.label_index import LabelIndex
from admc.kubernetes.cluster.records import Key
from emitters.kubernetes import kubernetes_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.kubernetes.cluster.records import Namespace, Pod, Service, Slice
    from dsl.program import Program

NONE: Final[frozenset[str]] = frozenset()


class Selection:
    """The pods of each service. A method that receives a change returns the services that it concerns, by their names
    in the program. The cost of a change of a pod does not grow with the number of pods or services."""

    def __init__(self, program: Program, names: Mapping[str, str] | None = None) -> None:
        """`names` maps a service to the name of its Service, where that is not `kubernetes_name` of the service."""
        self.program = program
        given = names or {}
        self.keys: Mapping[str, Key] = {
            name: Key(service.namespace, given.get(name) or kubernetes_name(name))
            for name, service in program.services.items()
        }
        """Name in the program -> its Service."""
        self._names: dict[Key, tuple[str, ...]] = {}
        for name, key in self.keys.items():
            self._names[key] = (*self._names.get(key, ()), name)
        self._namespaces = frozenset(key.namespace for key in self._names)
        self._expected_on_host = _on_host(program)
        self._index = LabelIndex()
        self._pods: dict[Key, Pod] = {}
        self._of_pod: dict[Key, tuple[Key, ...]] = {}
        """Pod -> the Services of the program that select it."""
        self._services: dict[Key, Service] = {}
        self._others: set[Key] = set()
        """The Services of the program's namespaces that belong to no service of the program."""
        self._slices: defaultdict[Key, dict[Key, Slice]] = defaultdict(dict)
        self._known_namespaces: dict[str, Namespace] = {}
        self._selected: defaultdict[Key, dict[Key, Pod]] = defaultdict(dict)
        """Service -> its pods. The next three have the special pods among them."""
        self._shared: defaultdict[Key, dict[Key, Pod]] = defaultdict(dict)
        self._on_host: defaultdict[Key, dict[Key, Pod]] = defaultdict(dict)
        self._misfits: defaultdict[Key, dict[Key, str]] = defaultdict(dict)

    # ---- the result ----

    def service(self, name: str) -> Service | None:
        return self._services.get(self.keys[name])

    def namespace(self, name: str) -> Namespace | None:
        """The namespace of a service."""
        return self._known_namespaces.get(self.keys[name].namespace)

    def other_services(self, namespace: str) -> frozenset[str]:
        """Return the names of the Services of a namespace that belong to no service of the program."""
        return frozenset(key.name for key in self._others if key.namespace == namespace)

    def pods(self, name: str) -> Mapping[Key, Pod]:
        return self._selected.get(self.keys[name], {})

    def slices(self, name: str) -> Mapping[Key, Slice]:
        """Return the slices of a Service without a selector. Its pods are not known."""
        return self._slices.get(self.keys[name], {})

    def selector(self, name: str) -> Mapping[str, str]:
        """Return the labels by which NetworkPolicies find the pods of a service; empty if there are none."""
        service = self.service(name)
        return {} if service is None else service.selector

    def services_of(self, pod: Key) -> tuple[str, ...]:
        """Return the services that a pod belongs to, sorted. An ADM enforces the policies of one only."""
        return tuple(sorted(name for key in self._of_pod.get(pod, ()) for name in self._names[key]))

    def shared_with(self, name: str) -> tuple[str, ...]:
        """Return the other services with the same Service, or with a pod in common; sorted."""
        key = self.keys[name]
        sharing = {
            *self._names[key],
            *(service for pod in self._shared.get(key, ()) for service in self.services_of(pod)),
        }
        return tuple(sorted(sharing - {name}))

    def has_host_network(self, name: str) -> bool:
        """Whether one of the pods is on the host's network."""
        return bool(self._on_host.get(self.keys[name]))

    def surprises_by_host_network(self, name: str) -> bool:
        """Whether one of the pods is on the host's network, and neither the program nor the plan in force expects
        that."""
        return name not in self._expected_on_host and self.has_host_network(name)

    def misfit(self, name: str) -> str:
        """Return what is wrong with a named port of some pod; empty if all fit."""
        return min(self._misfits.get(self.keys[name], {}).values(), default="")

    # ---- changes ----

    def set_published(self, programs: Collection[Program]) -> frozenset[str]:
        """Set the programs of the published plans, each with the facts of its plan; returns the services that this
        concerns. One of the plans may have been made without a pod on the host's network."""
        before = self._expected_on_host
        declared = {name: [program for program in programs if name in program.services] for name in self.keys}
        on_host = {
            name
            for name, declaring in declared.items()
            if declaring and all(program.services[name].host_network for program in declaring)
        }
        self._expected_on_host = frozenset(on_host | {name for name in _on_host(self.program) if not declared[name]})
        return before ^ self._expected_on_host

    def pod_changed(self, old: Pod | None, new: Pod | None) -> frozenset[str]:
        pod = new or old
        if pod is None or pod.key.namespace not in self._namespaces:
            return NONE
        key = pod.key
        if new is not None and new.is_over:
            new = None
        earlier = self._pods.pop(key, None)
        if new is not None:
            self._pods[key] = new
        if earlier is None or new is None or earlier.labels != new.labels:
            self._index.set_labels(key, None if new is None else new.labels)
            return self._reassign(key, self._index.services(key))
        return self._reassign(key, self._of_pod.get(key, ()))

    def service_changed(self, old: Service | None, new: Service | None) -> frozenset[str]:
        service = new or old
        if service is None or service.key.namespace not in self._namespaces:
            return NONE
        key = service.key
        if key not in self._names:
            (self._others.discard if new is None else self._others.add)(key)
            return NONE
        if new is None:
            self._services.pop(key, None)
        else:
            self._services[key] = new
        before = tuple(self._selected.get(key, ()))
        self._index.set_selector(key, None if new is None else new.selector)
        concerned = frozenset(self._names[key])
        for pod in dict.fromkeys((*before, *self._index.pods(key))):
            concerned |= self._reassign(pod, self._index.services(pod))
        return concerned

    def slice_changed(self, old: Slice | None, new: Slice | None) -> frozenset[str]:
        concerned = NONE
        for slice_, stays in ((old, False), (new, True)):
            owner = None if slice_ is None else Key(slice_.key.namespace, slice_.service)
            if slice_ is not None and owner in self._names:
                self._slices[owner].pop(slice_.key, None)
                if stays:
                    self._slices[owner][slice_.key] = slice_
                concerned |= frozenset(self._names[owner])
        return concerned

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> frozenset[str]:
        namespace = new or old
        if namespace is None or namespace.name not in self._namespaces:
            return NONE
        if new is None:
            self._known_namespaces.pop(namespace.name, None)
        else:
            self._known_namespaces[namespace.name] = new
        return frozenset(name for name, key in self.keys.items() if key.namespace == namespace.name)

    def _reassign(self, key: Key, services: tuple[Key, ...]) -> frozenset[str]:
        """Update the record of a pod and the Services that select it; returns the services that this concerns."""
        before = self._of_pod.pop(key, ())
        for service in before:
            self._selected[service].pop(key, None)
            self._shared[service].pop(key, None)
            self._on_host[service].pop(key, None)
            self._misfits[service].pop(key, None)
        pod = self._pods.get(key)
        if pod is not None and services:
            self._of_pod[key] = services
            for service in services:
                self._add(service, pod, alone=len(services) == 1)
        return frozenset(name for service in {*before, *services} for name in self._names[service])

    def _add(self, key: Key, pod: Pod, *, alone: bool) -> None:
        self._selected[key][pod.key] = pod
        if not alone:
            self._shared[key][pod.key] = pod
        if pod.host_network:
            self._on_host[key][pod.key] = pod
        if wrong := self._wrong_port(key, pod):
            self._misfits[key][pod.key] = wrong

    def _wrong_port(self, key: Key, pod: Pod) -> str:
        """Return what is wrong with a port that the Service finds in the pod by its name; empty if nothing is."""
        targets = {port.number: port.target for port in self._services[key].ports if port.protocol == "TCP"}
        for port in self.program.services[self._names[key][0]].ports:
            target = targets.get(port.number)
            if isinstance(target, str) and pod.ports.get(target) != port.target:
                number = pod.ports.get(target)
                has = f"no container has a port `{target}`" if number is None else f"`{target}` is {number}"
                return f"{has} in a pod, and the target of port {port.number} is {port.target} in the program"
        return ""


def _on_host(program: Program) -> frozenset[str]:
    return frozenset(name for name, service in program.services.items() if service.host_network)
