"""DestinationRules: which of their settings a sidecar has, for each cluster to which it sends.

A client's own namespace goes first, then that of the host, then the root namespace. The first of them that has any
matching host wins alone, also with a wildcard. Within one namespace rules of one host are merged: the oldest traffic
policy counts, and the subsets of all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from admc.istio.in_force.effects import Direction, Effect, Layer, What
from admc.istio.in_force.hosts import ByHost, ByNamespace, resolved
from admc.istio.in_force.registry import OWN, PUBLIC, age, container_port
from admc.istio.in_force.selection import WORKLOAD_MATCH_LABELS, has_labels, items, mapping, selector
from admc.istio.in_force.view import key_of
from admc.istio.mesh.model import Place, Workload, spec_of
from admc.istio.mesh.references import NETWORKING
from admc.manifests.documents import Where, at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from admc.istio.in_force.registry import Host
    from admc.istio.in_force.sidecar_scope import Scope
    from admc.istio.in_force.view import View
    from admc.istio.in_force.virtual_services import Target
    from admc.manifests.documents import Object

_WHATS: Final = {
    "connectionPool": What.POOL,
    "outlierDetection": What.OUTLIERS,
    "loadBalancer": What.BALANCING,
    "tls": What.TLS,
    "tunnel": What.TUNNEL,
    "proxyProtocol": What.PROXY_PROTOCOL,
    "retryBudget": What.RETRY_BUDGET,
}
_OF_PORT: Final = ("connectionPool", "loadBalancer", "outlierDetection", "tls")
"""What the settings of a port may have. They replace those of the host as a whole."""
_OWN_IDENTITY: Final = frozenset(("mode", "insecureSkipVerify"))
"""Fields of `tls` with which ISTIO_MUTUAL is what a sidecar begins by itself."""
_POLICY: Final = ("spec", "trafficPolicy")


@dataclass
class Rule:
    """Rules of one namespace for one host, merged. It changes only while it is built."""

    namespace: str
    host: str
    exported: frozenset[str]
    selector: Mapping[str, Any] | None
    objects: list[Object]
    policy: Place | None
    subsets: dict[str, Place]
    overridden: list[Place] = field(default_factory=list)
    """Traffic policies and subsets that an older rule replaces."""


_Merged = dict[str, list[Rule]]


class Rules:
    """The DestinationRules of a view, by namespace and host."""

    def __init__(self, view: View) -> None:
        self._root = view.configuration.root
        local: dict[str, _Merged] = defaultdict(dict)
        exported: dict[str, _Merged] = defaultdict(dict)
        root_own: _Merged = {}
        rules = view.of_kind(NETWORKING, "DestinationRule")
        otherwise = view.configuration.exports.destination_rules
        self._manifests = rules
        self._are_public = OWN not in otherwise
        for manifest in sorted(rules, key=lambda it: (not _has_selector(it), age(it))):
            is_local, is_private, names = _exports(manifest, otherwise)
            if is_local:
                _merge(local[manifest.namespace], manifest, names)
            if not is_private:
                _merge(exported[manifest.namespace], manifest, names)
            elif manifest.namespace == self._root:
                _merge(root_own, manifest, names)
        self._local = {namespace: ByHost(merged) for namespace, merged in local.items()}
        self._exported = {namespace: ByHost(merged) for namespace, merged in exported.items()}
        self._root_own = ByHost(root_own)
        self._all: dict[tuple[str, str, str], list[Rule]] = {}
        self._fields: dict[tuple[int, str | None, int], dict[str, Place]] = {}
        self._effects: dict[tuple[int, Target, str], tuple[Effect, ...]] = {}
        self._selectors: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for manifest in filter(_has_selector, rules):
            self._selectors[manifest.namespace].append(selector(manifest, WORKLOAD_MATCH_LABELS))

    def apart(self, hosts: Iterable[Host]) -> frozenset[str]:
        """The namespaces whose clients have other rules than those of most: their own ones for hosts of others, or
        rules that not all see."""
        named = ByNamespace((host.name, host.namespace) for host in hosts)
        made = {self._root}
        for manifest in self._manifests:
            own, exported = manifest.namespace, frozenset(map(str, items(spec_of(manifest).get("exportTo"))))
            is_public = PUBLIC in exported or (not exported and self._are_public)
            if not is_public:
                made |= {own if name == OWN else name for name in exported}
            if not is_public or _has_selector(manifest) or named.of_others(_host_of(manifest), own):
                made.add(own)
        return frozenset(made)

    def selectors(self, namespace: str) -> list[Mapping[str, Any]]:
        """Those by which the rules of a namespace select clients of it."""
        return self._selectors.get(namespace, [])

    def all_for(self, namespace: str, host: Host) -> list[Rule]:
        """The rules of the first namespace that has any for a host."""
        key = namespace, host.name, host.namespace
        if key not in self._all:
            self._all[key] = self._all_for(namespace, host)
        return self._all[key]

    def _all_for(self, namespace: str, host: Host) -> list[Rule]:
        local = self._root_own if namespace == self._root else self._local.get(namespace)
        rules = None if local is None else local.most_specific(host.name)
        if rules is not None:
            return rules
        return self._seen(host.namespace, host, namespace) or self._seen(self._root, host, namespace)

    def _seen(self, owner: str, host: Host, namespace: str) -> list[Rule]:
        exported = self._exported.get(owner)
        rules = (exported.most_specific(host.name) if exported is not None else None) or []
        return [it for it in rules if not it.exported or PUBLIC in it.exported or namespace in it.exported]

    def for_client(self, namespace: str, host: Host, workload: Workload) -> Rule | None:
        """The rule of a client: one for its labels goes before the one for all."""
        chosen = None
        for rule in self.all_for(namespace, host):
            if rule.selector is None:
                chosen = rule
            elif rule.namespace == namespace and has_labels(workload, rule.selector):
                return rule
        return chosen

    def for_server(self, namespace: str, host: Host) -> Rule | None:
        return next((it for it in reversed(self.all_for(namespace, host)) if it.selector is None), None)

    def fields(self, rule: Rule, subset: str | None, port: int) -> dict[str, Place]:
        """The settings of a cluster, each with the place where it is written."""
        key = id(rule), subset, port
        if key not in self._fields:
            self._fields[key] = _fields(rule, subset, port)
        return self._fields[key]

    def effects(
        self, rule: Rule, host: Host, target: Target, is_automatic: Callable[[Host, int], bool]
    ) -> tuple[Effect, ...]:
        """What a rule does at the clients that have it for a cluster: the same in all namespaces."""
        key = id(rule), target, host.namespace
        if key not in self._effects:
            self._effects[key] = tuple(self._of(rule, host, target, is_automatic))
        return self._effects[key]

    def _of(
        self, rule: Rule, host: Host, target: Target, is_automatic: Callable[[Host, int], bool]
    ) -> Iterator[Effect]:
        for name, place in self.fields(rule, target.subset, target.port).items():
            done = _judged(name, place, host, target.port, is_automatic)
            if done is not None:
                what, layer = done
                yield Effect(Direction.OUTBOUND, target.port, host.name, place, layer, what)


def effects(
    rules: Rules,
    scope: Scope,
    workload: Workload,
    targets: Iterable[Target],
    is_automatic: Callable[[Host, int], bool],
) -> Iterator[Effect]:
    """What a sidecar does as a client. `is_automatic` says whether it begins mTLS to a host's port by itself."""
    for target in targets:
        host = scope.hosts.get(target.host)
        if host is None or not any(port.number == target.port for port in host.ports):
            continue
        rule = rules.for_client(scope.namespace, host, workload)
        if rule is None or (target.subset is not None and target.subset not in rule.subsets):
            continue
        yield from rules.effects(rule, host, target, is_automatic)


