"""Sidecars as clients: those that see the same, and that the same selectors select, have the same effects.

scope, labels --> Outbound: what is in force for each host
Outbound, calls --> Clients: what of it is in force for the hosts that they call
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from admc.istio.in_force import destination_rules, identity, not_judged, virtual_services
from admc.istio.in_force.delegates import HttpRoutes
from admc.istio.in_force.selection import Selecting, has_labels
from admc.istio.in_force.sidecar_scope import Scope, Scopes
from admc.istio.in_force.view import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from admc.istio.in_force.effects import Effect
    from admc.istio.in_force.registry import Host
    from admc.istio.in_force.view import View, WorkloadKey
    from admc.istio.in_force.virtual_services import Routing
    from admc.istio.mesh.model import Workload

Selection = frozenset[tuple[str, Any]]
"""The labels that a selector asks for."""


@dataclass(frozen=True)
class Outbound:
    """What is in force for the hosts that a sidecar sees."""

    scope: Scope
    routing: Routing
    effects: tuple[Effect, ...]

    @cached_property
    def _by_peer(self) -> Mapping[str | None, list[int]]:
        made: dict[str | None, list[int]] = defaultdict(list)
        for position, effect in enumerate(self.effects):
            made[effect.peer].append(position)
        return made

    @cached_property
    def _reached(self) -> Mapping[str, set[str]]:
        """Hosts between which routes lead: a call of one is measured as a call of the other."""
        made: dict[str, set[str]] = defaultdict(set)
        for taken in self.routing.taken:
            for target in taken.targets:
                made[taken.host].add(target.host)
                made[target.host].add(taken.host)
        return made

    def called(self, hosts: frozenset[str]) -> tuple[Effect, ...]:
        """The effects for hosts that are called, and for all hosts."""
        peers: set[str | None] = {None, *hosts}
        for host in hosts:
            peers |= self._reached.get(host, set())
        return tuple(self.effects[at] for at in sorted(at for peer in peers for at in self._by_peer.get(peer, ())))


@dataclass(frozen=True)
class Clients:
    """Sidecars that have the same effects as clients: one scope, the same selectors for them, the same calls."""

    view: View
    outbound: Outbound
    hosts: Mapping[str, Host]
    """Those that they call."""
    effects: tuple[Effect, ...]
    """Those for these hosts."""
    except_for: Mapping[WorkloadKey, frozenset[int]]
    """Positions of effects that one of the sidecars does not have."""

    def effects_of(self, workload: Workload) -> Iterator[Effect]:
        """The effects that one of the sidecars has."""
        without = self.except_for.get(key_of(workload), frozenset())
        return (effect for position, effect in enumerate(self.effects) if position not in without)

    @property
    def scope(self) -> Scope:
        return self.outbound.scope

    @property
    def routing(self) -> Routing:
        return self.outbound.routing


class Classes:
    """The classes of clients of a view. Each is made once."""

    def __init__(
        self,
        view: View,
        rules: destination_rules.Rules,
        called: Mapping[tuple[str, str], frozenset[str]] | None,
        is_automatic: Callable[[Host, int], bool],
    ) -> None:
        """`called` has the hosts that each workload calls; None where each may call all that it sees."""
        self._view = view
        self._routes = routes = HttpRoutes(view)
        self._rules = rules
        self._called = called
        self._is_automatic = is_automatic
        self._scopes = Scopes(view, routes, rules.apart(view.hosts))
        self._router = virtual_services.Router(routes)
        self._demands = identity.Demands(view)
        self._selecting: dict[int, Selecting[Selection]] = {}
        self._outbound: dict[tuple[int, frozenset[Selection]], Outbound] = {}
        self._clients: dict[tuple[int, frozenset[str] | None, str], Clients] = {}

    def of(self, workload: Workload) -> Clients:
        outbound = self._outbound_of(workload)
        namespace = workload.namespace
        called = None if self._called is None else self._called.get((namespace, workload.name), frozenset())
        key = id(outbound), called, namespace if namespace in self._demands.namespaces else ""
        if key not in self._clients:
            self._clients[key] = self._clients_of(outbound, called, namespace)
        return self._clients[key]

    def own_effects(self, workload: Workload, clients: Clients) -> Iterable[Effect]:
        """Those that a workload has as a client because a server names it."""
        return self._demands.effects_of_one(workload, clients.hosts)

    def _outbound_of(self, workload: Workload) -> Outbound:
        scope = self._scopes.of(workload)
        if id(scope) not in self._selecting:
            self._selecting[id(scope)] = self._selecting_in(scope)
        near = self._selecting[id(scope)].near(workload.labels, "")
        key = id(scope), frozenset(it for it in near if has_labels(workload, dict(it)))
        if key not in self._outbound:
            self._outbound[key] = self._made(scope, workload)
        return self._outbound[key]

    def _selecting_in(self, scope: Scope) -> Selecting[Selection]:
        """The selectors for clients of a scope, each once."""
        labels = (*self._rules.selectors(scope.namespace), *self._router.selectors(scope))
        return Selecting(("", dict(it), it) for it in dict.fromkeys(frozenset(it.items()) for it in labels))

    def _made(self, scope: Scope, workload: Workload) -> Outbound:
        routing = self._router.routing(scope, workload)
        # In an order of their own: that of a set is another one in each run.
        targets = sorted(routing.targets(scope), key=lambda it: (it.host, it.port, it.subset or ""))
        effects = (
            *self._router.effects(routing),
            *destination_rules.effects(self._rules, scope, workload, targets, self._is_automatic),
            *not_judged.effects_of_clients(self._view, scope),
        )
        return Outbound(scope, routing, effects)

    def _clients_of(self, outbound: Outbound, called: frozenset[str] | None, namespace: str) -> Clients:
        known = outbound.scope.hosts
        if called is None:
            hosts, effects = known, outbound.effects
        else:
            hosts = {name: known[name] for name in sorted(called) if name in known}
            effects = outbound.called(called)
        asked, except_for = self._demands.effects_of_all(namespace, hosts.values(), len(effects))
        return Clients(self._view, outbound, hosts, (*effects, *asked), except_for)
