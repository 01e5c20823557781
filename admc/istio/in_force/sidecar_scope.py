"""What a sidecar knows: the hosts and VirtualServices that its Sidecar resource imports, or all that it may see.

The Sidecar with a selector goes before the one of the namespace, and that before the one of the root namespace; of two,
the older one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.in_force.exports import exports_of_route
from admc.istio.in_force.hosts import ByHost, is_wild, overlaps, resolved
from admc.istio.in_force.imports import Importable, Imports, imports_of
from admc.istio.in_force.registry import PUBLIC, Host
from admc.istio.in_force.selection import WORKLOAD_LABELS, Selecting, has_labels, items, selector
from admc.istio.mesh.model import Workload, spec_of
from admc.istio.mesh.references import NETWORKING
from admc.manifests.documents import Object, at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from admc.istio.in_force.delegates import HttpRoutes
    from admc.istio.in_force.view import View

MESH_GATEWAY: Final = "mesh"
_SIDECAR: Final = "Sidecar"
_ALL: Final = ("*/*",)
_JUDGED: Final = frozenset(("workloadSelector", "egress"))
_JUDGED_OF_EGRESS: Final = frozenset(("hosts",))


class Named(NamedTuple):
    """The hosts that a VirtualService names."""

    resource: Object
    known: tuple[Host, ...]
    """Those of the mesh. A wildcard stands for the hosts that no other one names more specifically."""
    by_name: Mapping[str, tuple[Host, ...]]
    """For each of its names all hosts of the mesh that have it."""

    def unknown(self, port: int) -> list[str]:
        """The names that no host with a port has: there they are none of the mesh."""
        return [
            name
            for name, hosts in self.by_name.items()
            if not any(it.number == port for host in hosts for it in host.ports)
        ]


class Listener(NamedTuple):
    """What a sidecar knows at a port."""

    port: int | None
    """None: at all other ports."""
    hosts: Mapping[str, Host]
    virtual_services: tuple[Object, ...]
    """Those that hold for sidecars, the one that goes first in front."""
    named: tuple[Named, ...]
    """For each of them the hosts that it names."""


class Scope(NamedTuple):
    namespace: str
    """That of its sidecars; empty for the one that most namespaces have."""
    sidecar: Object | None
    listeners: tuple[Listener, ...]
    hosts: Mapping[str, Host]
    """Of all listeners, and those to which their routes lead."""

    def listener(self, port: int) -> Listener | None:
        """The listener for a port: the first that is for it, or for all ports."""
        return next((it for it in self.listeners if it.port in (None, port)), None)


class Scopes:
    """The scopes of a view. Each is made once, and most namespaces have the same."""

    def __init__(self, view: View, routes: HttpRoutes, apart: Collection[str] = ()) -> None:
        """`apart` are namespaces that have a scope of their own in any case."""
        self._view = view
        self._made: dict[tuple[str, int], Scope] = {}
        self._for_all: dict[str, list[Object]] = defaultdict(list)
        selecting = []
        for manifest in view.of_kind(NETWORKING, _SIDECAR):
            if _has_selector(manifest):
                selecting.append((manifest.namespace, selector(manifest, WORKLOAD_LABELS), manifest))
            else:
                self._for_all[manifest.namespace].append(manifest)
        self._selecting = Selecting(selecting)
        routed = [
            _Routed(it, exports_of_route(view, it), tuple(hosts_of_route(it)), _leads(routes, it), _asked(routes, it))
            for it in view.of_kind(NETWORKING, "VirtualService")
            if is_for_sidecars(it)
        ]
        self._routed = Importable((it.resource.namespace, it.hosts, it) for it in routed)
        self._leads = {id(it.resource): it.leads for it in routed}
        self._hosts = Importable((it.namespace, (it.name,), it) for it in view.hosts)
        self._apart = frozenset((*apart, *_apart(view, routed)))

    def of(self, workload: Workload) -> Scope:
        sidecar = self.sidecar(workload)
        is_apart = workload.namespace in self._apart or (sidecar is not None and _names_own(sidecar))
        namespace = workload.namespace if is_apart else ""
        key = namespace, id(sidecar)
        if key not in self._made:
            self._made[key] = self._scope(namespace, sidecar)
        return self._made[key]

    def _scope(self, namespace: str, sidecar: Object | None) -> Scope:
        egress = items(spec_of(sidecar).get("egress")) if sidecar is not None else []
        listeners = tuple(self._listener(part, namespace) for part in egress or [{"hosts": _ALL}])
        known: dict[str, Host] = {}
        for listener in listeners:
            for name, host in listener.hosts.items():
                known[name] = _with_ports(known[name], host) if name in known else host
        for listener in listeners:
            self._add_destinations(known, listener, namespace)
        return Scope(namespace, sidecar, listeners, known)

    def _add_destinations(self, known: dict[str, Host], listener: Listener, namespace: str) -> None:
        """Add the hosts to which the routes of a listener lead."""
        for virtual_service in listener.virtual_services:
            for name, ports in _destinations(self._leads[id(virtual_service)], namespace).items():
                # Istio takes one of the sidecar's own namespace also where that is not exported to it.
                named = self._view.by_name.get(name, ())
                seen = [it for it in named if it.namespace == namespace or it.is_seen(namespace)]
                if not seen:
                    continue
                chosen = _preferred(seen, namespace)
                own = ports if listener.port is None else {listener.port}
                narrowed = chosen if None in own else _at_ports(chosen, own)
                if known.get(name) is not narrowed and (narrowed.ports or None in own):
                    known[name] = _with_ports(known[name], narrowed) if name in known else narrowed

    def _listener(self, part: Any, namespace: str) -> Listener:
        imports = imports_of(tuple(items(at(part, ("hosts",))) or _ALL), namespace)
        number = at(part, ("port", "number"))
        by_name: dict[str, Host] = {}
        for host in self._hosts.near(imports):
            if host.is_seen(namespace) and (imports.are_all or imports.has(host.name, host.namespace)):
                earlier = by_name.setdefault(host.name, host)
                if earlier is not host:
                    by_name[host.name] = _preferred([earlier, host], namespace)
        hosts = {name: _at_port(host, number) for name, host in by_name.items() if _has_port(host, number)}
        near = self._routed.near(imports)
        imported = near if imports.are_all else [it for it in near if _imports_route(it, imports)]
        chosen = _virtual_services(imported, namespace)
        return Listener(number or None, hosts, tuple(it.resource for it in chosen), _named(chosen, hosts))

    def sidecar(self, workload: Workload) -> Object | None:
        """The Sidecar resource that holds for a workload."""
        near = self._selecting.near(workload.labels, workload.namespace)
        selecting = [it for it in near if has_labels(workload, selector(it, WORKLOAD_LABELS))]
        for_all = [self._for_all.get(name, []) for name in (workload.namespace, self._view.configuration.root)]
        return next((it for listed in (selecting, *for_all) for it in listed), None)


def _apart(view: View, routed: list[_Routed]) -> Iterator[str]:
    """The namespaces that see other hosts and routes than most."""
    for host in view.hosts:
        if PUBLIC not in host.exported or len({it.namespace for it in view.by_name[host.name]}) > 1:
            yield from (host.namespace, *host.exported)
    for it in routed:
        yield from it.asked
        if PUBLIC not in it.exported:
            yield from (it.resource.namespace, *it.exported)


def _names_own(sidecar: Object) -> bool:
    """Whether a Sidecar imports hosts of the client's own namespace by `.`, or leaves them out."""
    names = (str(name) for part in items(spec_of(sidecar).get("egress")) for name in items(at(part, ("hosts",))))
    return any(name.partition("/")[0].removeprefix("~") == "." for name in names)


