"""The resources of each ADM in the steps between two plans.

    step + addresses -> Emitted -> {service: AdmResources}, step by step

| resources | emitted from |
|---|---|
| those that belong to one plan alone | that plan's own program, so they equal those of the published plan |
| listeners, and chains that carry connections | both plans together |
| chains and route tables for requests to ports that move | the chains and tables of the two plans, combined |

The steps differ in these route tables alone, so all other resources are emitted once for all steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.serve.rollout.chains import HttpChain, combined, discovered, renamed_table
from admc.serve.rollout.model import Plan
from admc.serve.rollout.route_overlay import overlaid
from dsl.program import Side
from emitters.envoy import Mode, emit
from emitters.envoy.chains.chain_names import chain_name
from emitters.envoy.resources import PROBES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from admc.serve.rollout.model import HopPart, Placed, RouteOverlay, Step
    from emitters.addresses import Addresses
    from emitters.envoy import AdmResources
    from emitters.hops import Hop


class Emitted:
    """The resources that are the same in every step between two plans, and the parts of the route tables that
    differ."""

    def __init__(self, step: Step, addresses: Addresses, mode: Mode, only: Collection[str] | None = None) -> None:
        """`step` may be any step between the two plans. Raises `EmitError` if Envoy cannot express the resources."""

        def emitted(
            placed: Placed, only: Collection[str], held: Mapping[str, tuple[Hop, ...]] | None = None
        ) -> dict[str, AdmResources]:
            checked = held is not None  # as what each plan has by itself
            waiting = mode.redirected
            made = emit(
                *placed, addresses, mode, waiting=waiting, only=only, enforced=held, by_chain=True, checked=checked
            )
            return {resources.service: resources for resources in made}

        parts = {service: part for service, part in step.parts.items() if only is None or service in only}
        mixed = {service: held for service, held in parts.items() if any(part.plan is not Plan.NEW for part in held)}
        new = emitted(step.new, parts.keys())
        old = emitted(step.old, mixed.keys()) if mixed else {}
        frames = {service: tuple(map(_in_listener, held)) for service, held in mixed.items()}
        whole = emitted(step.merged, mixed, frames) if mixed else {}
        plans = {service: _plans(old.get(service), new.get(service)) for service in mixed}
        lacking = {service: hops for service, held in mixed.items() if (hops := _lacking(held, plans[service]))}
        bare = emitted(step.merged, lacking, lacking) if lacking else {}
        self._alone = {service: made for service, made in new.items() if service not in mixed}
        self._mixed = {
            service: _Mixed(held, whole[service], bare.get(service), plans[service]) for service, held in mixed.items()
        }

    def at(self, step: Step) -> dict[str, AdmResources]:
        """Return the resources of each ADM in a step."""
        resources = self._alone | {service: mixed.resources(step.overlays) for service, mixed in self._mixed.items()}
        return {service: resources[service] for service in sorted(resources)}


def _in_listener(part: HopPart) -> Hop:
    """Return a hop as the listener needs it: at ingress, its policies decide for which addresses the listener waits."""
    requests_leave = part.hop.carries_requests and part.hop.side is Side.EGRESS
    return part.hop._replace(policies=()) if requests_leave else part.hop


def _plans(old: AdmResources | None, new: AdmResources | None) -> dict[Plan, AdmResources]:
    return {plan: made for plan, made in ((Plan.OLD, old), (Plan.NEW, new)) if made is not None}


def _lacking(parts: Sequence[HopPart], plans: Mapping[Plan, AdmResources]) -> tuple[Hop, ...]:
    """Return the ingress hops to ports that move at which one of the plans enforces nothing, without their policies."""
    chains = [_chains(plans[plan]) if plan in plans else {} for plan in Plan]
    return tuple(
        part.hop._replace(policies=())
        for part in parts
        if part.plan is None
        and part.hop.carries_requests
        and part.hop.side is Side.INGRESS
        and any(part.hop.name not in by_name for by_name in chains)
    )


class _Moving(NamedTuple):
    """A hop to a port that moves, with the parts from which its route table is made in each step."""

    hop: Hop
    table: str
    tables: Mapping[Plan, Any]
    filters: Mapping[Plan, tuple[str, ...]]


class _Mixed:
    """The resources of one ADM that has parts of both plans."""

    def __init__(
        self,
        parts: Sequence[HopPart],
        whole: AdmResources,
        bare: AdmResources | None,
        plans: Mapping[Plan, AdmResources],
    ) -> None:
        plain = (whole, *([bare] if bare is not None else []))
        # A later source wins. Chains with the same filters have one name for their tables, and may differ in routes. So
        # each plan has its own chains and tables, and plain ones for the hops that it lacks.
        own = {plan: (*plain, *([plans[plan]] if plan in plans else [])) for plan in Plan}
        self._chains = {
            plan: {name: chain for made in own[plan] for name, chain in _chains(made).items()} for plan in Plan
        }
        self._tables = {
            plan: {name: table for made in own[plan] for name, table in made.routes.items()} for plan in Plan
        }
        every = (*plain, *plans.values())
        extensions = {name: extension for made in every for name, extension in made.extensions.items()}
        self._plans = plans
        self._moving: list[_Moving] = []
        self._routes: dict[str, Any] = {name: table for name, table in whole.routes.items() if name == PROBES}
        """The route tables that are the same in all steps."""
        http = {part.hop.name: self._chain(part, extensions) for part in parts if part.hop.carries_requests}
        listeners = {name: _with_chains(listener, http) for name, listener in whole.listeners.items()}
        wanted = {
            name for listener in listeners.values() for chain in listener.filter_chains for name in discovered(chain)
        }
        self._resources = replace(
            whole,
            listeners=listeners,
            clusters=_union([made.clusters for made in every]),
            endpoints=_union([made.endpoints for made in every]),
            extensions={name: extensions[name] for name in sorted(wanted)},
            shares_limits=any(made.shares_limits for made in every),
        )
        self._service = whole.service

    def resources(self, overlays: Mapping[tuple[str, str], RouteOverlay]) -> AdmResources:
        """Return the resources in a step."""
        moving = {
            moving_hop.table: overlaid(
                moving_hop.table,
                moving_hop.hop.name,
                moving_hop.tables,
                moving_hop.filters,
                overlays[self._service, moving_hop.hop.name],
            )
            for moving_hop in self._moving
        }
        return replace(self._resources, routes=_union([self._routes, moving]))

    def _configured(self, chains: Mapping[Plan, HttpChain]) -> bool:
        """Whether the filters have a different configuration in each plan."""
        configurations = (
            [self._plans[plan].extensions.get(name) for name in plan_chain.filters]
            for plan, plan_chain in chains.items()
        )
        return next(configurations) != next(configurations)

    def _apart(
        self, hop: str, plan: Plan, chain: HttpChain, table: Any, extensions: dict[str, Any]
    ) -> tuple[HttpChain, Any]:
        """Return the chain and the route table of a plan under a name of their own, because the chain of the other plan
        has the same name. Adds the configurations of its filters to `extensions`."""
        renamed = chain.renamed(chain_name(hop, [chain.table, plan]))
        made = self._plans[plan].extensions
        for before, after in zip(chain.filters, renamed.filters, strict=True):
            if before in made:
                extensions[after] = _renamed(made[before], after)
        return renamed, renamed_table(table, renamed.table)

    def _chain(self, part: HopPart, extensions: dict[str, Any]) -> Any:
        """Return the filter chain of a hop. Notes its route table, and sets the configurations of guards that stay."""
        name = part.hop.name
        if part.plan is not None:
            chain = self._chains[part.plan][name]
            self._routes[chain.table] = self._tables[part.plan][chain.table]
            return chain.chain
        own = {plan: self._chains[plan][name] for plan in Plan}
        tables = {plan: self._tables[plan][chain.table] for plan, chain in own.items()}
        if part.differs and own[Plan.OLD].table == own[Plan.NEW].table and self._configured(own):
            for plan in Plan:
                own[plan], tables[plan] = self._apart(name, plan, own[plan], tables[plan], extensions)
        chain = combined(name, own[Plan.OLD], own[Plan.NEW])
        filters = {plan: plan_chain.filters for plan, plan_chain in own.items()}
        self._moving.append(_Moving(part.hop, chain.table, tables, filters))
        # A revocation does not wait for the steps: guards that stay have their new arguments at once.
        now = {_in_any_chain(name): name for name in filters[Plan.NEW]}
        for old_name in filters[Plan.OLD]:
            if _in_any_chain(old_name) in part.steady:
                extensions[old_name] = _renamed(extensions[now[_in_any_chain(old_name)]], old_name)
        return chain.chain


def _in_any_chain(filter_name: str) -> str:
    """The name of a filter without that of its chain: `/POLICY:KIND`."""
    return "/" + filter_name.rpartition("/")[2]


def _chains(made: AdmResources) -> dict[str, HttpChain]:
    """The filter chains of an ADM that carry requests, by name."""
    http_chains = (HttpChain.of(chain) for listener in made.listeners.values() for chain in listener.filter_chains)  # type: ignore[attr-defined]
    return {chain.chain.name: chain for chain in http_chains if chain is not None}


def _with_chains(listener: Any, chains: Mapping[str, Any]) -> Any:
    """A listener with other filter chains of these names."""
    result = type(listener)()
    result.CopyFrom(listener)
    for chain in result.filter_chains:
        if chain.name in chains:
            chain.CopyFrom(chains[chain.name])
    return result


def _renamed(config: Any, name: str) -> Any:
    result = type(config)()
    result.CopyFrom(config)
    result.name = name
    return result


def _union(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    resources = {name: item for part in parts for name, item in part.items()}
    return {name: resources[name] for name in sorted(resources)}
