"""Hops that carry connections: network filters in declared order, then a plain TCP proxy.

A connection has no headers, so what decides is known when it opens: where it goes and where it comes from. Callers
under different policies get filter chains of their own, and a caller whom a guard turns away gets a chain that ends
there. (Envoy's RBAC filter would wait for the client's first byte, and let a server that speaks first speak.)
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Side, Stage
from emitters.addresses import Network
from emitters.addresses.index import ordered
from emitters.envoy.chains.clusters import needs_endpoints
from emitters.envoy.chains.routes import Variant
from emitters.envoy.context import Mode
from emitters.envoy.kinds.registry import arguments_of
from emitters.envoy.messages.typed import Json, extension
from emitters.envoy.names import stat_name
from emitters.envoy.resources import REFUSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsl.program import Policy
    from emitters.addresses.index import AddressIndex
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_PROXY: Final = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"


class TcpChain(NamedTuple):
    """The network filters for some callers of a hop."""

    name: str
    sources: tuple[Network, ...]
    rest: bool
    """Also takes everybody whom no chain of the hop names."""
    filters: tuple[Json, ...]
    cluster: Variant


class _Treatment(NamedTuple):
    """What happens to the connections of one caller."""

    applied: tuple[Policy, ...]
    refused_by: Policy | None


def proxy(name: str, cluster: str, logs: Sequence[Json] = ()) -> Json:
    """Bytes both ways, for as long as both ends like."""
    return extension("proxy", _PROXY, stat_prefix=name, cluster=cluster, idle_timeout="0s", access_log=list(logs))


def chains(context: Context, hop: Hop) -> tuple[TcpChain, ...]:
    """The filter chains of a hop that carries connections."""
    if hop.side is Side.EGRESS:
        own = {context.index.for_policy(policy): hop.service for policy in hop.policies}
        return (_chain(context, hop, hop.name, _treatment(context, hop, own)),)
    rest = _treatment(context, hop, {})
    groups = _groups(context, hop, rest)
    found = [_chain(context, hop, hop.name, rest, ordered(groups.pop(rest, ())))]
    for treatment, networks in groups.items():
        parts = [policy.name for policy in treatment.applied]
        if treatment.refused_by is not None:
            parts.append(f"not:{treatment.refused_by.name}")
        name = "/".join((hop.name, "from", *parts)) if parts else f"{hop.name}/others"
        found.append(_chain(context, hop, name, treatment, ordered(networks), rest=False))
    return tuple(sorted(found, key=lambda chain: chain.name))


def _groups(context: Context, hop: Hop, rest: _Treatment) -> dict[_Treatment, set[Network]]:
    """Who is treated in another way than an unknown caller, and who is inside such a network and is not."""
    told: dict[AddressIndex, set[str]] = {}
    for policy in hop.policies:
        known = context.index.for_policy(policy)
        told.setdefault(known, set()).update(known.fewer_of(known.sources_of(policy)))
        told[known] |= known.parties & (arguments_of(policy).admitted_callers() or frozenset())
    for known in told:
        usual = next((name for name in known.parties if name not in told[known]), None)
        if usual is not None and _treatment(context, hop, {known: usual}) != rest:
            told[known] |= known.parties
    treated: dict[tuple[str | None, ...], _Treatment] = {}

    def treatment(network: Network) -> _Treatment:
        # Programs may know the same address by different names.
        callers = list(product(*(known.owners_of(network) or (None,) for known in told)))
        for each in callers:
            if each not in treated:
                treated[each] = _treatment(context, hop, dict(zip(told, each, strict=True)))
        return _strictest([treated[each] for each in callers], hop)

    groups: dict[_Treatment, set[Network]] = {}
    for network in {network for known, names in told.items() for name in names for network in known.peers(name)}:
        found = treatment(network)
        if found == rest:
            continue
        groups.setdefault(found, set()).add(network)
        # The most specific network says who a caller is.
        for inner in {inner for known in told for inner in known.senders_inside(network)}:
            groups.setdefault(treatment(inner), set()).add(inner)
    return groups


def _strictest(treatments: Sequence[_Treatment], hop: Hop) -> _Treatment:
    """Two parties at one address cannot be told apart: what holds for either holds for both."""
    applied = {policy.name for treatment in treatments for policy in treatment.applied}
    refusing = {treatment.refused_by.name for treatment in treatments if treatment.refused_by is not None}
    kept: list[Policy] = []
    for policy in hop.policies:
        if policy.name in refusing:
            return _Treatment(tuple(kept), policy)
        if policy.name in applied:
            kept.append(policy)
    return _Treatment(tuple(kept), None)


def _treatment(context: Context, hop: Hop, callers: Mapping[AddressIndex, str | None]) -> _Treatment:
    """Which policies the connections of a caller meet. Who that is in each program; None, or none: nothing is known."""
    applied: list[Policy] = []
    for policy in hop.policies:
        known = context.index.for_policy(policy)
        caller, unlocated = callers.get(known), known.unlocated
        names = {caller} if caller is not None else set(unlocated)
        in_scope = bool(names & policy.sources)
        if caller is None and policy.open_sources and all(name in policy.sources for name in unlocated):
            in_scope = True
        if hop.side is Side.EGRESS:
            in_scope = True
        if not in_scope:
            continue
        admitted = arguments_of(policy).admitted_callers()
        if admitted is None:
            applied.append(policy)
        elif not names or not names <= admitted:
            return _Treatment(tuple(applied), policy)
    return _Treatment(tuple(applied), None)


def _chain(
    context: Context,
    hop: Hop,
    name: str,
    treatment: _Treatment,
    sources: tuple[Network, ...] = (),
    *,
    rest: bool = True,
) -> TcpChain:
    here = tuple(policy for policy in treatment.applied if hop.stage(policy) is Stage.CLUSTER)
    cluster_name = "/".join((hop.name, *(policy.name for policy in here)))
    original = context.mode is Mode.REDIRECT and not needs_endpoints(hop, here)
    filters: list[Json] = []
    logs: list[Json] = []
    for policy in treatment.applied:
        if policy in here:
            continue
        built = arguments_of(policy).network_filter(context, hop, policy)
        filters.append(built.filter)
        if built.access_log is not None:
            logs.append(built.access_log)
    if treatment.refused_by is not None:
        # A cluster that does not exist: the connection ends as it opens, is logged where a log comes first, and counts
        # as `downstream_cx_no_route` under the guard's name.
        nowhere = f"{REFUSING}{stat_name(treatment.refused_by, hop)}"
        filters.append(proxy(nowhere, nowhere, logs))
    else:
        filters.append(proxy(name, cluster_name, logs))
    return TcpChain(name, sources, rest, tuple(filters), Variant(cluster_name, here, original))
