"""Hops that carry connections: network filters in declared order, then a plain TCP proxy.

A connection has no headers: its source and destination decide, and both are known when it opens. Callers under
different policies get filter chains of their own. The chain of a caller that a guard refuses ends there. (Envoy's RBAC
filter would wait for the client's first byte, so that a server which sends first could send.)
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Side, Stage
from emitters.addresses import Network
from emitters.addresses.index import ordered
from emitters.envoy.chains.clusters import needs_endpoints
from emitters.envoy.chains.routes import ClusterVariant
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
    """Whether the chain also takes all callers that no chain of the hop names."""
    filters: tuple[Json, ...]
    cluster: ClusterVariant


class _Treatment(NamedTuple):
    """What happens to the connections of one caller."""

    applied: tuple[Policy, ...]
    refused_by: Policy | None


def proxy(name: str, cluster: str, logs: Sequence[Json] = ()) -> Json:
    """The last filter of a chain: it forwards bytes both ways, without an idle timeout."""
    return extension("proxy", _PROXY, stat_prefix=name, cluster=cluster, idle_timeout="0s", access_log=list(logs))


def chains(context: Context, hop: Hop) -> tuple[TcpChain, ...]:
    """The filter chains of a hop that carries connections."""
    if hop.side is Side.EGRESS:
        own = {context.index.for_policy(policy): hop.service for policy in hop.policies}
        return (_chain(context, hop, hop.name, _treatment(context, hop, own)),)
    rest = _treatment(context, hop, {})
    groups = _groups(context, hop, rest)
    chains_of_hop = [_chain(context, hop, hop.name, rest, ordered(groups.pop(rest, ())))]
    for treatment, networks in groups.items():
        parts = [policy.name for policy in treatment.applied]
        if treatment.refused_by is not None:
            parts.append(f"not:{treatment.refused_by.name}")
        name = "/".join((hop.name, "from", *parts)) if parts else f"{hop.name}/others"
        chains_of_hop.append(_chain(context, hop, name, treatment, ordered(networks), rest=False))
    return tuple(sorted(chains_of_hop, key=lambda chain: chain.name))


def _groups(context: Context, hop: Hop, rest: _Treatment) -> dict[_Treatment, set[Network]]:
    """Treatment -> the networks of callers that get it: of callers that may be treated unlike an unknown caller, and
    all networks inside these."""
    distinguished: dict[AddressIndex, set[str]] = {}
    for policy in hop.policies:
        index = context.index.for_policy(policy)
        distinguished.setdefault(index, set()).update(index.fewer_of(index.sources_of(policy)))
        distinguished[index] |= index.parties & (arguments_of(policy).admitted_callers() or frozenset())
    for index in distinguished:
        usual = next((name for name in index.parties if name not in distinguished[index]), None)
        if usual is not None and _treatment(context, hop, {index: usual}) != rest:
            distinguished[index] |= index.parties
    treated: dict[tuple[str | None, ...], _Treatment] = {}

    def treatment(network: Network) -> _Treatment:
        # Two programs may have different names for one address.
        callers = list(product(*(index.owners_of(network) or (None,) for index in distinguished)))
        for combination in callers:
            if combination not in treated:
                treated[combination] = _treatment(context, hop, dict(zip(distinguished, combination, strict=True)))
        return _strictest([treated[combination] for combination in callers], hop)

    groups: dict[_Treatment, set[Network]] = {}
    for network in {
        network for index, names in distinguished.items() for name in names for network in index.peers(name)
    }:
        treated_as = treatment(network)
        if treated_as == rest:
            continue
        groups.setdefault(treated_as, set()).add(network)
        # The most specific network tells which party a caller is.
        for inner in {inner for index in distinguished for inner in index.senders_inside(network)}:
            groups.setdefault(treatment(inner), set()).add(inner)
    return groups


def _strictest(treatments: Sequence[_Treatment], hop: Hop) -> _Treatment:
    """The treatment of several parties at one address: a policy of each of them applies to all connections."""
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
    """The policies that the connections of a caller meet.

    `callers` has the caller's name in the program of each index; None, or no entry, is an unknown caller.
    """
    applied: list[Policy] = []
    for policy in hop.policies:
        index = context.index.for_policy(policy)
        caller, unlocated = callers.get(index), index.unlocated
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
    original = context.mode.redirected and not needs_endpoints(hop, here)
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
    return TcpChain(name, sources, rest, tuple(filters), ClusterVariant(cluster_name, here, original))
