"""The hosts that sidecars know: Services and ServiceEntries, with their ports and the workloads behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.in_force.hosts import resolved
from admc.istio.in_force.protocols import Protocol, named_protocol, protocol_of
from admc.istio.in_force.selection import WORKLOAD_LABELS, Labelled, has_labels, items, mapping, selector
from admc.istio.mesh.model import Mesh, Proxy, Workload, spec_of
from admc.istio.mesh.references import DOMAIN, NETWORKING
from admc.manifests.documents import Object, at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

EXPORT_TO: Final = "networking.istio.io/exportTo"
PUBLIC: Final = "*"
OWN: Final = "."
HIDDEN: Final = "~"
HEADLESS: Final = "None"
"""The address of a Service whose name stands for its pods."""
_TLS_MODE: Final = "security.istio.io/tlsMode"


class Port(NamedTuple):
    number: int
    protocol: Protocol
    target: int | str
    """The port of the pods, by number or by the name of a container's port."""


class Host(NamedTuple):
    """A host by its full name, as one namespace has it."""

    name: str
    namespace: str
    ports: tuple[Port, ...]
    object: Object
    exported: frozenset[str]
    """The namespaces that see it; `*` for all."""
    workloads: tuple[Workload, ...]
    """Those that answer for it."""
    is_external: bool
    """Whether it lies outside of the mesh."""
    all_have_sidecars: bool
    """Whether each of its endpoints has a sidecar."""

    def is_seen(self, namespace: str) -> bool:
        return is_exported(self.exported, namespace)

    @property
    def is_service(self) -> bool:
        return self.object.kind == "Service"


class Exports(NamedTuple):
    """The namespaces that see a resource which does not say it."""

    hosts: tuple[str, ...]
    virtual_services: tuple[str, ...]
    destination_rules: tuple[str, ...]


def exported_to(names: Iterable[Any], namespace: str, otherwise: Iterable[str]) -> frozenset[str]:
    """The namespaces that see a resource, with its own by its name. None with `~`."""
    made = {str(name).strip() for name in names} or set(otherwise)
    if PUBLIC in made:
        return frozenset((PUBLIC,))
    if HIDDEN in made:
        return frozenset()
    return frozenset(namespace if name == OWN else name for name in made)


def is_exported(exported: frozenset[str], namespace: str) -> bool:
    return PUBLIC in exported or namespace in exported


def hosts_of(mesh: Mesh, entries: Iterable[Object], exports: Exports) -> tuple[Host, ...]:
    """Each host once for each namespace that has it: the older one first."""
    workloads = Labelled((it.namespace, it.labels, it) for it in mesh.workloads)
    machines = Labelled(
        (it.namespace, mapping(spec_of(it).get("labels")), it) for it in mesh.of_kind(NETWORKING, "WorkloadEntry")
    )
    made: dict[tuple[str, str], Host] = {}
    for service in sorted(mesh.services, key=age):
        host = _of_service(service, workloads, machines, exports)
        made[host.name, host.namespace] = host
    for entry in entries:
        for host in _of_entry(entry, workloads, machines, exports):
            made.setdefault((host.name, host.namespace), host)
    return tuple(made.values())


def age(manifest: Object) -> tuple[str, str, str]:
    """The order by which Istio prefers the older of two resources."""
    return manifest.created or "", manifest.name, manifest.namespace


def _of_service(service: Object, workloads: Labelled[Workload], machines: Labelled[Object], exports: Exports) -> Host:
    spec = spec_of(service)
    labels = mapping(spec.get("selector"))
    # A Service without an address has pods alone.
    beside = None if spec.get("clusterIP") == HEADLESS else machines
    answering, others = _endpoints(labels, service.namespace, workloads, beside)
    annotation = str(at(service.metadata, ("annotations", EXPORT_TO)) or "")
    name = f"{service.name}.{service.namespace}.svc.{DOMAIN}"
    exported = exported_to(annotation.split(",") if annotation else (), service.namespace, exports.hosts)
    external = spec.get("type") == "ExternalName" and bool(spec.get("externalName"))
    ports = tuple(_ports(spec))
    complete = bool(answering or others) and _have_sidecars(answering) and all(map(_has_proxy, others))
    return Host(name, service.namespace, ports, service, exported, answering, external, complete)


