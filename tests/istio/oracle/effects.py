"""What resources do at each sidecar: by Istio's configuration, and by the effects that `admc advise` counts.

A resource that is in force and changes nothing has no effect: a route of a host to itself, settings of a cluster that
no route leads to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from admc.istio.in_force.effects import Effect as ModelEffect
from admc.istio.in_force.effects import What
from admc.istio.in_force.judge import in_force
from admc.istio.mesh.model import Workload
from tests.istio.objects import Json, mesh_of
from tests.istio.oracle.answers import INBOUND, OUTBOUND
from tests.istio.oracle.facts import Known, hosts_of, known_names, named, policies_of, used_clusters
from tests.istio.oracle.meshes import FILTER, Case

_COUNTED: Final = frozenset(
    (What.NOT_JUDGED, What.ROUTE, What.POOL, What.AUTHORIZATION, What.DRY_RUN, What.ALLOWED_ANYWAY),
)
"""Of a DestinationRule the connection pool alone: each of these tests has another number there."""


_NOT_JUDGED: Final = {FILTER: "EnvoyFilter", "issuer ": "RequestAuthentication"}
_EVERYTHING: Final = ("", "regex .*")
"""The matches that all requests have."""


class Effect(NamedTuple):
    workload: str
    direction: str
    host: str
    port: int
    """0 for all ports."""
    resource: str


def of_istio(case: Case, proxies: Mapping[str, Json]) -> frozenset[Effect]:
    known = known_names(case)
    sidecars = case.of_sidecars(proxies)
    return frozenset(effect for workload, facts in sidecars.items() for effect in _of_proxy(workload, facts, known))


def of_model(case: Case) -> frozenset[Effect]:
    mesh, _ = mesh_of(*case.documents())
    return frozenset(
        _of_model(sidecar.workload, effect)
        for sidecar in in_force(mesh).sidecars
        for effect in sidecar.effects
        if _is_counted(effect)
    )


def _is_counted(effect: ModelEffect) -> bool:
    is_sidecar = effect.what is What.NOT_JUDGED and effect.resource.object.kind == "Sidecar"
    return effect.what in _COUNTED and not is_sidecar


def _of_model(workload: Workload, effect: ModelEffect) -> Effect:
    manifest = effect.resource.object
    resource = f"{manifest.kind} {manifest.namespace}/{manifest.name}"
    name = f"{workload.namespace}/{workload.name}"
    return Effect(name, str(effect.direction or ""), effect.peer or "", effect.port or 0, resource)


def _of_proxy(workload: str, facts: Json, known: Known) -> Iterator[Effect]:
    for name in facts.get("filters", ()):
        for prefix, kind in _NOT_JUDGED.items():
            if name.startswith(prefix):
                yield Effect(workload, "", "", 0, f"{kind} {name.removeprefix(prefix)}")
    for chain in facts.get("inbound", ()):
        for policy in policies_of(chain):
            yield Effect(workload, INBOUND, "", 0, f"AuthorizationPolicy {policy}")
    used = used_clusters(facts)
    for name, cluster in facts.get("clusters", {}).items():
        direction, port, _, host = name.split("|")
        limit = cluster.get("connections", 0)
        if limit and (direction == INBOUND or name in used):
            yield Effect(workload, direction, host, int(port), known.limits[limit])
    for virtual_host in facts.get("routes", ()):
        host, _, port = virtual_host["name"].rpartition(":")
        yield from _of_routes(workload, host, port, virtual_host.get("routes", ()), known)
    for chain in facts.get("outbound", ()):
        for host in hosts_of(chain, known):
            yield from _of_routes(workload, host, str(chain["port"]), [chain], known)


def resources_of(facts: Json) -> frozenset[str]:
    """The VirtualServices of which a proxy has a route."""
    routes = [route for virtual_host in facts.get("routes", ()) for route in virtual_host.get("routes", ())]
    return frozenset(named(it["resource"]) for it in (*routes, *facts.get("outbound", ())) if it.get("resource"))


def limits_of(facts: Json) -> frozenset[int]:
    """The limits on connections of the clusters that a proxy uses."""
    used = used_clusters(facts)
    numbers = [
        cluster.get("connections", 0)
        for name, cluster in facts.get("clusters", {}).items()
        if name in used or name.split("|")[0] == INBOUND
    ]
    return frozenset(numbers) - {0}


def _of_routes(workload: str, host: str, port: str, routes: list[Json], known: Known) -> Iterator[Effect]:
    """The effects of VirtualServices. A gateway's resource is not in these routes."""
    own = [route for route in routes if route.get("resource")]
    takes_all = any(route.get("match", "") in _EVERYTHING for route in own)
    if own and not (takes_all and all(_is_plain(route, host, port) for route in own)):
        for route in own:
            resource = named(route["resource"])
            for name in {resource, known.authors.get(route.get("name", ""), resource)}:
                yield Effect(workload, OUTBOUND, host, int(port), name)


def _is_plain(route: Mapping[str, Any], host: str, port: str) -> bool:
    """Whether requests go to their host, as they do without the route."""
    changed = route.keys() & {"timeout", "retries", "mirrors", "action", "filters", "hashes", "names"}
    return not changed and route.get("clusters") == [f"outbound|{port}||{host}"]