def is_judged(sidecar: Object) -> bool:
    """Whether a Sidecar does nothing but narrow what a sidecar knows."""
    spec = spec_of(sidecar)
    parts = items(spec.get("egress"))
    return _fields(spec) <= _JUDGED and all(_fields(part) <= _JUDGED_OF_EGRESS for part in parts)


def _fields(data: dict[str, Any]) -> set[str]:
    return {name for name, value in data.items() if value is not None}


def _has_selector(sidecar: Object) -> bool:
    return bool(spec_of(sidecar).get("workloadSelector"))


class _Routed(NamedTuple):
    """A VirtualService for sidecars."""

    resource: Object
    exported: frozenset[str]
    hosts: tuple[str, ...]
    leads: tuple[_Lead, ...]
    asked: frozenset[str]
    """The namespaces of clients for which its routes ask."""


class _Lead(NamedTuple):
    """A host to which a route leads."""

    namespaces: frozenset[str]
    """Those of the clients that the route is for; none for all."""
    host: str
    port: int | None
    """None where the route names none."""


def _destinations(leads: tuple[_Lead, ...], namespace: str) -> dict[str, set[int | None]]:
    """The hosts to which the routes for a namespace lead, with their ports."""
    made: dict[str, set[int | None]] = defaultdict(set)
    for namespaces, host, port in leads:
        if not namespaces or namespace in namespaces:
            made[host].add(port)
    return made


