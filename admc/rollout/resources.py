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
    from emitters.hops import Hop


def resources(
    step: Step, addresses: Addresses, mode: Mode, only: Collection[str] | None = None
) -> dict[str, AdmResources]:
    """The resources of every ADM in a step, or of those in `only`. Raises `EmitError` where Envoy cannot express it."""

    def emitted(
        placed: Placed, only: Collection[str], held: Mapping[str, tuple[Hop, ...]] | None = None
    ) -> dict[str, AdmResources]:
        waiting = mode is Mode.REDIRECT
        checked = held is not None  # as what each plan has by itself
        made = emit(*placed, addresses, mode, waiting=waiting, only=only, enforced=held, by_chain=True, checked=checked)
        return {each.service: each for each in made}

    parts = {service: part for service, part in step.parts.items() if only is None or service in only}
    mixed = {service: part for service, part in parts.items() if set(part.plans.values()) != {Plan.NEW}}
    new = emitted(step.new, parts.keys())
    if not mixed:
        return new
    old = emitted(step.old, mixed.keys())
    placed = next(iter(mixed.values())).placed
    whole = emitted(placed, mixed, {service: part.hops for service, part in mixed.items()})
    lacking = {service: _lacking(part, old.get(service), new.get(service)) for service, part in mixed.items()}
    lacking = {service: held for service, held in lacking.items() if held}
    bare = emitted(placed, lacking, lacking) if lacking else {}
    found = {service: made for service, made in new.items() if service not in mixed}
    for service, part in mixed.items():
        plans = {plan: made[service] for plan, made in ((Plan.OLD, old), (Plan.NEW, new)) if service in made}
        found[service] = _Mixed(part, whole[service], bare.get(service), plans).resources()
    return {service: found[service] for service in sorted(found)}


def _lacking(part: Part, *plans: AdmResources | None) -> tuple[Hop, ...]:
    """Hops, without a policy, to ports that move, and at which one of the plans enforces nothing."""
    chains = [_chains(made) if made is not None else {} for made in plans]
    return tuple(
        hop._replace(policies=())
        for hop in part.hops
        if hop.carries_requests and part.plans[hop.name] is None and any(hop.name not in each for each in chains)
    )


class _Mixed:
    """The resources of one ADM that has something of both plans."""

    def __init__(
        self, part: Part, whole: AdmResources, bare: AdmResources | None, made: Mapping[Plan, AdmResources]
    ) -> None:
        self._part = part
        self._whole = whole
        self._all = (whole, *([bare] if bare is not None else []), *made.values())
        """The later ones are preferred."""
        plain = _chains(bare) if bare is not None else {}
        self._chains = {plan: plain | (_chains(made[plan]) if plan in made else {}) for plan in Plan}
        tables = bare.routes if bare is not None else {}
        # Chains with the same filters, and so with one name for their tables, may differ in routes.
        self._tables = {plan: {**tables, **(made[plan].routes if plan in made else {})} for plan in Plan}
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
            self._routes[table_of(chain)] = self._tables[plan][table_of(chain)]
            return chain
        own = {each: self._chains[each][hop.name] for each in Plan}
        found = combined(hop.name, own[Plan.OLD], own[Plan.NEW])
        tables = {each: self._tables[each][table_of(chain)] for each, chain in own.items()}
        filters = {each: filters_of(chain) for each, chain in own.items()}
        overlay = self._part.overlays[hop.name]
        # A revocation does not wait for the steps: guards that stay have their new arguments at once.
        following = {name.rpartition("/")[2]: name for name in filters[Plan.NEW]}
        for name in set(filters[Plan.OLD]) - set(filters[Plan.NEW]):
            if (suffix := name.rpartition("/")[2]) in self._part.steady[hop.name]:
                self._guards[name] = following[suffix]
        self._routes[found.table] = overlaid(found.table, hop.name, tables, filters, overlay)
        return found.chain


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