def inbound_effects(rules: Rules, view: View, scope: Scope, workload: Workload) -> Iterator[Effect]:
    """A server has the connection pools of its clients, too. Of several Services at a port the oldest counts."""
    handled: set[int] = set()
    for host in view.hosts_of_workload.get(key_of(workload), ()):
        known = scope.hosts.get(host.name)
        for port in host.ports:
            number = container_port(workload, port.target)
            if number is None or number in handled:
                continue
            handled.add(number)
            rule = rules.for_server(workload.namespace, host) if known is not None else None
            place = rules.fields(rule, None, port.number).get("connectionPool") if rule is not None else None
            if place is not None:
                yield Effect(Direction.INBOUND, number, None, place, Layer.REQUEST, What.POOL)


def _judged(
    name: str, place: Place, host: Host, port: int, is_automatic: Callable[[Host, int], bool]
) -> tuple[What, Layer] | None:
    """What a setting does; None where Istio does the same without it."""
    if name != "tls":
        return _WHATS[name], Layer.REQUEST
    tls = mapping(at(place.object.data, place.where))
    mode = tls.get("mode") or "DISABLE"
    if mode == "DISABLE":
        return What.PLAINTEXT, Layer.CONNECTION
    if mode != "ISTIO_MUTUAL":
        return What.TLS, Layer.REQUEST
    if {key for key, value in tls.items() if value} - _OWN_IDENTITY:
        return What.MUTUAL_TLS, Layer.REQUEST
    return None if is_automatic(host, port) else (What.MUTUAL_TLS, Layer.CONNECTION)