def _ports(spec: Mapping[str, Any]) -> Iterator[Port]:
    for port in items(spec.get("ports")):
        number = at(port, ("port",))
        if not isinstance(number, int):
            continue
        name, transport = str(at(port, ("name",)) or ""), str(at(port, ("protocol",)) or "TCP")
        protocol = protocol_of(number, name, transport, at(port, ("appProtocol",)))
        yield Port(number, protocol, at(port, ("targetPort",)) or number)


def _of_entry(
    entry: Object, workloads: Labelled[Workload], machines: Labelled[Object], exports: Exports
) -> Iterator[Host]:
    spec = spec_of(entry)
    labels = selector(entry, WORKLOAD_LABELS)
    answering, others = _endpoints(labels, entry.namespace, workloads, machines)
    endpoints = items(spec.get("endpoints"))
    exported = exported_to(items(spec.get("exportTo")), entry.namespace, exports.hosts)
    ports = tuple(
        Port(
            port["number"],
            named_protocol(str(port.get("protocol") or "")),
            port.get("targetPort") or port["number"],
        )
        for port in items(spec.get("ports"))
    )
    with_sidecars = all(_is_mutual(mapping(endpoint)) for endpoint in endpoints)
    complete = bool(answering or others or endpoints) and with_sidecars and _have_sidecars(answering)
    complete = complete and all(map(_has_proxy, others))
    external = spec.get("location") != "MESH_INTERNAL"
    for name in items(spec.get("hosts")):
        host = resolved(str(name), entry.namespace)
        yield Host(host, entry.namespace, ports, entry, exported, answering, external, complete)


def _endpoints(
    labels: Mapping[str, Any], namespace: str, workloads: Labelled[Workload], machines: Labelled[Object] | None
) -> tuple[tuple[Workload, ...], list[Object]]:
    """The workloads and the machines that a selector selects. One without labels selects none."""
    if not labels:
        return (), []
    answering = tuple(it for it in workloads.near(labels, namespace) if has_labels(it, labels))
    near = [] if machines is None else machines.near(labels, namespace)
    return answering, [it for it in near if _machine_has(it, labels)]


def _have_sidecars(workloads: Iterable[Workload]) -> bool:
    return all(workload.number(Proxy.SIDECAR) == workload.replicas for workload in workloads)


def _machine_has(entry: Object, labels: Mapping[str, Any]) -> bool:
    own = mapping(spec_of(entry).get("labels"))
    return all(own.get(key) == value for key, value in labels.items())


def _has_proxy(entry: Object) -> bool:
    return _is_mutual(spec_of(entry))


def _is_mutual(endpoint: Mapping[str, Any]) -> bool:
    """Whether an endpoint that is no pod has a proxy: its label says so, or else its service account."""
    mode = mapping(endpoint.get("labels")).get(_TLS_MODE)
    return mode == "istio" if mode is not None else bool(endpoint.get("serviceAccount"))


def pod_spec(workload: Workload) -> Any:
    """The spec of a workload's pods."""
    manifest = workload.object
    where = manifest.template if manifest.template is not None else ("spec", "template")
    return at(manifest.data, (*where, "spec"))


def container_port(workload: Workload, target: int | str) -> int | None:
    """The number of a port of a workload's pods; None if no container names it."""
    if isinstance(target, int):
        return target
    for container in items(at(pod_spec(workload), ("containers",))):
        for port in items(at(container, ("ports",))):
            if at(port, ("name",)) == target:
                number = at(port, ("containerPort",))
                return number if isinstance(number, int) else None
    return None
