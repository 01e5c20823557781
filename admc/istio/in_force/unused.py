"""What is written, and in force nowhere: a resource, or a part of one, with the cause."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from admc.istio.in_force import not_judged, peer_authentication, telemetry
from admc.istio.in_force.authorization import never_matches
from admc.istio.in_force.effects import Cause, Unused, key_of_place
from admc.istio.in_force.hosts import Names, resolved
from admc.istio.in_force.selection import (
    MATCH_LABELS,
    WORKLOAD_LABELS,
    Labelled,
    has_labels,
    items,
    mapping,
    selector,
    targets,
)
from admc.istio.in_force.sidecar_scope import MESH_GATEWAY, hosts_of_route, is_for_sidecars
from admc.istio.in_force.view import SECURITY, TELEMETRY, key_of
from admc.istio.mesh.model import Mesh, Place, Proxy, spec_of
from admc.istio.mesh.presence import REVISION
from admc.istio.mesh.references import NETWORKING, destinations
from admc.manifests.documents import Object, Where, at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.istio.in_force.clients import Clients
    from admc.istio.in_force.destination_rules import Rule
    from admc.istio.in_force.effects import PlaceKey
    from admc.istio.in_force.judge import InForce
    from admc.istio.in_force.view import View
    from admc.istio.mesh.model import Workload

Part = TypeVar("Part")
_SELECTED: Final = {
    (SECURITY, "PeerAuthentication"): MATCH_LABELS,
    (SECURITY, "AuthorizationPolicy"): MATCH_LABELS,
    (SECURITY, "RequestAuthentication"): MATCH_LABELS,
    (TELEMETRY, "Telemetry"): MATCH_LABELS,
    (not_judged.EXTENSIONS, "WasmPlugin"): MATCH_LABELS,
    (not_judged.EXTENSIONS, "TrafficExtension"): MATCH_LABELS,
    (NETWORKING, "EnvoyFilter"): WORKLOAD_LABELS,
    (NETWORKING, "Sidecar"): WORKLOAD_LABELS,
}


class _Known:
    """What is in force, as it is looked up here."""

    def __init__(self, mesh: Mesh, judged: InForce) -> None:
        self.mesh = mesh
        self.judged = judged
        self.called: set[int] = set()
        self.used: set[int] = set()
        self.places: set[PlaceKey] = set()
        self.plain: set[int] = set()
        self.seen: set[int] = set()
        """The VirtualServices that a sidecar sees."""
        self.behind: dict[PlaceKey, Place] = {}
        self.subsets: set[tuple[str, str | None]] = set()
        """Those to which routes lead, with their hosts."""
        self.rules: dict[int, dict[int, Rule]] = defaultdict(dict)
        """For each DestinationRule the merged rules that a sidecar has for some host."""
        self.of_gateways: set[str] = set()
        """The hosts to which gateways send: their rules are in force there."""
        for manifest in mesh.of_kind(NETWORKING, "VirtualService"):
            if set(items(spec_of(manifest).get("gateways"))) - {MESH_GATEWAY} or not spec_of(manifest).get("hosts"):
                for destination in destinations(manifest):
                    self.of_gateways.add(destination.host.lower())
                    self.subsets.add((destination.host.lower(), destination.subset))
        self._added: set[int] = set()
        """The effects, routes and rules that are added: many classes of clients have the same ones."""
        for effect in self._new(judged.effects):
            self.called.add(id(effect.resource.object))
            self.used.add(id(effect.resource.object))
            self.places.add(key_of_place(effect.resource))
        for clients, (first, *_) in judged.classes:
            for _ in self._new((clients.outbound,)):
                self._add(clients, first)

    def _add(self, clients: Clients, client: Workload) -> None:
        """What is in force for all hosts that clients see, also for those that they do not call."""
        for effect in self._new(clients.outbound.effects):
            self.used.add(id(effect.resource.object))
            self.places.add(key_of_place(effect.resource))
        for taken in self._new(clients.routing.taken):
            self.subsets |= {(target.host, target.subset) for target in taken.targets}
            for place in taken.places:
                self.places.add(key_of_place(place))
                (self.plain if taken.is_plain else self.used).add(id(place.object))
        for behind in clients.routing.behind:
            self.behind.setdefault(key_of_place(behind.place), behind.by)
        rules, scope = self.judged.rules[clients.view.revision], clients.scope
        for host in scope.hosts.values():
            chosen = rules.for_client(scope.namespace, host, client), rules.for_server(scope.namespace, host)
            for rule in self._new(filter(None, chosen)):
                for manifest in rule.objects:
                    self.rules[id(manifest)][id(rule)] = rule
        for listener in scope.listeners:
            self.seen.update(map(id, listener.virtual_services))
        if scope.sidecar is not None:
            self.used.add(id(scope.sidecar))
            self.called.add(id(scope.sidecar))

    def _new(self, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            if id(part) not in self._added:
                self._added.add(id(part))
                yield part

    @cached_property
    def views(self) -> list[View]:
        return list({clients.view.revision: clients.view for clients, _ in self.judged.classes}.values())

    @cached_property
    def hosts(self) -> Names:
        """All hosts that sidecars may know."""
        return Names(name for view in self.views for name in view.by_name)

    @cached_property
    def hosts_of_gateways(self) -> Names:
        return Names(self.of_gateways)

    @cached_property
    def hosts_of_subsets(self) -> Mapping[str | None, Names]:
        """The hosts to which routes lead, by the subset."""
        made: dict[str | None, set[str]] = defaultdict(set)
        for host, subset in self.subsets:
            made[subset].add(host)
        return {subset: Names(hosts) for subset, hosts in made.items()}

    @cached_property
    def delegates(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of each VirtualService to which another one delegates."""
        made = set()
        for manifest in self.mesh.of_kind(NETWORKING, "VirtualService"):
            for route in items(spec_of(manifest).get("http")):
                delegate = mapping(at(route, ("delegate",)))
                made.add((str(delegate.get("namespace") or manifest.namespace), str(delegate.get("name"))))
        return frozenset(made)

    @cached_property
    def gateways(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of each Gateway."""
        return frozenset((it.namespace, it.name) for it in self.mesh.of_kind(NETWORKING, "Gateway"))

    @cached_property
    def gateway_workloads(self) -> list[Workload]:
        return [it for it in self.mesh.workloads if it.number(Proxy.GATEWAY)]

    def selected(self, namespace: str, labels: Mapping[str, Any]) -> list[Workload]:
        """The workloads of a namespace that a selector selects."""
        return [it for it in self._labelled.near(labels, namespace) if has_labels(it, labels)]

    def selected_of_all(self, labels: Mapping[str, Any]) -> list[Workload]:
        return [it for it in self._labelled_of_all.near(labels, "") if has_labels(it, labels)]

    @cached_property
    def _labelled(self) -> Labelled[Workload]:
        return Labelled((it.namespace, it.labels, it) for it in self.mesh.workloads)

    @cached_property
    def _labelled_of_all(self) -> Labelled[Workload]:
        return Labelled(("", it.labels, it) for it in self.mesh.workloads)


def unused(mesh: Mesh, judged: InForce) -> tuple[Unused, ...]:
    known = _Known(mesh, judged)
    made: list[Unused] = []
    for (group, kind), resources in sorted(mesh.resources.items()):
        for manifest in resources:
            made += _of(known, (group, kind), manifest)
    return tuple(made)


def _of(known: _Known, kind: tuple[str, str], manifest: Object) -> Iterator[Unused]:
    whole = Place(manifest, ())
    revision = at(manifest.metadata, ("labels", REVISION))
    if revision is not None and known.views and not any(view.reads(manifest) for view in known.views):
        yield Unused(whole, Cause.OTHER_REVISION)
    elif kind == (NETWORKING, "VirtualService"):
        yield from _virtual_service(known, manifest, whole)
    elif kind == (NETWORKING, "DestinationRule"):
        yield from _destination_rule(known, manifest, whole)
    elif kind == (NETWORKING, "Gateway"):
        yield from _gateway(known, manifest, whole)
    elif kind[0] == not_judged.GATEWAY_API:
        if known.views and not not_judged.is_for_gateways(manifest) and id(manifest) not in known.used:
            yield Unused(whole, Cause.NO_HOST)
    elif kind in _SELECTED and id(manifest) not in known.used:
        yield from _selected(known, kind, manifest, whole)


# ---- resources with a selector ----


def _selected(known: _Known, kind: tuple[str, str], manifest: Object, whole: Place) -> Iterator[Unused]:
    if targets(manifest) or not_judged.is_for_gateways(manifest):
        return
    root = _root(known)
    where = _SELECTED[kind]
    labels = selector(manifest, where)
    if kind[1] in ("PeerAuthentication", "Sidecar") and labels and manifest.namespace == root:
        own = known.selected(root, labels)
        if kind[1] == "PeerAuthentication" or not own:
            yield Unused(Place(manifest, ("spec", *where)), Cause.ROOT_SELECTOR)
            return
    if kind[1] == "AuthorizationPolicy" and never_matches(manifest):
        yield Unused(whole, Cause.NEVER_MATCHES)
        return
    if not_judged.is_empty(manifest):
        yield Unused(whole, Cause.NEVER_MATCHES)
        return
    namespace = manifest.namespace
    selected = known.selected_of_all(labels) if namespace == root else known.selected(namespace, labels)
    proxies = {proxy for it in selected for proxy in Proxy if proxy is not Proxy.NONE and it.number(proxy)}
    if not selected:
        yield Unused(whole, Cause.NO_WORKLOAD)
    elif not proxies:
        yield Unused(whole, Cause.NO_SIDECAR)
    elif Proxy.SIDECAR in proxies:
        older = _older(known, kind[1], manifest)
        if older is not None:
            yield Unused(whole, Cause.OLDER_WINS, Place(older, ()))
        elif kind[1] in ("PeerAuthentication", "Telemetry"):
            yield Unused(whole, Cause.DEFAULT)


def _root(known: _Known) -> str:
    views = known.views
    return views[0].configuration.root if views else "istio-system"


def _older(known: _Known, kind: str, manifest: Object) -> Object | None:
    """The older resource that takes the place of one for a whole namespace, or for the same workloads."""
    for view in known.views:
        other = None
        if kind == "Telemetry":
            other = telemetry.for_namespace(view, manifest.namespace)
        elif kind == "PeerAuthentication" and not selector(manifest, MATCH_LABELS):
            other = peer_authentication.for_namespace(view, manifest.namespace)
        elif kind == "PeerAuthentication":
            own = known.selected(manifest.namespace, selector(manifest, MATCH_LABELS))
            of_view = {key_of(it) for it in view.workloads}
            chosen = (peer_authentication.for_workload(view, it) for it in own if key_of(it) in of_view)
            other = next((it for it in chosen if it is not None and it is not manifest), None)
        elif kind == "Sidecar":
            listed = view.of_kind(NETWORKING, kind)
            other = next((it for it in listed if it.namespace == manifest.namespace and it is not manifest), None)
        if other is not None and other is not manifest:
            return other
    return None


# ---- VirtualServices ----


def _virtual_service(known: _Known, manifest: Object, whole: Place) -> Iterator[Unused]:
    yield from _gateways_of(known, manifest)
    if not spec_of(manifest).get("hosts"):
        if id(manifest) not in known.used | known.plain and (manifest.namespace, manifest.name) not in known.delegates:
            yield Unused(whole, Cause.NO_DELEGATION)
        return
    if not is_for_sidecars(manifest) or not known.judged.sidecars:
        return
    if id(manifest) in known.used:
        if id(manifest) not in known.called:
            yield Unused(whole, Cause.NO_CALLER)
            return
        for protocol in ("http", "tls", "tcp"):
            for index, _ in enumerate(items(spec_of(manifest).get(protocol))):
                place = Place(manifest, ("spec", protocol, index))
                by = known.behind.get(key_of_place(place))
                if key_of_place(place) not in known.places and by is not None:
                    yield Unused(place, Cause.BEHIND_ANOTHER, by)
        return
    if id(manifest) in known.plain:
        yield Unused(whole, Cause.DEFAULT)
        return
    by = known.behind.get(key_of_place(whole))
    if by is None:
        routes = [
            Place(manifest, ("spec", "tcp", index)) for index, _ in enumerate(items(spec_of(manifest).get("tcp")))
        ]
        by = next((known.behind[key_of_place(it)] for it in routes if key_of_place(it) in known.behind), None)
    if by is not None:
        yield Unused(whole, Cause.OLDER_WINS, Place(by.object, ()))
    else:
        yield Unused(whole, _cause(known, manifest))


def _cause(known: _Known, manifest: Object) -> Cause:
    names = hosts_of_route(manifest)
    if not any(map(known.hosts.overlap, names)):
        return Cause.NO_HOST
    return Cause.NO_PORT if id(manifest) in known.seen else Cause.NOT_SEEN


def _gateways_of(known: _Known, manifest: Object) -> Iterator[Unused]:
    """The gateways that a VirtualService names and that are not there. Without any, there is nothing to compare."""
    for index, name in enumerate(items(spec_of(manifest).get("gateways")) if known.gateways else ()):
        namespace, _, own = str(name).rpartition("/")
        if name != MESH_GATEWAY and (namespace or manifest.namespace, own) not in known.gateways:
            yield Unused(Place(manifest, ("spec", "gateways", index)), Cause.NO_GATEWAY)


def _gateway(known: _Known, manifest: Object, whole: Place) -> Iterator[Unused]:
    """A Gateway whose selector selects no gateway. Without any, there is nothing to compare."""
    labels = selector(manifest, ("selector",))
    gateways = known.gateway_workloads
    if gateways and labels and not any(has_labels(it, labels) for it in gateways):
        yield Unused(whole, Cause.NO_GATEWAY)


# ---- DestinationRules ----


def _destination_rule(known: _Known, manifest: Object, whole: Place) -> Iterator[Unused]:
    if not known.judged.sidecars:
        return
    host = resolved(str(spec_of(manifest).get("host", "")), manifest.namespace)
    if not known.hosts.overlap(host):
        yield Unused(whole, Cause.NO_HOST)
        return
    chosen = list(known.rules.get(id(manifest), {}).values())
    is_of_gateways = known.hosts_of_gateways.overlap(host)
    if not chosen:
        if not is_of_gateways:
            yield Unused(whole, Cause.NOT_SEEN)
        return
    if id(manifest) in known.used and id(manifest) not in known.called and not is_of_gateways:
        yield Unused(whole, Cause.NO_CALLER)
        return
    policy: Where = ("spec", "trafficPolicy")
    by = _replaced_by(chosen, Place(manifest, policy))
    if by is not None:
        yield Unused(Place(manifest, policy), Cause.OLDER_WINS, by)
    elif at(manifest.data, policy) and id(manifest) not in known.used:
        yield Unused(whole, Cause.DEFAULT)
    yield from _subsets(known, manifest, chosen)


def _replaced_by(chosen: Iterable[Rule], place: Place) -> Place | None:
    for rule in chosen:
        if any(key_of_place(it) == key_of_place(place) for it in rule.overridden):
            return rule.policy
    return None


def _subsets(known: _Known, manifest: Object, chosen: list[Rule]) -> Iterator[Unused]:
    """Subsets to which no route leads, or that an older rule has."""
    for index, subset in enumerate(items(spec_of(manifest).get("subsets"))):
        place = Place(manifest, ("spec", "subsets", index))
        name = at(subset, ("name",))
        older = next((rule.subsets[name] for rule in chosen if rule.subsets[name].object is not manifest), None)
        if older is not None:
            yield Unused(place, Cause.OLDER_WINS, older)
        elif name not in known.hosts_of_subsets or not any(
            known.hosts_of_subsets[name].overlap(rule.host) for rule in chosen
        ):
            yield Unused(place, Cause.NO_ROUTE)