def _leads(routes: HttpRoutes, virtual_service: Object) -> tuple[_Lead, ...]:
    made: list[_Lead] = []
    for route in routes.of(virtual_service):
        asked = [at(match, ("sourceNamespace",)) for match in items(route.data.get("match"))]
        parts = [at(it, ("destination",)) for it in items(route.data.get("route"))]
        parts += [route.data.get("mirror"), *(at(it, ("destination",)) for it in items(route.data.get("mirrors")))]
        made += _leads_of(parts, route.place.object.namespace, frozenset(filter(None, asked)))
    for protocol in ("tcp", "tls"):
        for rule in items(spec_of(virtual_service).get(protocol)):
            parts = [at(it, ("destination",)) for it in items(at(rule, ("route",)))]
            made += _leads_of(parts, virtual_service.namespace, frozenset())
    return tuple(made)


def _asked(routes: HttpRoutes, virtual_service: Object) -> frozenset[str]:
    asked = (at(match, ("sourceNamespace",)) for match in routes.matches(virtual_service))
    return frozenset(filter(None, asked))


def _leads_of(parts: list[Any], namespace: str, asked: frozenset[str]) -> Iterator[_Lead]:
    for part in parts:
        host = at(part, ("host",))
        if isinstance(host, str) and host:
            yield _Lead(asked, resolved(host, namespace), at(part, ("port", "number")) or None)


def _named(chosen: tuple[_Routed, ...], hosts: Mapping[str, Host]) -> tuple[Named, ...]:
    first: dict[str, Object] = {}
    for it in chosen:
        for name in it.hosts:
            first.setdefault(name, it.resource)
    by_host = ByHost(first)
    best = {host: by_host.most_specific(host) for host in hosts} if any(map(is_wild, first)) else {}
    return tuple(_hosts_named(it.resource, it.hosts, hosts, best) for it in chosen)


def _hosts_named(
    resource: Object, names: tuple[str, ...], hosts: Mapping[str, Host], best: Mapping[str, Object | None]
) -> Named:
    known: dict[str, Host] = {}
    by_name: dict[str, tuple[Host, ...]] = {}
    for name in names:
        if is_wild(name):
            matching = tuple(host for host in hosts.values() if overlaps(host.name, name))
            known.update({host.name: host for host in matching if best.get(host.name) is resource})
        else:
            matching = (hosts[name],) if name in hosts else ()
            known.update({host.name: host for host in matching})
        by_name[name] = matching
    return Named(resource, tuple(known.values()), by_name)


def _has_port(host: Host, number: int | None) -> bool:
    return not number or any(port.number == number for port in host.ports)


def _at_port(host: Host, number: int | None) -> Host:
    return host if not number else _at_ports(host, {number})


def _at_ports(host: Host, numbers: Collection[int | None]) -> Host:
    return host._replace(ports=tuple(it for it in host.ports if it.number in numbers))


def _with_ports(host: Host, other: Host) -> Host:
    """A host as two listeners have it, each with some of its ports."""
    if other.namespace != host.namespace:
        return host
    return host._replace(ports=tuple({port.number: port for port in (*other.ports, *host.ports)}.values()))


def _imports_route(routed: _Routed, imports: Imports) -> bool:
    return any(imports.has(host, routed.resource.namespace, both_ways=True) for host in routed.hosts)


def hosts_of_route(virtual_service: Object) -> list[str]:
    return [resolved(str(name), virtual_service.namespace) for name in items(spec_of(virtual_service).get("hosts"))]


def _preferred(hosts: list[Host], namespace: str) -> Host:
    """The host of several namespaces that a sidecar takes: of its own, then a Service, then the oldest."""
    return min(hosts, key=lambda it: (it.namespace != namespace, not it.is_service, it.object.created or ""))


def _virtual_services(routed: list[_Routed], namespace: str) -> tuple[_Routed, ...]:
    """Those that a namespace sees: private ones, those for it by name, public ones; each by age."""
    private: list[_Routed] = []
    named: list[_Routed] = []
    public: list[_Routed] = []
    for it in routed:
        if PUBLIC in it.exported:
            public.append(it)
        elif namespace in it.exported:
            (private if it.resource.namespace == namespace else named).append(it)
    return (*private, *named, *public)


def is_for_sidecars(virtual_service: Object) -> bool:
    """Whether a VirtualService names sidecars, and is none that others delegate to."""
    spec = spec_of(virtual_service)
    gateways = items(spec.get("gateways"))
    return bool(spec.get("hosts")) and (not gateways or MESH_GATEWAY in gateways)
