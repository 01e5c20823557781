"""VirtualServices: which of their routes a sidecar has, for which host and port.

Of several for one host the first alone counts for HTTP, and routes after one that takes all requests count for nothing.
A route that leads all requests to its own host, and does nothing else with them, does what Istio does without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.in_force.effects import Direction, Effect, Layer, What, key_of_place
from admc.istio.in_force.hosts import overlaps, resolved
from admc.istio.in_force.protocols import Protocol
from admc.istio.in_force.selection import has_labels, items, mapping
from admc.istio.in_force.sidecar_scope import MESH_GATEWAY, Listener, Scope, hosts_of_route
from admc.istio.mesh.model import Place, Workload, spec_of
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.istio.in_force.delegates import HttpRoutes, Route
    from admc.istio.in_force.registry import Host, Port
    from admc.manifests.documents import Object

_UNKNOWN_HOSTS_PORT: Final = 80
"""The port at which sidecars have routes for hosts that are none of the mesh."""
_DECLARED_HTTP: Final = frozenset((Protocol.HTTP, Protocol.HTTP2))
_PLAIN: Final = frozenset(("name", "match", "route"))
_PLAIN_DESTINATION: Final = frozenset(("host", "port"))
_STATIC: Final = frozenset(("name", "port", "gateways", "sourceLabels", "sourceNamespace", "statPrefix"))
"""What of a match is decided at a sidecar, and not at a request."""


class Target(NamedTuple):
    """A cluster to which a sidecar sends."""

    host: str
    subset: str | None
    port: int


class Taken(NamedTuple):
    """The routes of one resource that hold for a host at a port of a sidecar."""

    host: str
    port: int
    resource: Object
    places: tuple[Place, ...]
    is_plain: bool
    """Whether Istio does the same without them."""
    targets: tuple[Target, ...]
    is_http: bool
    takes_all: bool
    """Whether nothing of this traffic goes to the host itself, unless a target says it."""


class Behind(NamedTuple):
    """A resource, or a route of it, that does not count because of another one."""

    place: Place
    by: Place


class Routing(NamedTuple):
    """What VirtualServices do at one sidecar."""

    taken: tuple[Taken, ...]
    behind: tuple[Behind, ...]

    def targets(self, scope: Scope) -> frozenset[Target]:
        """All clusters to which the sidecar may send: those of routes, and those of the hosts without one."""
        routed = {(it.host, it.port, it.is_http) for it in self.taken if it.takes_all}
        made = {target for it in self.taken for target in it.targets}
        for listener in scope.listeners:
            for host in listener.hosts.values():
                made |= {
                    Target(host.name, None, port.number)
                    for port in host.ports
                    if scope.listener(port.number) is listener
                    and any((host.name, port.number, is_http) not in routed for is_http in _ways(port.protocol))
                }
        return frozenset(made)


def _ways(protocol: Protocol) -> tuple[bool, ...]:
    """Whether a port has HTTP, connections, or both; none for UDP, which no sidecar carries."""
    has_connections = protocol.may_be_tcp or protocol is Protocol.TLS
    return (True,) * protocol.may_be_http + (False,) * has_connections


class Router:
    """The routes of a view: the same for all sidecars of a scope, unless a route asks for labels of the client."""

    def __init__(self, routes: HttpRoutes) -> None:
        self._routes = routes
        self._selectors: dict[int, tuple[Mapping[str, Any], ...]] = {}
        self._namespaces: dict[int, frozenset[str]] = {}
        self._made: dict[tuple[int, str, int, tuple[str | bool, ...]], _Held] = {}
        self._effects: dict[int, tuple[Effect, ...]] = {}

    def selectors(self, scope: Scope) -> Iterator[Mapping[str, Any]]:
        """The labels of clients for which the routes of a scope ask."""
        for listener in scope.listeners:
            for resource in listener.virtual_services:
                yield from self._selectors_of(resource)

    def _selectors_of(self, resource: Object) -> tuple[Mapping[str, Any], ...]:
        if id(resource) not in self._selectors:
            labels = (mapping(at(match, ("sourceLabels",))) for match in self._routes.matches(resource))
            self._selectors[id(resource)] = tuple(filter(None, labels))
        return self._selectors[id(resource)]

    def routing(self, scope: Scope, workload: Workload) -> Routing:
        taken: dict[tuple[str, int], Taken] = {}
        connections: list[Taken] = []
        behind: list[Behind] = []
        for listener in scope.listeners:
            for one in self._http(scope, listener, workload, behind):
                earlier = taken.setdefault((one.host, one.port), one)
                if earlier is not one:
                    behind.append(Behind(Place(one.resource, ()), Place(earlier.resource, ())))
            connections += _connections(scope, listener, workload, behind)
        return Routing((*taken.values(), *connections), tuple(behind))

    def effects(self, routing: Routing) -> Iterator[Effect]:
        for taken in routing.taken:
            if id(taken) not in self._effects:
                self._effects[id(taken)] = tuple(_effects(taken))
            yield from self._effects[id(taken)]

    def _http(self, scope: Scope, listener: Listener, workload: Workload, behind: list[Behind]) -> Iterator[Taken]:
        # Where the protocol of a port is detected for all hosts, each has its own routes, and other names have none.
        shared = {it.number for host in listener.hosts.values() for it in host.ports if it.protocol in _DECLARED_HTTP}
        for named in listener.named:
            if not self._routes.of(named.resource):
                continue
            places = [(it.name, port.number) for it in named.known for port in it.ports if port.protocol.may_be_http]
            numbers = {_UNKNOWN_HOSTS_PORT, *(number for _, number in places)} & shared
            places += [(name, number) for number in sorted(numbers) for name in named.unknown(number)]
            for name, number in places:
                if scope.listener(number) is listener:
                    held = self._at(named.resource, name, number, workload)
                    behind += held.behind
                    if held.taken is not None:
                        yield held.taken

    def _at(self, resource: Object, host: str, port: int, workload: Workload) -> _Held:
        key = id(resource), host, port, self._client(resource, workload)
        if key not in self._made:
            self._made[key] = _at(resource, self._routes.of(resource), host, port, workload)
        return self._made[key]

    def _client(self, resource: Object, workload: Workload) -> tuple[str | bool, ...]:
        """What the routes of a resource ask of a client."""
        if id(resource) not in self._namespaces:
            asked = (at(match, ("sourceNamespace",)) for match in self._routes.matches(resource))
            self._namespaces[id(resource)] = frozenset(filter(None, asked))
        namespaces, selectors = self._namespaces[id(resource)], self._selectors_of(resource)
        if not namespaces and not selectors:
            return ()
        namespace = workload.namespace if workload.namespace in namespaces else ""
        return (namespace, *(has_labels(workload, labels) for labels in selectors))


def _effects(taken: Taken) -> Iterator[Effect]:
    for place in taken.places if not taken.is_plain else ():
        yield Effect(Direction.OUTBOUND, taken.port, taken.host, place, Layer.REQUEST, What.ROUTE)


# ---- HTTP ----


class _Held(NamedTuple):
    """The routes of one resource for a host at a port, and those of it that do not count."""

    taken: Taken | None
    behind: tuple[Behind, ...]


def _at(resource: Object, routes: tuple[Route, ...], host: str, port: int, workload: Workload) -> _Held:
    held: list[Route] = []
    behind: list[Behind] = []
    takes_all: Route | None = None
    for route in routes:
        if takes_all is not None:
            behind.append(Behind(route.place, takes_all.place))
            continue
        matches = items(route.data.get("match"))
        own = [it for it in matches if _fits(it, workload, port)]
        if matches and not own:
            continue
        held.append(route)
        if not matches or any(_takes_all(it) for it in own):
            takes_all = route
    if not held:
        return _Held(None, tuple(behind))
    plain = takes_all is not None and all(_is_plain(route, host, port) for route in held)
    targets = tuple(target for route in held for target in _targets(route, port))
    places = {key_of_place(place): place for route in held for place in (route.parent, route.place)}
    taken = Taken(host, port, resource, tuple(places.values()), plain, targets, is_http=True, takes_all=True)
    return _Held(taken, tuple(behind))


def _fits(match: Any, workload: Workload, port: int) -> bool:
    """Whether a match is one for a sidecar, by what is known of it without a request."""
    number = at(match, ("port",))
    if number and number != port:
        return False
    gateways = items(at(match, ("gateways",)))
    if gateways:
        return MESH_GATEWAY in gateways
    namespace = at(match, ("sourceNamespace",))
    return has_labels(workload, mapping(at(match, ("sourceLabels",)))) and namespace in (None, "", workload.namespace)


def _takes_all(match: dict[str, Any]) -> bool:
    """Whether all requests have a match."""
    uri = mapping(match.get("uri"))
    if uri and not (uri.get("prefix") == "/" or uri.get("regex") == ".*"):
        return False
    return all(name in _STATIC or name in ("uri", "ignoreUriCase") or not value for name, value in match.items())


def _is_plain(route: Route, host: str, port: int) -> bool:
    data = route.data
    destinations = items(data.get("route"))
    own = {name for name, value in data.items() if value is not None} - _PLAIN
    if own or len(destinations) != 1 or destinations[0].keys() - {"destination", "weight"}:
        return False
    destination = mapping(destinations[0].get("destination"))
    if {name for name, value in destination.items() if value} - _PLAIN_DESTINATION:
        return False
    name = resolved(str(destination.get("host", "")), route.place.object.namespace)
    return name == host and _named_port(destination) in (None, port)


def _named_port(destination: Mapping[str, Any]) -> int | None:
    number = at(destination, ("port", "number"))
    return number if isinstance(number, int) and number else None


def _targets(route: Route, port: int) -> Iterator[Target]:
    """The clusters of an HTTP route. Without a number its port is that of the request, whatever ports the host has."""
    data = route.data
    destinations = [at(it, ("destination",)) for it in items(data.get("route")) if _has_share(it, data)]
    destinations += [data.get("mirror"), *(at(it, ("destination",)) for it in items(data.get("mirrors")))]
    for destination in destinations:
        if isinstance(destination, dict) and destination.get("host"):
            yield _target(destination, route.place.object.namespace, port)


def _has_share(part: Any, route: Mapping[str, Any]) -> bool:
    return len(items(route.get("route"))) == 1 or bool(at(part, ("weight",)))


def _target(destination: Mapping[str, Any], namespace: str, port: int) -> Target:
    name = resolved(str(destination["host"]), namespace)
    return Target(name, destination.get("subset") or None, _named_port(destination) or port)


def _connection_target(destination: Mapping[str, Any], namespace: str, listener: Listener, port: int) -> Target:
    """The cluster of a TCP or TLS route. Without a number its port is the only one of the host."""
    host = listener.hosts.get(resolved(str(destination["host"]), namespace))
    return _target(destination, namespace, host.ports[0].number if host is not None and len(host.ports) == 1 else port)


# ---- connections: TCP and TLS ----


def _connections(scope: Scope, listener: Listener, workload: Workload, behind: list[Behind]) -> Iterator[Taken]:
    naming = [it for it in listener.virtual_services if spec_of(it).get("tcp") or spec_of(it).get("tls")]
    if not naming:
        return
    for host in listener.hosts.values():
        resources = [it for it in naming if any(overlaps(name, host.name) for name in hosts_of_route(it))]
        for port in host.ports:
            if scope.listener(port.number) is not listener:
                continue
            if port.protocol is Protocol.TLS:
                yield from _of_connections("tls", resources, host, port, listener, workload, behind)
            elif port.protocol.may_be_tcp:
                yield from _of_connections("tcp", resources, host, port, listener, workload, behind)


def _of_connections(
    kind: str,
    resources: list[Object],
    host: Host,
    port: Port,
    listener: Listener,
    workload: Workload,
    behind: list[Behind],
) -> Iterator[Taken]:
    handled: dict[tuple[str, ...], Place] = {}
    takes_all: Place | None = None
    for resource in resources:
        places, targets, plain = [], [], True
        for index, rule in enumerate(items(spec_of(resource).get(kind))):
            place = Place(resource, ("spec", kind, index))
            routes = items(at(rule, ("route",)))
            if not routes:
                continue
            if takes_all is not None:
                behind.append(Behind(place, takes_all))
                continue
            matches = items(at(rule, ("match",)))
            own = [it for it in matches if _fits_connection(it, workload, port.number)]
            keys = [_key(it) for it in own] if matches else [()]
            new = [key for key in keys if key not in handled]
            if keys and not new:
                behind.append(Behind(place, handled[keys[0]]))
            if not new or (kind == "tls" and not matches):
                continue
            handled.update(dict.fromkeys(new, place))
            if kind == "tcp" and (() in new):
                takes_all = place
            places.append(place)
            clusters = [
                _connection_target(it["destination"], resource.namespace, listener, port.number) for it in routes
            ]
            targets += clusters
            plain = plain and clusters == [Target(host.name, None, port.number)] and kind == "tcp" and () in keys
        if places:
            # TLS with a name that no route has is not passed on.
            all_of_port = kind == "tls" or takes_all is not None
            yield Taken(
                host.name,
                port.number,
                resource,
                tuple(places),
                plain,
                tuple(targets),
                is_http=False,
                takes_all=all_of_port,
            )


def _fits_connection(match: Any, workload: Workload, port: int) -> bool:
    gateways = items(at(match, ("gateways",)))
    number, namespace = at(match, ("port",)), at(match, ("sourceNamespace",))
    return (
        (not gateways or MESH_GATEWAY in gateways)
        and number in (None, 0, port)
        and namespace in (None, "", workload.namespace)
        and has_labels(workload, mapping(at(match, ("sourceLabels",))))
    )


def _key(match: Any) -> tuple[str, ...]:
    """What of a match the proxy compares with a connection; nothing if all connections have it."""
    return tuple(str(it) for name in ("sniHosts", "destinationSubnets") for it in items(at(match, (name,))))
