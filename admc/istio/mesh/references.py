"""Findings about resources that contradict themselves or each other, or name what is not there."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.istio.inputs.reading import diagnostic, named
from admc.istio.mesh.model import Mesh, Workload, spec_of
from admc.istio.mesh.presence import DEFAULT_REVISION, REVISION
from admc.istio.schemas.violation import Violation, shown
from admc.manifests.documents import Object, Where, at
from admc.manifests.places import span_of
from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS, Diagnostic, Related, Severity, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NETWORKING: Final = "networking.istio.io"
DOMAIN: Final = "cluster.local"
_PROTOCOLS: Final = ("http", "tls", "tcp")


class Destination(NamedTuple):
    """A `destination` in a route."""

    object: Object
    where: Where
    host: str
    """Its full name."""
    subset: str | None


def reference_findings(mesh: Mesh) -> Iterator[Diagnostic]:
    for manifest in mesh.of_kind(NETWORKING, "VirtualService"):
        yield from _weights(manifest)
    yield from _hosts(mesh)
    yield from _subsets(mesh)
    yield from _sidecars(mesh)
    yield from _revisions(mesh)


def full_name(host: str, namespace: str) -> str:
    """The name of a host as Istio takes it: one without a dot is a Service of the resource's own namespace."""
    return host if "." in host or host == "*" else f"{host}.{namespace}.svc.{DOMAIN}"


def destinations(manifest: Object) -> Iterator[Destination]:
    """Every destination of a VirtualService: of its routes, and of the copies that it sends."""
    for protocol in _PROTOCOLS:
        for index, http in enumerate(_list(spec_of(manifest).get(protocol))):
            where: Where = ("spec", protocol, index)
            for inner, route in enumerate(_list(at(http, ("route",)))):
                yield from _destination(manifest, (*where, "route", inner, "destination"), at(route, ("destination",)))
            yield from _destination(manifest, (*where, "mirror"), at(http, ("mirror",)))
            for inner, copy in enumerate(_list(at(http, ("mirrors",)))):
                yield from _destination(manifest, (*where, "mirrors", inner, "destination"), at(copy, ("destination",)))


def _destination(manifest: Object, where: Where, data: Any) -> Iterator[Destination]:
    host = at(data, ("host",))
    if isinstance(host, str):
        subset = at(data, ("subset",))
        yield Destination(manifest, where, full_name(host, manifest.namespace), subset or None)


def _weights(manifest: Object) -> Iterator[Diagnostic]:
    for protocol in _PROTOCOLS:
        for index, rule in enumerate(_list(spec_of(manifest).get(protocol))):
            routes = _list(at(rule, ("route",)))
            if len(routes) > 1 and not any(at(route, ("weight",)) for route in routes):
                where = ("spec", protocol, index, "route")
                message = f"all destinations of `{shown(where)}` have the weight 0"
                hint = "give each destination its share in percent; they add up to 100"
                yield diagnostic(manifest, Violation("ADM980", where, message, "Istio refuses such a route", hint))


class Hosts(NamedTuple):
    """The hosts that the mesh has."""

    exact: frozenset[str]
    ends: tuple[str, ...]
    """The ends of those with a wildcard."""


def known_hosts(mesh: Mesh) -> Hosts:
    exact = {f"{service.name}.{service.namespace}.svc.{DOMAIN}" for service in mesh.services}
    ends = []
    for entry in mesh.of_kind(NETWORKING, "ServiceEntry"):
        for host in _list(spec_of(entry).get("hosts")):
            if isinstance(host, str) and host.startswith("*"):
                ends.append(host[1:])
            elif isinstance(host, str):
                exact.add(host)
    return Hosts(frozenset(exact), tuple(ends))


def is_known(host: str, hosts: Hosts) -> bool:
    """Whether the mesh has a host. Where it has none at all there is nothing to compare with."""
    if not any(hosts) or host in hosts.exact or host.endswith(hosts.ends):
        return True
    return host.startswith("*") and any(other.endswith(host[1:]) for other in hosts.exact)


def _hosts(mesh: Mesh) -> Iterator[Diagnostic]:
    """Destinations whose host is none of the mesh."""
    hosts = known_hosts(mesh)
    rules = mesh.of_kind(NETWORKING, "DestinationRule")
    if not any(hosts) and (rules or mesh.of_kind(NETWORKING, "VirtualService")):
        yield _without_hosts()
        return
    places = [place for manifest in mesh.of_kind(NETWORKING, "VirtualService") for place in destinations(manifest)]
    places += [
        Destination(rule, ("spec", "host"), full_name(_text(rule, "host"), rule.namespace), None) for rule in rules
    ]
    short = sorted(host.removesuffix(f".svc.{DOMAIN}") for host in hosts.exact)
    for number, place in enumerate(place for place in places if not is_known(place.host, hosts)):
        shown_host = place.host.removesuffix(f".svc.{DOMAIN}")
        message = f"no Service and no ServiceEntry has the host `{shown_host[:300]}`"
        # No more are shown, and the search for a hint is slow.
        close = did_you_mean(shown_host, short) if number < MAX_DIAGNOSTICS else None
        hint = _hint_of_host(place.host, hosts) or close
        yield diagnostic(place.object, Violation("ADM919", place.where, message, None, hint), Severity.WARNING)


