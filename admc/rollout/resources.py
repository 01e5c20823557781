"""The resources of each ADM in a step.

    step + addresses -> {service: AdmResources}

What belongs to one plan alone is emitted from that plan's own program, so it is the same as when the plan is published
by itself. Listeners, and chains of connections, are emitted from both plans together; chains and route tables for
requests to ports that move are put together from those of the two plans.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from admc.rollout.chains import combined, discovered, filters_of, manager_of, table_of
from admc.rollout.model import Plan
from admc.rollout.route_overlay import overlaid
from emitters.envoy import Mode, emit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.rollout.model import Part, Placed, Step
    from emitters.addresses import Addresses
    from emitters.envoy import AdmResources
    from emitters.scope import Hop


class _Emitter:
    def __init__(self, addresses: Addresses, mode: Mode) -> None:
        self._addresses = addresses
        self._mode = mode

    def plan(self, placed: Placed, only: Collection[str]) -> dict[str, AdmResources]:
        made = emit(*placed, self._addresses, self._mode, waiting=self._waiting, only=only, by_chain=True)
        return {each.service: each for each in made}

    def hops(self, placed: Placed, held: Mapping[str, tuple[Hop, ...]]) -> dict[str, AdmResources]:
        made = emit(
            *placed,
            self._addresses,
            self._mode,
            waiting=self._waiting,
            enforced=held,
            by_chain=True,
            checked=True,
        )
        return {each.service: each for each in made}

    @property
    def _waiting(self) -> bool:
        return self._mode is Mode.REDIRECT


def resources(
    step: Step, addresses: Addresses, mode: Mode, only: Collection[str] | None = None
) -> dict[str, AdmResources]:
    """The resources of every ADM in a step, or of those in `only`. Raises `EmitError` where Envoy cannot express it."""
    emitter = _Emitter(addresses, mode)
    parts = {service: part for service, part in step.parts.items() if only is None or service in only}
    mixed = {service: part for service, part in parts.items() if set(part.plans.values()) != {Plan.NEW}}
    new = emitter.plan(step.new, parts.keys())
    if not mixed:
        return new
    old = emitter.plan(step.old, mixed.keys())
    placed = next(iter(mixed.values())).placed
    whole = emitter.hops(placed, {service: part.hops for service, part in mixed.items()})
    bare = emitter.hops(placed, {service: _bare(part) for service, part in mixed.items()})
    found = {service: made for service, made in new.items() if service not in mixed}
    for service, part in mixed.items():
        made = {Plan.OLD: old.get(service), Plan.NEW: new.get(service)}
        found[service] = _Mixed(part, whole[service], bare[service], made).resources()
    return {service: found[service] for service in sorted(found)}


def _bare(part: Part) -> tuple[Hop, ...]:
    """The hops of both plans without a policy: what a plan has where it enforces nothing."""
    return tuple(
        hop._replace(policies=()) for hop in part.hops if hop.carries_requests and part.plans[hop.name] is None
    )


class _Mixed:
    """The resources of one ADM that has something of both plans."""

    def __init__(
        self, part: Part, whole: AdmResources, bare: AdmResources, made: Mapping[Plan, AdmResources | None]
    ) -> None:
        self._part = part
        self._whole = whole
        self._made = {plan: (each or bare) for plan, each in made.items()}
        self._bare = bare
        self._all = (whole, bare, *(self._made[plan] for plan in Plan))
        """The later ones are preferred."""
        self._chains = {plan: _chains(each) for plan, each in self._made.items()}
        self._plain = _chains(bare)
        self._routes: dict[str, Any] = {}
        self._guards: dict[str, str] = {}
        """Filters of guards that stay, in the old plan's chain -> the same in the new plan's."""

    def resources(self) -> AdmResources:
        http = {hop.name: self._chain(hop) for hop in self._part.hops if hop.carries_requests}
        listeners: dict[str, Any] = {}
        for name, listener in self._whole.listeners.items():
            listeners[name] = type(listener)()
            listeners[name].CopyFrom(listener)
            for chain in listeners[name].filter_chains:
                if chain.name in http:
                    chain.CopyFrom(http[chain.name])
        chains = [chain for listener in listeners.values() for chain in listener.filter_chains]
        extensions = {name: item for each in self._all for name, item in each.extensions.items()}
        extensions |= {old: _renamed(extensions[new], old) for old, new in self._guards.items()}
        return replace(
            self._whole,
            listeners=listeners,
            routes={name: self._routes[name] for name in sorted(self._routes)},
            clusters=_union([each.clusters for each in self._all]),
            endpoints=_union([each.endpoints for each in self._all]),
            extensions={name: extensions[name] for name in sorted({n for c in chains for n in discovered(c)})},
            shares_limits=any(each.shares_limits for each in self._all),
        )

    def _chain(self, hop: Hop) -> Any:
        """The filter chain of a hop. Its route table is noted."""
        plan = self._part.plans[hop.name]
        if plan is not None:
            chain = self._chains[plan][hop.name]
            self._routes[table_of(chain)] = self._made[plan].routes[table_of(chain)]
            return chain
        own = {each: self._chains[each].get(hop.name) or self._plain[hop.name] for each in Plan}
        found = combined(hop.name, own[Plan.OLD], own[Plan.NEW])
        tables = {each: self._table(each, table_of(chain)) for each, chain in own.items()}
        filters = {each: filters_of(chain) for each, chain in own.items()}
        overlay = self._part.overlays[hop.name]
        # A revocation does not wait for the steps: guards that stay have their new arguments at once.
        following = {name.rpartition("/")[2]: name for name in filters[Plan.NEW]}
        for name in set(filters[Plan.OLD]) - set(filters[Plan.NEW]):
            if (suffix := name.rpartition("/")[2]) in self._part.steady[hop.name]:
                self._guards[name] = following[suffix]
        self._routes[found.table] = overlaid(found.table, hop.name, tables, filters, overlay)
        return found.chain

    def _table(self, plan: Plan, name: str) -> Any:
        routes = self._made[plan].routes
        return routes[name] if name in routes else self._bare.routes[name]


def _chains(made: AdmResources) -> dict[str, Any]:
    """The filter chains of an ADM that carry requests, by name."""
    listeners: list[Any] = list(made.listeners.values())
    return {chain.name: chain for each in listeners for chain in each.filter_chains if manager_of(chain) is not None}


def _renamed(config: Any, name: str) -> Any:
    result = type(config)()
    result.CopyFrom(config)
    result.name = name
    return result


def _union(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    found = {name: item for part in parts for name, item in part.items()}
    return {name: found[name] for name in sorted(found)}
