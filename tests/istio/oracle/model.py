"""What the model of `admc advise` says of a mesh, as an `Answer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from admc.istio.in_force import authorization
from admc.istio.in_force.authorization import is_of_requests
from admc.istio.in_force.destination_rules import Rule, Rules
from admc.istio.in_force.judge import Judged, in_force
from admc.istio.in_force.peer_authentication import Mode, modes
from admc.istio.in_force.protocols import Protocol
from admc.istio.in_force.registry import Host, Port, container_port
from admc.istio.in_force.sidecar_scope import Scope
from admc.istio.in_force.view import View, key_of
from admc.istio.in_force.virtual_services import Taken, Target
from admc.istio.mesh.model import Place as Field
from admc.istio.mesh.model import Workload, spec_of
from admc.manifests.documents import Object, at
from tests.istio.objects import mesh_of
from tests.istio.oracle.answers import HTTP, INBOUND, OUTBOUND, TCP, Answer, Held, Place
from tests.istio.oracle.answers import Rule as EnforcedRule
from tests.istio.oracle.facts import DRY_RUN
from tests.istio.oracle.meshes import HEADLESS, Case


def model_answer(case: Case) -> Answer:
    mesh, _ = mesh_of(*case.documents())
    judged = in_force(mesh)
    places: dict[Place, Held] = {}
    closed = set()
    for sidecar in judged.sidecars:
        rules = judged.rules[sidecar.view.revision]
        places.update(_inbound(sidecar.view, rules, sidecar.scope, sidecar.workload))
        places.update(_outbound(sidecar, rules))
        if _is_closed(sidecar.view, sidecar.scope):
            closed.add(_name(sidecar.workload))
    return Answer(places, frozenset(closed))


def _name(workload: Workload) -> str:
    return f"{workload.namespace}/{workload.name}"


def _is_closed(view: View, scope: Scope) -> bool:
    mode = at(spec_of(scope.sidecar), ("outboundTrafficPolicy", "mode")) if scope.sidecar else None
    return view.configuration.is_closed if mode is None else mode == "REGISTRY_ONLY"


def _protocols(protocol: Protocol) -> tuple[str, ...]:
    return (HTTP,) * protocol.may_be_http + (TCP,) * (protocol.may_be_tcp or protocol is Protocol.TLS)


def _inbound(view: View, rules: Rules, scope: Scope, workload: Workload) -> Iterator[tuple[Place, Held]]:
    mode = modes(view, workload.namespace, workload)
    ports: dict[int, tuple[Host, Port]] = {}
    for host in view.hosts_of_workload.get(key_of(workload), ()):
        for port in host.ports:
            ports.setdefault(container_port(workload, port.target) or 0, (host, port))
    for number, (host, port) in ports.items():
        rule = rules.for_server(workload.namespace, host) if host.name in scope.hosts else None
        place = rules.fields(rule, None, port.number).get("connectionPool") if rule is not None else None
        resources = frozenset(() if place is None else (_named(place.object),))
        for protocol in _protocols(port.protocol):
            yield _guarded(view, workload, number, protocol, resources, mode.at_port(number).mode)
    for number in {0, *mode.ports} - ports.keys():
        for protocol in (HTTP, TCP):
            yield _guarded(view, workload, number, protocol, frozenset(), mode.at_port(number).mode)


def _guarded(
    view: View, workload: Workload, port: int, protocol: str, resources: frozenset[str], mode: str
) -> tuple[Place, Held]:
    rules: set[EnforcedRule] = set()
    actions = set()
    for policy in authorization.policies(view, workload):
        action = authorization.action(policy)
        if authorization.is_dry_run(policy):
            action = f"{DRY_RUN} {action}"
        actions.add(action)
        for number, rule in enumerate(authorization.rules(policy)):
            reads = any(map(is_of_requests, authorization.conditions(rule)))
            if reads and protocol == TCP and action.endswith("ALLOW"):
                continue
            rules.add(EnforcedRule(action, f"{policy.namespace}/{policy.name}", number, reads and protocol == HTTP))
    held = Held(resources, (), frozenset(rules), frozenset(actions), str(mode))
    return Place(_name(workload), INBOUND, "", port, protocol), held


def _outbound(sidecar: Judged, rules: Rules) -> Iterator[tuple[Place, Held]]:
    scope, workload = sidecar.scope, sidecar.workload
    targets = sidecar.clients.routing.targets(scope)
    taken: dict[tuple[str, int, str], list[Taken]] = {}
    for one in sidecar.clients.routing.taken:
        taken.setdefault((one.host, one.port, HTTP if one.is_http else TCP), []).append(one)
    hosts = {
        (host.name, port.number, protocol): (host, port)
        for listener in scope.listeners
        for host in listener.hosts.values()
        for port in host.ports
        if scope.listener(port.number) is listener
        for protocol in _protocols(port.protocol)
    }
    for key in hosts.keys() | taken.keys():
        own = taken.get(key, [])
        resources = {_named(one.resource) for one in own}
        tls = ""
        if key in hosts:
            host, port = hosts[key]
            rule = rules.for_client(workload.namespace, host, workload)
            resources |= _limits(rules, rule, host, port, targets)
            tls = _tls(sidecar.view, host, rules.fields(rule, None, port.number) if rule is not None else {})
            if not host.is_service:
                resources.add(_named(host.object))
        # A rule that delegates has no name here: the routes of the delegate have theirs.
        names = (_route(place) for one in own for place in one.places if place.where[1] == "http")
        held = Held(frozenset(resources), tuple(dict.fromkeys(filter(None, names))), tls=tls)
        yield Place(_name(workload), OUTBOUND, *key), held


def _tls(view: View, host: Host, fields: Mapping[str, Field]) -> str:
    """What the client begins: what a DestinationRule says, or mutual TLS with the endpoints that take it."""
    if "tls" in fields:
        place = fields["tls"]
        mode = str(at(place.object.data, (*place.where, "mode")))
        return {"DISABLE": "", "SIMPLE": "simple", "MUTUAL": "mutual", "ISTIO_MUTUAL": "istio_mutual"}[mode]
    passes = spec_of(host.object).get("clusterIP") == HEADLESS or _passes(fields)
    if passes and not host.all_have_sidecars:
        # Its cluster cannot choose by endpoint.
        return ""
    is_disabled = modes(view, host.namespace, None).all.mode is Mode.DISABLE
    if is_disabled or host.is_external or not view.configuration.has_auto_mtls:
        return ""
    return "istio_mutual" if passes else "auto"


def _passes(fields: Mapping[str, Field]) -> bool:
    """Whether the client goes to the address that it was given."""
    place = fields.get("loadBalancer")
    return place is not None and at(place.object.data, (*place.where, "simple")) == "PASSTHROUGH"


def _limits(rules: Rules, rule: Rule | None, host: Host, port: Port, targets: Iterable[Target]) -> set[str]:
    if rule is None:
        return set()
    subsets = [None, *(it.subset for it in targets if (it.host, it.port) == (host.name, port.number))]
    own = [subset for subset in subsets if subset is None or subset in rule.subsets]
    places = [rules.fields(rule, subset, port.number).get("connectionPool") for subset in own]
    return {_named(place.object) for place in places if place is not None}


def _route(place: Field) -> str:
    return str(at(place.object.data, (*place.where, "name")) or "")


def _named(manifest: Object) -> str:
    return f"{manifest.kind} {manifest.namespace}/{manifest.name}"
