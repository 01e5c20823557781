"""What a server has to know of its callers: who they are. Without a sidecar a caller cannot show it.

A server that requires mTLS, or that names identities in its rules, needs the sidecars of its callers, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.istio.in_force.authorization import names, never_matches, policies
from admc.istio.in_force.effects import Direction, Effect, Layer, What, key_of_place
from admc.istio.in_force.peer_authentication import Mode, modes
from admc.istio.in_force.registry import container_port
from admc.istio.in_force.view import key_of
from admc.istio.mesh.model import Place, Proxy, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.istio.in_force.calls import Calls
    from admc.istio.in_force.effects import PlaceKey
    from admc.istio.in_force.registry import Host
    from admc.istio.in_force.sidecar_scope import Scope
    from admc.istio.in_force.view import View
    from admc.manifests.documents import Object


class Demands(NamedTuple):
    """What the workloads behind one host ask of their callers."""

    strict: tuple[Place, ...]
    """Where mTLS is required."""
    policies: tuple[Object, ...]
    trust_domain: str


def demands_of(view: View) -> Mapping[str, Demands]:
    """The demands of each host, by its name and namespace."""
    by_workload: dict[tuple[str, str, str], list[Object]] = {}
    made = {}
    for host in view.hosts:
        strict: dict[PlaceKey, Place] = {}
        listed: dict[int, Object] = {}
        for workload in host.workloads:
            if not (workload.number(Proxy.SIDECAR) or workload.number(Proxy.AMBIENT)):
                continue
            strict.update({key_of_place(it): it for it in _strict(view, workload, host)})
            key = key_of(workload)
            if key not in by_workload:
                by_workload[key] = [it for it in policies(view, workload) if not never_matches(it)]
            listed.update({id(it): it for it in by_workload[key]})
        if strict or listed:
            trust_domain = view.configuration.trust_domain
            made[f"{host.namespace}/{host.name}"] = Demands(
                tuple(strict.values()), tuple(listed.values()), trust_domain
            )
    return made


def _strict(view: View, server: Workload, host: Host) -> Iterator[Place]:
    own = modes(view, server.namespace, server)
    for port in host.ports:
        number = container_port(server, port.target)
        mode, place = own.all if number is None else own.at_port(number)
        if mode is Mode.STRICT and place is not None:
            yield place


def effects(demands: Mapping[str, Demands], scope: Scope, caller: Workload, calls: Calls) -> Iterator[Effect]:
    """One effect for each resource that needs the identity of a caller."""
    handled: set[PlaceKey] = set()
    for host in scope.hosts.values():
        wanted = demands.get(f"{host.namespace}/{host.name}")
        is_own = all(it is caller for it in host.workloads)
        if wanted is None or is_own or not calls.may(caller, (host.name,)):
            continue
        for place in _needed(wanted, caller):
            key = key_of_place(place)
            if key not in handled:
                handled.add(key)
                yield Effect(caller, Direction.OUTBOUND, None, host.name, place, Layer.CONNECTION, What.IDENTITY)


def _needed(demands: Demands, caller: Workload) -> Iterator[Place]:
    yield from demands.strict
    for manifest in demands.policies:
        place = names(manifest, caller, demands.trust_domain)
        if place is not None:
            yield place
