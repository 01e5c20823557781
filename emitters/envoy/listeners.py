"""The resources of one ADM: listeners, and everything to which they refer.

Without redirection there is one listener for each hop. With redirection there is one listener for each direction, in
which the original address and port of a connection choose the filter chain of a hop. A connection that belongs to no
hop passes through to its original destination; while a server waits for an address, a connection that may belong to it
is refused.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Protocol, Side, callee
from emitters.addresses.index import ordered
from emitters.envoy.chains import chain_names, http, routes, tcp
from emitters.envoy.chains.clusters import cluster, endpoints, has_several, reachable
from emitters.envoy.checks import addresses as located
from emitters.envoy.checks.adm import check
from emitters.envoy.context import Mode
from emitters.envoy.held_headers import Version
from emitters.envoy.hop_addresses import awaited_callers, awaits_destination, taken
from emitters.envoy.kinds.registry import class_of, repeats_requests
from emitters.envoy.matching.filter_chains import by_network, by_port, take
from emitters.envoy.messages.constraints import BrokenRulesError
from emitters.envoy.messages.typed import Json, extension, message
from emitters.envoy.names import target_cluster
from emitters.envoy.resources import (
    CLUSTER,
    ENDPOINTS,
    EXTENSION,
    LISTENER,
    PROBES,
    REFUSING,
    ROUTES,
    SIBLINGS,
    AdmResources,
)
from emitters.ports import ADMIN_PORT, EGRESS_PORT, INGRESS_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.message import Message

    from emitters.addresses import Network
    from emitters.envoy.context import Context
    from emitters.envoy.kinds.interface import CalledService
    from emitters.hops import Hop

CLOSED: Final = "closed"
"""The filter chain of connections that could pass unenforced, because an address is missing."""


class _Chains(NamedTuple):
    """The filter chains of one hop, and the matcher that chooses one of them for a connection."""

    chains: tuple[Json, ...]
    choice: Json


class _Collected:
    """Resources as JSON, while they are being put together."""

    def __init__(self) -> None:
        self.captured: dict[Side, list[tuple[Hop, _Chains]]] = {Side.INGRESS: [], Side.EGRESS: []}
        self.listeners: dict[str, Json] = {}
        self.routes: dict[str, Json] = {}
        self.clusters: dict[str, Json] = {}
        self.endpoints: dict[str, Json] = {}
        self.extensions: dict[str, Json] = {}


def resources(context: Context, hops: Sequence[Hop], *, waiting: bool = False, checked: bool = False) -> AdmResources:
    """All resources of one ADM. Parts that Envoy cannot express become findings of the context. If the context has an
    error before the messages are built, there are no resources.

    `waiting`: a server learns missing addresses later. `checked`: an earlier check has found that Envoy can express the
    policies.
    """
    out = _Collected()
    earlier = context.findings.errors
    if not checked:
        check(context, hops)
    if context.findings.errors == earlier:
        located.check(context, [hop for hop in hops if hop.policies], waiting=waiting)
    if context.findings.has_errors:
        hops = ()
    for hop in hops:
        made = _http(context, hop, out) if hop.carries_requests else _tcp(context, hop, out)
        if context.mode is Mode.EXPLICIT:
            _explicit(context, hop, made, out)
        else:
            out.captured[hop.side].append((hop, made))
    if context.mode.redirected:
        for side in Side:
            # A server may add policies without new interception rules, so each direction needs its listener.
            if out.captured[side] or waiting:
                _redirected(context, side, out, waiting=waiting)
    if context.mode is Mode.POD:
        out.routes[PROBES] = {"name": PROBES}  # it answers 404 to everything until probes are known
    # All pods start from one bootstrap, in which Envoy finds this name.
    siblings = SIBLINGS if context.mode is Mode.POD else f"{SIBLINGS}/{context.service.name}"
    out.clusters[siblings] = cluster(context, siblings, Side.EGRESS, Protocol.TCP)
    out.endpoints[siblings] = endpoints(siblings, _siblings(context), INGRESS_PORT)
    limits = any(class_of(policy.kind).limit_shared_by_replicas for hop in hops for policy in hop.policies)
    return _messages(context, out, siblings, shares_limits=limits)


def _siblings(context: Context) -> tuple[str, ...]:
    """The addresses of the ADM's replicas. Envoy only counts them, so other addresses stand for those that are not
    known yet: with fewer addresses, each replica would take a larger share of a limit."""
    pods = context.addresses.replicas(context.service.name)
    first = ipaddress.IPv4Address("198.18.0.1")  # a network for benchmarks, where nothing is
    return (*pods, *(str(first + index) for index in range(context.replicas - len(pods))))


def _messages(context: Context, out: _Collected, siblings: str, *, shares_limits: bool) -> AdmResources:
    def build(type_name: str, items: Mapping[str, Json]) -> dict[str, Message]:
        built: dict[str, Message] = {}
        for name in sorted(items):
            try:
                built[name] = message(type_name, items[name])
            except BrokenRulesError as error:
                _refused(context, name, error)
        return built

    if context.findings.has_errors:
        out = _Collected()
    return AdmResources(
        service=context.service.name,
        listeners=build(LISTENER, out.listeners),
        routes=build(ROUTES, out.routes),
        clusters=build(CLUSTER, out.clusters),
        endpoints=build(ENDPOINTS, out.endpoints),
        extensions=build(EXTENSION, out.extensions),
        admin=_admin(context),
        marks=context.mode is Mode.REDIRECT,
        siblings=siblings,
        shares_limits=shares_limits,
    )


def _refused(context: Context, name: str, error: BrokenRulesError) -> None:
    """Reports a value that Envoy refuses, and that the types of parameters do not exclude."""
    context.findings.error(
        "ADM730",
        f"Envoy would refuse `{name}` of the ADM of `{context.service.name}`: {error}",
        context.service.span,
        cause="Envoy checks each field against the bounds of its schema, and refuses all of a configuration for one",
        hint="change the argument that the field comes from",
    )


def _admin(context: Context) -> tuple[str, int]:
    """The address of the admin interface, on loopback. Without redirection each service has a loopback address of its
    own."""
    if context.mode is Mode.EXPLICIT:
        pods = context.addresses.pod_addresses(context.service.name)
        if pods and pods[0].startswith("127."):
            return pods[0], ADMIN_PORT
    return "127.0.0.1", ADMIN_PORT


# ---- hops ----


def _http(context: Context, hop: Hop, out: _Collected) -> _Chains:
    made = http.chain(context, hop)
    if context.by_chain:
        made = chain_names.by_chain(made, hop.name)
    for config in made.extensions:
        out.extensions[config["name"]] = config
    out.routes[made.table.config["name"]] = made.table.config
    for variant in made.table.clusters:
        _hop_cluster(context, hop, variant, out, made.upstream)
    for service in made.table.shares:
        _target(context, hop, service, None, out)
    for service in routes.copied_to(hop):
        for version in routes.copy_versions(hop):
            _target(context, hop, service, version, out)
    for called in made.calls:
        _called(context, called, out)
    return _Chains(({"name": hop.name, "filters": [made.manager]},), take(hop.name))


def _called(context: Context, called: CalledService, out: _Collected) -> None:
    """Adds the cluster of a service that a filter calls by itself."""
    name, port = called.cluster, called.port
    version = Version.TWO if port.protocol is Protocol.GRPC else Version.ONE
    filters = called.upstream_filters
    out.clusters[name] = cluster(context, name, Side.EGRESS, port.protocol, own=version, filters=filters)
    service, _ = callee(called.service)
    addresses = context.addresses.service_addresses(service) or reachable(context, service, port)[0]
    out.endpoints[name] = endpoints(name, addresses, port.number)


def _tcp(context: Context, hop: Hop, out: _Collected) -> _Chains:
    made = tcp.chains(context, hop)
    for chain in made:
        _hop_cluster(context, hop, chain.cluster, out)
    rest = next(chain for chain in made if chain.rest)
    groups = [(chain.sources, take(chain.name)) for chain in made]
    return _Chains(
        tuple(
            {"name": chain.name, "filters": _network_filters(context, chain.name, chain.filters, out)} for chain in made
        ),
        by_network("DirectSourceIPInput", groups, take(rest.name)),
    )


def _network_filters(context: Context, name: str, filters: Sequence[Json], out: _Collected) -> list[Json]:
    """The filters of a chain that ends in a TCP proxy."""
    if not context.by_chain:
        return list(filters)
    named, proxy = chain_names.discovered_proxy(name, filters)
    out.extensions[proxy["name"]] = proxy
    return list(named)


def _hop_cluster(
    context: Context, hop: Hop, variant: routes.ClusterVariant, out: _Collected, upstream: Sequence[Json] = ()
) -> None:
    name = variant.name
    out.clusters[name] = cluster(
        context,
        name,
        hop.side,
        hop.port.protocol,
        original=variant.original,
        policies=variant.policies,
        filters=upstream,
        several=hop.side is Side.EGRESS and has_several(context, hop.destination, hop.port),
        repeats=repeats_requests(hop),
    )
    if variant.original:
        return
    if hop.side is Side.INGRESS:
        out.endpoints[name] = endpoints(name, context.addresses.pod_addresses(hop.service), hop.port.target)
    else:
        out.endpoints[name] = endpoints(name, *reachable(context, hop.destination, hop.port))


def _target(context: Context, hop: Hop, argument: str, version: Version | None, out: _Collected) -> None:
    """Adds the cluster for the requests of a split of this hop, or of a mirror in a version of HTTP. Its port is that
    in the argument, or else that of the declared call which resembles the hop most."""
    service, number = callee(argument)
    alike = [
        call
        for call in context.program.calls
        if (call.source, call.destination, call.port.protocol) == (hop.service, service, hop.port.protocol)
        and number in (None, call.port.number)
    ]
    # The resolver has checked that there is such a call.
    call = min(alike, key=lambda call: (call.port.name != hop.port.name, call.port.number != hop.port.number))
    name = target_cluster(hop, argument, version)
    shared = version is None and repeats_requests(hop)
    out.clusters[name] = cluster(context, name, Side.EGRESS, call.port.protocol, own=version, repeats=shared)
    out.endpoints[name] = endpoints(name, *reachable(context, service, call.port))


# ---- listeners ----


def _socket(address: str, port: int) -> Json:
    return {"socket_address": {"address": address, "port_value": port}}


def _explicit(context: Context, hop: Hop, made: _Chains, out: _Collected) -> None:
    if hop.side is Side.INGRESS:
        addresses = context.addresses.service_addresses(hop.service)
    else:
        own = context.addresses.egress.get((hop.service, hop.destination))
        addresses = (own,) if own is not None else ()
    if not addresses:
        context.findings.error(
            "ADM711",
            f"no address is known at which the ADM of `{hop.service}` could listen for `{hop.name}`",
            hop.policies[0].span,
            cause="without redirection every direction and port has a listener with an address of its own",
            hint="use loopback addresses, or redirection",
        )
        return
    listener: Json = {
        "name": hop.name,
        "address": _socket(addresses[0], hop.port.number),
        "additional_addresses": [{"address": _socket(address, hop.port.number)} for address in addresses[1:]],
        "filter_chains": list(made.chains),
        # If another process has the same address, Envoy has to fail: it would get only a part of the connections.
        "enable_reuse_port": False,
        "traffic_direction": "INBOUND" if hop.side is Side.INGRESS else "OUTBOUND",
    }
    if len(made.chains) > 1:
        listener["filter_chain_matcher"] = made.choice["matcher"]
    out.listeners[hop.name] = listener


def _captured(context: Context, side: Side, through: Json, closed: Json | None, out: _Collected) -> dict[int, Json]:
    """Port dialled -> the choice of a filter chain for its connections. `closed`: the choice for connections that may
    belong to a party whose address is missing.

    The choices belong to a matcher of the listener and not to the filter chains: addresses come and go, and a filter
    chain that changes closes its connections.
    """
    if side is Side.INGRESS:
        # Ports that lead to one port of the process are under the same policies.
        return {
            hop.port.target: made.choice
            if closed is None or not awaited_callers(context, hop)
            else _known_callers(context, hop, made.choice, closed)
            for hop, made in reversed(out.captured[side])
        }
    groups: dict[int, dict[Network, Json]] = {}
    others: dict[int, set[Network]] = {}
    for hop, made in out.captured[side]:
        for port, networks in taken(context, hop).items():
            for network in networks.own:
                groups.setdefault(port, {}).setdefault(network, made.choice)
            others.setdefault(port, set()).update(networks.others)
    choices = {}
    if closed is not None:
        for hop, _ in out.captured[side]:
            if awaits_destination(context, hop):
                for port in (hop.port.number, hop.port.target):
                    # A known address belongs to another party; the missing one may be inside a known network.
                    known = ordered(filter(_is_one, context.index.dialled(port)))
                    choices[port] = by_network("DestinationIPInput", [(known, through)], closed)
    awaited = frozenset(choices)
    for port, choice_of in groups.items():
        chosen: dict[str, tuple[list[Network], Json]] = {}
        passed = [(network, through) for network in others[port] if network not in choice_of]
        for network, choice in (*choice_of.items(), *passed):
            to = closed if port in awaited and closed is not None and not _is_one(network) else choice
            chosen.setdefault(repr(to), ([], to))[0].append(network)
        rest = choices.get(port, through)
        choices[port] = by_network("DestinationIPInput", [(ordered(own), to) for own, to in chosen.values()], rest)
    return choices


def _is_one(network: Network) -> bool:
    """Whether a network is a single address, with no other party inside."""
    return network.num_addresses == 1


def _known_callers(context: Context, hop: Hop, choice: Json, closed: Json) -> Json:
    """The choice that admits only callers which cannot be the missing party: pods of declared services. The networks of
    outside parties are not admitted, since an unknown pod may be inside."""
    declared = context.index.callers_of(hop.destination, hop.port.number) & context.program.services.keys()
    known = ordered({network for name in declared for network in context.index.peers(name)})
    return by_network("DirectSourceIPInput", [(known, choice)], closed)


def _beside(side: Side, out: _Collected) -> Json:
    """Metadata by which the passthrough chain changes whenever a hop comes or goes.

    Envoy closes no connection whose filter chain stays equal, and a connection that passes through may belong to a hop
    that is added later.
    """
    return {"metadata": {"filter_metadata": {"admc": {"beside": sorted(hop.name for hop, _ in out.captured[side])}}}}


def _redirected(context: Context, side: Side, out: _Collected, *, waiting: bool) -> None:
    name = side.value
    port = INGRESS_PORT if side is Side.INGRESS else EGRESS_PORT
    through = f"{name}/passthrough"
    closed = f"{name}/{CLOSED}"
    choices = _captured(context, side, take(through), take(closed) if waiting else None, out)
    out.clusters[through] = cluster(context, through, side, Protocol.TCP, original=True)
    beside = _beside(side, out) if waiting else {}
    # Connections that pass through belong to an older chain, too, once this one changes.
    passing = _network_filters(context, chain_names.chain_name(through, beside), [tcp.proxy(through, through)], out)
    out.listeners[name] = {
        "name": name,
        "address": _socket("0.0.0.0", port),  # noqa: S104
        # On a host without IPv6, Envoy could not open such an address.
        **({"additional_addresses": [{"address": _socket("::", port)}]} if context.index.ipv6 else {}),
        "listener_filters": [
            extension("original-destination", "envoy.extensions.filters.listener.original_dst.v3.OriginalDst")
        ],
        "filter_chains": [
            *(chain for _, made in out.captured[side] for chain in made.chains),
            {"name": through, "filters": passing, **beside},
            # A chain to a cluster that does not exist. It is always present: a new filter chain changes the listener.
            *([{"name": closed, "filters": [tcp.proxy(closed, f"{REFUSING}{closed}")]}] if waiting else []),
        ],
        "filter_chain_matcher": by_port(choices, take(through)),
        "traffic_direction": "INBOUND" if side is Side.INGRESS else "OUTBOUND",
    }
