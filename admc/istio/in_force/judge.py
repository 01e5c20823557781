"""Judges a mesh: each effect of each resource at each sidecar."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from admc.istio.in_force import (
    authorization,
    destination_rules,
    mesh_wide,
    not_judged,
    peer_authentication,
    telemetry,
)
from admc.istio.in_force.calls import EVERY_CALL, Calls
from admc.istio.in_force.clients import Classes, Clients
from admc.istio.in_force.registry import container_port
from admc.istio.in_force.view import views_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from admc.istio.in_force.authorization import Widened
    from admc.istio.in_force.effects import Effect
    from admc.istio.in_force.registry import Host
    from admc.istio.in_force.sidecar_scope import Scope
    from admc.istio.in_force.view import View
    from admc.istio.mesh.model import Mesh, Workload


@dataclass(frozen=True)
class Judged:
    """What is in force at one sidecar."""

    workload: Workload
    clients: Clients
    own: tuple[Effect, ...]
    """Those that it does not have as one of these clients."""

    @property
    def view(self) -> View:
        return self.clients.view

    @property
    def scope(self) -> Scope:
        return self.clients.scope

    @property
    def effects(self) -> Iterator[Effect]:
        """Those for the calls of the workload."""
        yield from self.clients.effects_of(self.workload)
        yield from self.own


@dataclass(frozen=True)
class InForce:
    sidecars: tuple[Judged, ...]
    rules: Mapping[str, destination_rules.Rules]
    """The DestinationRules of each revision."""
    widened: tuple[Widened, ...]

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """Each effect once, at however many sidecars it is."""
        made: dict[int, Effect] = {}
        for clients, (first, *others) in self.classes:
            made.update({id(it): it for it in (clients.effects if others else clients.effects_of(first))})
        for sidecar in self.sidecars:
            made.update({id(it): it for it in sidecar.own})
        return tuple(made.values())

    @cached_property
    def classes(self) -> tuple[tuple[Clients, tuple[Workload, ...]], ...]:
        """Each class of clients, with its workloads."""
        clients = {id(it.clients): it.clients for it in self.sidecars}
        workloads: dict[int, list[Workload]] = defaultdict(list)
        for sidecar in self.sidecars:
            workloads[id(sidecar.clients)].append(sidecar.workload)
        return tuple((clients[key], tuple(listed)) for key, listed in workloads.items())


def in_force(mesh: Mesh, calls: Calls = EVERY_CALL) -> InForce:
    sidecars: list[Judged] = []
    widened: list[Widened] = []
    rules = {}
    called = calls.by_caller()
    for view in views_of(mesh):
        rules[view.revision] = destination_rules.Rules(view)
        sidecars += _of_view(view, rules[view.revision], called)
        for workload in view.workloads:
            widened += authorization.widened(view, workload)
    return InForce(tuple(sidecars), rules, tuple(widened))


def _of_view(
    view: View, rules: destination_rules.Rules, called: Mapping[tuple[str, str], frozenset[str]] | None
) -> Iterator[Judged]:
    classes = Classes(view, rules, called, Automatic(view).begins)
    for workload in view.workloads:
        clients = classes.of(workload)
        own = (
            *destination_rules.inbound_effects(rules, view, clients.scope, workload),
            *peer_authentication.effects(view, workload),
            *authorization.effects(view, workload),
            *telemetry.effects(view, workload),
            *mesh_wide.effects(view, workload),
            *not_judged.effects(view, clients.scope, workload),
            *classes.own_effects(workload, clients),
        )
        yield Judged(workload, clients, own)


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