def _exports(manifest: Object, otherwise: tuple[str, ...]) -> tuple[bool, bool, frozenset[str]]:
    """Whether clients of its own namespace see a rule, whether no others do, and the names that say it."""
    named = frozenset(map(str, items(spec_of(manifest).get("exportTo"))))
    # A rule for some workloads is never seen by other namespaces.
    names = frozenset((OWN,)) if _has_selector(manifest) else named
    own = (OWN, manifest.namespace)
    is_local = not names or PUBLIC in names or any(name in names for name in own)
    is_private = OWN in otherwise if not names else len(names) == 1 and any(name in names for name in own)
    return is_local, is_private, names


def _host_of(manifest: Object) -> str:
    return resolved(str(spec_of(manifest).get("host", "")), manifest.namespace)


def _has_selector(manifest: Object) -> bool:
    return spec_of(manifest).get("workloadSelector") is not None


def _merge(by_host: _Merged, manifest: Object, exported: frozenset[str]) -> None:
    host = _host_of(manifest)
    labels = selector(manifest, WORKLOAD_MATCH_LABELS) if _has_selector(manifest) else None
    listed = by_host.setdefault(host, [])
    is_separate = True
    for rule in listed:
        is_separate = True
        if exported != rule.exported and not (rule.exported and exported >= rule.exported):
            continue
        if labels is not None and rule.selector is not None and labels != rule.selector:
            continue
        if exported == rule.exported or (labels is None) == (rule.selector is None):
            is_separate = False
        _add_to(rule, manifest)
    if is_separate:
        listed.append(_new(manifest, host, exported, labels))


def _new(manifest: Object, host: str, exported: frozenset[str], labels: Mapping[str, Any] | None) -> Rule:
    policy = Place(manifest, _POLICY) if spec_of(manifest).get("trafficPolicy") is not None else None
    rule = Rule(manifest.namespace, host, exported, labels, [], policy, {})
    _add_to(rule, manifest)
    return rule


def _add_to(rule: Rule, manifest: Object) -> None:
    """Put the subsets of a rule into an older one, and its traffic policy if that has none."""
    rule.objects.append(manifest)
    for index, subset in enumerate(items(spec_of(manifest).get("subsets"))):
        place = Place(manifest, ("spec", "subsets", index))
        if rule.subsets.setdefault(str(at(subset, ("name",))), place) is not place:
            rule.overridden.append(place)
    if spec_of(manifest).get("trafficPolicy") is not None:
        place = Place(manifest, _POLICY)
        if rule.policy is None:
            rule.policy = place
        elif rule.policy.object is not manifest:
            rule.overridden.append(place)


def _fields(rule: Rule, subset: str | None, port: int) -> dict[str, Place]:
    made: dict[str, Place] = {}
    if rule.policy is not None:
        made, _ = _at_port(rule.policy, port)
    if subset is None:
        return made
    inner = rule.subsets[subset]
    where: Where = (*inner.where, "trafficPolicy")
    if not at(inner.object.data, where):
        return made
    own, has_port = _at_port(Place(inner.object, where), port)
    if has_port and made:
        made = {name: place for name, place in made.items() if name not in _OF_PORT}
    return {**made, **own}


def _at_port(policy: Place, port: int) -> tuple[dict[str, Place], bool]:
    """The settings of a traffic policy for a port, and whether they are the port's own."""
    data = mapping(at(policy.object.data, policy.where))
    for index, part in enumerate(items(data.get("portLevelSettings"))):
        if at(part, ("port", "number")) == port:
            where = (*policy.where, "portLevelSettings", index)
            return {name: Place(policy.object, (*where, name)) for name in _OF_PORT if part.get(name) is not None}, True
    return {name: Place(policy.object, (*policy.where, name)) for name in _WHATS if data.get(name) is not None}, False
