"""Judges a mesh: each effect of each resource at each sidecar."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from admc.istio.in_force import (
    authorization,
    destination_rules,
    identity,
    mesh_wide,
    not_judged,
    peer_authentication,
    telemetry,
    virtual_services,
)
from admc.istio.in_force.calls import EVERY_CALL, Calls
from admc.istio.in_force.effects import Direction
from admc.istio.in_force.registry import container_port
from admc.istio.in_force.sidecar_scope import Scopes
from admc.istio.in_force.view import views_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.istio.in_force.authorization import Widened
    from admc.istio.in_force.effects import Effect
    from admc.istio.in_force.registry import Host
    from admc.istio.in_force.sidecar_scope import Scope
    from admc.istio.in_force.view import View
    from admc.istio.in_force.virtual_services import Behind, Routing, Taken
    from admc.istio.mesh.model import Mesh, Workload


@dataclass(frozen=True)
class Judged:
    """What is in force at one sidecar."""

    view: View
    workload: Workload
    scope: Scope
    effects: tuple[Effect, ...]
    """Those for the calls of the workload."""
    uncalled: tuple[Effect, ...]
    """Those for hosts that the workload does not call."""
    taken: tuple[Taken, ...]
    behind: tuple[Behind, ...]


@dataclass(frozen=True)
class InForce:
    sidecars: tuple[Judged, ...]
    rules: Mapping[str, destination_rules.Rules]
    """The DestinationRules of each revision."""
    widened: tuple[Widened, ...]
    calls: Calls

    @property
    def effects(self) -> Iterator[Effect]:
        for sidecar in self.sidecars:
            yield from sidecar.effects


def in_force(mesh: Mesh, calls: Calls = EVERY_CALL) -> InForce:
    sidecars: list[Judged] = []
    widened: list[Widened] = []
    rules = {}
    for view in views_of(mesh):
        rules[view.revision] = destination_rules.Rules(view)
        sidecars += _of_view(view, rules[view.revision], calls)
        for workload in view.workloads:
            widened += authorization.widened(view, workload)
    return InForce(tuple(sidecars), rules, tuple(widened), calls)


def _of_view(view: View, rules: destination_rules.Rules, calls: Calls) -> Iterator[Judged]:
    scopes = Scopes(view)
    demands = identity.demands_of(view)
    automatic = Automatic(view)
    router = virtual_services.Router(view)
    for workload in view.workloads:
        scope = scopes.of(workload)
        routes = router.routing(scope, workload)
        # In an order of their own: that of a set is another one in each run.
        targets = sorted(routes.targets(scope), key=lambda it: (it.host, it.port, it.subset or ""))
        made = [
            *virtual_services.effects(workload, routes),
            *destination_rules.effects(rules, scope, workload, targets, automatic.begins),
            *destination_rules.inbound_effects(rules, view, scope, workload),
            *peer_authentication.effects(view, workload),
            *authorization.effects(view, workload),
            *telemetry.effects(view, workload),
            *mesh_wide.effects(view, workload),
            *not_judged.effects(view, scope, workload),
            *identity.effects(demands, scope, workload, calls),
        ]
        reached = _reached(routes)
        called = [it for it in made if _is_called(it, reached, calls)]
        left = {id(it) for it in called}
        uncalled = tuple(it for it in made if id(it) not in left)
        yield Judged(view, workload, scope, tuple(called), uncalled, routes.taken, routes.behind)


def _reached(routes: Routing) -> Mapping[str, frozenset[str]]:
    """Hosts between which routes lead: a call of one is measured as a call of the other."""
    made: dict[str, set[str]] = defaultdict(set)
    for taken in routes.taken:
        for target in taken.targets:
            made[taken.host].add(target.host)
            made[target.host].add(taken.host)
    return {host: frozenset(others) for host, others in made.items()}


def _is_called(effect: Effect, reached: Mapping[str, frozenset[str]], calls: Calls) -> bool:
    if effect.direction is not Direction.OUTBOUND or effect.peer is None:
        return True
    return calls.may(effect.workload, (effect.peer, *reached.get(effect.peer, ())))


class Automatic:
    """Whether sidecars begin mTLS to a port of a host by themselves."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[tuple[str, str, int], bool] = {}

    def begins(self, host: Host, port: int) -> bool:
        key = host.name, host.namespace, port
        if key not in self._known:
            self._known[key] = self._begins(host, port)
        return self._known[key]

    def _begins(self, host: Host, port: int) -> bool:
        if not self._view.configuration.has_auto_mtls or host.is_external or not host.all_have_sidecars:
            return False
        disabled = peer_authentication.Mode.DISABLE
        if peer_authentication.modes(self._view, host.namespace, None).all.mode is disabled:
            return False
        target = next((it.target for it in host.ports if it.number == port), port)
        for workload in host.workloads:
            number = container_port(workload, target)
            own = peer_authentication.modes(self._view, workload.namespace, workload)
            if (own.all if number is None else own.at_port(number)).mode is disabled:
                return False
        return True