def _without_hosts() -> Diagnostic:
    message = "no Service and no ServiceEntry was given, so no host of a route or a rule is compared with them"
    cause = "whether a host is there is not known, and a rule for a host that is not there is in force nowhere"
    hint = "give the Services, too: `kubectl get services -A -o yaml`"
    return Diagnostic("ADM919", Severity.WARNING, message, None, cause, hint)


def _hint_of_host(host: str, hosts: Hosts) -> str | None:
    whole = f"{host}.svc.{DOMAIN}"
    return f"Istio takes a name with a dot as it is: write `{whole}`" if whole in hosts.exact else None


def _subsets(mesh: Mesh) -> Iterator[Diagnostic]:
    rules = mesh.of_kind(NETWORKING, "DestinationRule")
    subsets: dict[str, set[str]] = defaultdict(set)
    for rule in rules:
        host = full_name(_text(rule, "host"), rule.namespace)
        subsets[host] |= {str(at(subset, ("name",))) for subset in _list(spec_of(rule).get("subsets"))}
    wildcards = [host for host in subsets if host.startswith("*")]
    hosts = known_hosts(mesh)
    for manifest in mesh.of_kind(NETWORKING, "VirtualService"):
        for place in destinations(manifest):
            names = set(subsets.get(place.host, ()))
            for host in wildcards:
                names |= subsets[host] if place.host.endswith(host[1:]) else set()
            if place.subset is None or place.subset in names or not is_known(place.host, hosts):
                continue
            message = f"no DestinationRule of its host has the subset `{place.subset[:100]}`"
            hint = did_you_mean(place.subset, sorted(names))
            cause = "Envoy answers requests of this route with 503"
            where = (*place.where, "subset")
            yield diagnostic(manifest, Violation("ADM919", where, message, cause, hint), Severity.WARNING)


def _sidecars(mesh: Mesh) -> Iterator[Diagnostic]:
    """Two Sidecars for one workload: which of them holds is not defined."""
    by_namespace: dict[str, list[Object]] = defaultdict(list)
    for manifest in mesh.of_kind(NETWORKING, "Sidecar"):
        by_namespace[manifest.namespace].append(manifest)
    for listed in by_namespace.values():
        # One with a selector goes before the one of the namespace.
        for other in [manifest for manifest in listed if not _selector(manifest)][1:]:
            first = next(manifest for manifest in listed if not _selector(manifest))
            yield _both(first, other, "the whole namespace")
    pairs: set[tuple[int, int]] = set()
    for workload in mesh.workloads:
        selecting = [it for it in by_namespace.get(workload.namespace, ()) if _selects(_selector(it), workload)]
        for other in selecting[1:]:
            if (id(selecting[0]), id(other)) not in pairs:
                pairs.add((id(selecting[0]), id(other)))
                yield _both(selecting[0], other, f"{workload.kind} `{workload.namespace}/{workload.name}`")


def _selector(manifest: Object) -> Mapping[str, Any]:
    labels = at(manifest.data, ("spec", "workloadSelector", "labels"))
    return labels if isinstance(labels, dict) else {}


def _selects(selector: Mapping[str, Any], workload: Workload) -> bool:
    return bool(selector) and all(workload.labels.get(key) == value for key, value in selector.items())


def _both(one: Object, other: Object, subject: str) -> Diagnostic:
    cause = "Istio leaves open which of them holds"
    message = f"this Sidecar and another one are both for {subject}"
    related = (Related(span_of(one.document, one.where), f"the other one, {named(one)}"),)
    return diagnostic(other, Violation("ADM981", (), message, cause), Severity.WARNING, related)


def _revisions(mesh: Mesh) -> Iterator[Diagnostic]:
    """Labels that name a revision which is none of those that are known. Without any, there is nothing to compare."""
    if not mesh.revisions:
        return
    known = sorted({*mesh.revisions, *mesh.tags})
    for namespace in mesh.namespaces.values():
        name = at(namespace.data, ("metadata", "labels", REVISION))
        if isinstance(name, str) and name not in known:
            yield _unknown_revision(namespace, ("metadata", "labels", REVISION), name, known)
    for workload in mesh.workloads:
        place, name = workload.presence.place, workload.presence.revision
        if name is None or name in known or name == DEFAULT_REVISION or place is None:
            continue
        if place.object is workload.object and place.where[-1] == REVISION:
            yield _unknown_revision(place.object, place.where, name, known)


def _unknown_revision(manifest: Object, where: Where, name: str, known: list[str]) -> Diagnostic:
    message = f"there is no revision and no tag `{name[:100]}` of Istio here"
    listed = ", ".join(f"`{one}`" for one in known[:10])
    cause = f"known are {listed}; a pod that no revision injects has no sidecar"
    hint = did_you_mean(name, known) or "give the configuration of that revision, too, or its webhook"
    return diagnostic(manifest, Violation("ADM983", where, message, cause, hint), Severity.WARNING)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(manifest: Object, field: str) -> str:
    return str(spec_of(manifest).get(field, ""))
