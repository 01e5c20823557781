"""What Istio does unasked, and at which sidecars: no resource asks for it, and without sidecars it ends."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.in_force.effects import What
from admc.istio.in_force.peer_authentication import Mode, modes
from admc.istio.in_force.protocols import Protocol
from admc.istio.in_force.selection import has_labels, mapping, selector
from admc.istio.in_force.view import key_of
from admc.istio.mesh.model import Proxy, spec_of
from admc.istio.mesh.references import NETWORKING
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.istio.in_force.clients import Clients
    from admc.istio.in_force.effects import Effect
    from admc.istio.in_force.judge import InForce, Judged
    from admc.istio.in_force.view import View, WorkloadKey
    from admc.istio.mesh.model import Mesh, Workload

DNS_CAPTURE: Final = "ISTIO_META_DNS_CAPTURE"
_NETWORK: Final = "topology.istio.io/network"
_PROXY_CONFIG: Final = "proxy.istio.io/config"
_NORMALIZED: Final = "NONE"


class Feature(StrEnum):
    """By its name in `--keep`."""

    MTLS = "mtls"
    RETRIES = "retries"
    BALANCING = "balancing"
    LOCALITY = "locality"
    REGISTRY_ONLY = "registry-only"
    ENTRIES = "service-entries"
    DNS = "dns"
    NETWORKS = "networks"
    METRICS = "metrics"
    NORMALIZATION = "normalization"


TITLES: Final = {
    Feature.MTLS: "mTLS between sidecars",
    Feature.RETRIES: "retries by default",
    Feature.BALANCING: "gRPC and HTTP/2 balanced by request",
    Feature.LOCALITY: "nearby endpoints first",
    Feature.REGISTRY_ONLY: "unknown hosts refused (`REGISTRY_ONLY`)",
    Feature.ENTRIES: "hosts of ServiceEntries",
    Feature.DNS: "names resolved by the proxy",
    Feature.NETWORKS: "endpoints in other networks",
    Feature.METRICS: "metrics and spans",
    Feature.NORMALIZATION: "paths normalized",
}
SHORT: Final = {
    Feature.BALANCING: "gRPC balanced by request",
    Feature.METRICS: "metrics and spans",
    Feature.MTLS: "mTLS",
    Feature.RETRIES: "retries",
}


class Implicit(NamedTuple):
    """The sidecars that have a feature."""

    feature: Feature
    workloads: tuple[Workload, ...]


def implicit(mesh: Mesh, force: InForce) -> tuple[Implicit, ...]:
    """Each feature of the mesh, in the order of `Feature`, without those that no sidecar has."""
    made: dict[Feature, list[Workload]] = defaultdict(list)
    mutual = _mutual(force)
    networks = _networks(mesh)
    of_clients = {id(clients): frozenset(_features_of_clients(clients)) for clients, _ in force.classes}
    for sidecar in force.sidecars:
        own = {*of_clients[id(sidecar.clients)], *_features(sidecar)}
        if key_of(sidecar.workload) in mutual:
            own.add(Feature.MTLS)
        if networks > 1:
            own.add(Feature.NETWORKS)
        for feature in own:
            made[feature].append(sidecar.workload)
    return tuple(Implicit(feature, tuple(made[feature])) for feature in Feature if made[feature])


def _features_of_clients(clients: Clients) -> Iterator[Feature]:
    """The features that sidecars have because of the hosts that they call."""
    configuration = clients.view.configuration
    protocols = {port.protocol for host in clients.hosts.values() for port in host.ports}
    if configuration.retries and any(protocol.may_be_http for protocol in protocols):
        yield Feature.RETRIES
    if Protocol.HTTP2 in protocols:
        yield Feature.BALANCING
    if configuration.has_locality and _has_outlier_detection(clients.effects):
        yield Feature.LOCALITY
    if configuration.is_closed:
        yield Feature.REGISTRY_ONLY
    if any(not host.is_service for host in clients.hosts.values()):
        yield Feature.ENTRIES


def _has_outlier_detection(effects: Iterable[Effect]) -> bool:
    return any(effect.what is What.OUTLIERS for effect in effects)


def _features(sidecar: Judged) -> Iterator[Feature]:
    configuration = sidecar.view.configuration
    if configuration.has_locality and _has_outlier_detection(sidecar.own):
        yield Feature.LOCALITY
    if _captures_names(sidecar):
        yield Feature.DNS
    yield Feature.METRICS
    own = sidecar.view.hosts_of_workload.get(key_of(sidecar.workload), ())
    inbound = any(port.protocol.may_be_http for host in own for port in host.ports)
    if inbound and configuration.normalization != _NORMALIZED:
        yield Feature.NORMALIZATION


def _mutual(force: InForce) -> frozenset[WorkloadKey]:
    """The workloads of calls from a sidecar to a proxy of the mesh: sidecars begin mTLS there by themselves."""
    made: set[WorkloadKey] = set()
    accepting: dict[WorkloadKey, bool] = {}
    for clients, workloads in force.classes:
        if not clients.view.configuration.has_auto_mtls:
            continue
        callers = {key_of(it) for it in workloads}
        servers = set()
        for server in (it for host in clients.hosts.values() for it in host.workloads):
            key = key_of(server)
            if key not in accepting:
                accepting[key] = _accepts(clients.view, server)
            if accepting[key]:
                servers.add(key)
        # A call of a workload to itself is none from one sidecar to another.
        made |= {it for it in servers if len(callers) > (it in callers)}
        made |= {it for it in callers if len(servers) > (it in servers)}
    return frozenset(made)


def _accepts(view: View, server: Workload) -> bool:
    proxied = server.number(Proxy.SIDECAR) or server.number(Proxy.AMBIENT)
    return bool(proxied) and modes(view, server.namespace, server).all.mode is not Mode.DISABLE


def _captures_names(sidecar: Judged) -> bool:
    """By the annotation of the pod, the ProxyConfig for it, or the mesh configuration: the first that says it."""
    workload, view = sidecar.workload, sidecar.view
    where = workload.object.template if workload.object.template is not None else ("spec", "template")
    text = at(workload.object.data, (*where, "metadata", "annotations", _PROXY_CONFIG))
    if isinstance(text, str) and DNS_CAPTURE in text:
        return "true" in text.partition(DNS_CAPTURE)[2].partition("\n")[0]
    root = view.configuration.root
    configs = [
        it
        for it in view.of_kind(NETWORKING, "ProxyConfig")
        if it.namespace in (root, workload.namespace)
        and has_labels(workload, selector(it, ("selector", "matchLabels")))
        and DNS_CAPTURE in mapping(spec_of(it).get("environmentVariables"))
    ]
    # One with a selector goes before the one of the namespace, and that before the one of the root namespace.
    configs.sort(key=lambda it: (not selector(it, ("selector", "matchLabels")), it.namespace == root))
    values: Iterable[Any] = [mapping(spec_of(it).get("environmentVariables"))[DNS_CAPTURE] for it in configs]
    first = next(iter(values), view.configuration.proxy_metadata.get(DNS_CAPTURE))
    return str(first).lower() == "true"


def _networks(mesh: Mesh) -> int:
    """How many networks the labels name."""
    labels: list[Mapping[str, Any]] = [mapping(at(it.metadata, ("labels",))) for it in mesh.namespaces.values()]
    labels += [workload.labels for workload in mesh.workloads]
    return len({str(it[_NETWORK]) for it in labels if _NETWORK in it})
