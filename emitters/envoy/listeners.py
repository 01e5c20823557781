"""Listeners and all that hangs on them: the resources of one ADM.

Explicit: one listener for each hop. Redirected: one listener for each direction, in which the original address and
port choose the hop's filter chain, and whatever belongs to no hop passes through to where it was going.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from dsl.program import Protocol, Side
from emitters.envoy import http, routes, tcp
from emitters.envoy.checks import check
from emitters.envoy.clusters import cluster, endpoints, reachable
from emitters.envoy.context import Mode
from emitters.envoy.filters.built import side_cluster
from emitters.envoy.match import cidr
from emitters.envoy.resources import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, AdmResources
from emitters.envoy.typed import Json, extension, message
from emitters.ports import EGRESS_PORT, INGRESS_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.message import Message

    from dsl.program import Call
    from emitters.addresses import Network
    from emitters.envoy.context import Context
    from emitters.scope import Hop

ADMIN_PORT: Final = 15000
_NOWHERE: Final[Json] = {"address_prefix": "0.0.0.0", "prefix_len": 32}  # noqa: S104 - matches no destination


class _Collected:
    """Resources as JSON, while they are being put together."""

    def __init__(self) -> None:
        self.chains: dict[Side, list[Json]] = {Side.INGRESS: [], Side.EGRESS: []}
        self.listeners: dict[str, Json] = {}
        self.routes: dict[str, Json] = {}
        self.clusters: dict[str, Json] = {}
        self.endpoints: dict[str, Json] = {}
        self.extensions: dict[str, Json] = {}


def resources(context: Context, hops: Sequence[Hop]) -> AdmResources:
    """Everything one ADM is told. What cannot be said is in the context's findings."""
    out = _Collected()
    check(context, hops)
    if context.findings.has_errors:
        hops = ()
    for hop in hops:
        made = _http(context, hop, out) if hop.carries_requests else _tcp(context, hop, out)
        if context.mode is Mode.EXPLICIT:
            _explicit(context, hop, made, out)
        else:
            out.chains[hop.side] += [_matched(context, hop, chain) for chain in made]
    if context.mode is Mode.REDIRECT:
        for side in Side:
            if out.chains[side]:
                _redirected(context, side, out)
    siblings = None
    if any(policy.kind.name == "rate_limit" for hop in hops for policy in hop.policies):
        siblings = f"siblings/{context.service.name}"
        pods = context.addresses.pod_addresses(context.service.name)
        out.clusters[siblings] = cluster(context, siblings, Side.EGRESS, Protocol.TCP)
        out.endpoints[siblings] = endpoints(siblings, pods, INGRESS_PORT)
    return _messages(context, out, siblings)


def _messages(context: Context, out: _Collected, siblings: str | None) -> AdmResources:
    def build(type_name: str, items: Mapping[str, Json]) -> dict[str, Message]:
        return {name: message(type_name, items[name]) for name in sorted(items)}

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
        siblings=siblings,
    )


def _admin(context: Context) -> tuple[str, int]:
    """Loopback only. Without redirection every service has a loopback address of its own."""
    if context.mode is Mode.EXPLICIT:
        pods = context.addresses.pod_addresses(context.service.name)
        if pods and pods[0].startswith("127."):
            return pods[0], ADMIN_PORT
    return "127.0.0.1", ADMIN_PORT


# ---- hops ----


def _http(context: Context, hop: Hop, out: _Collected) -> list[Json]:
    made = http.chain(context, hop)
    for config in made.extensions:
        out.extensions[config["name"]] = config
    out.routes[hop.name] = made.table.config
    for variant in made.table.clusters:
        _hop_cluster(context, hop, variant, out, made.upstream)
    for service in made.table.targets:
        _target(context, hop, service, out)
    for service in made.calls:
        port = next(p for p in context.program.services[service].ports if p.protocol is not Protocol.TCP)
        name = side_cluster(service)
        out.clusters[name] = cluster(context, name, Side.EGRESS, port.protocol, own=True)
        out.endpoints[name] = endpoints(name, context.addresses.service_addresses(service), port.number)
    return [{"name": hop.name, "filters": [made.manager]}]


def _tcp(context: Context, hop: Hop, out: _Collected) -> list[Json]:
    made = []
    for chain in tcp.chains(context, hop):
        _hop_cluster(context, hop, chain.cluster, out)
        item: Json = {"name": chain.name, "filters": list(chain.filters)}
        if chain.sources is not None:
            item["filter_chain_match"] = {"source_prefix_ranges": [cidr(network) for network in chain.sources]}
        made.append(item)
    return made


def _hop_cluster(
    context: Context, hop: Hop, variant: routes.Variant, out: _Collected, upstream: Sequence[Json] = ()
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
    )
    if variant.original:
        return
    if hop.side is Side.INGRESS:
        out.endpoints[name] = endpoints(name, context.addresses.pod_addresses(hop.service), hop.port.target)
    else:
        out.endpoints[name] = endpoints(name, *reachable(context, hop.destination, hop.port))


def _target(context: Context, hop: Hop, service: str, out: _Collected) -> None:
    """A service that a split or a mirror of this hop sends to, by the port of the declared call to it."""
    calls = [call for call in context.program.calls if call.source == hop.service and call.destination == service]
    call = _alike(hop, calls)
    name = routes.target_cluster(hop, service)
    if call is None:
        policy = next(p for p in hop.policies if p.arguments.get("to") == service)
        context.refuse(
            "ADM707",
            f"`{policy.name}` sends to `{service}`, and `{hop.service}` has no `{hop.port.protocol}` call to it",
            policy,
            cause="what a split or a mirror sends is a call, with a port and policies of its own",
            hint=f"add `call {hop.service} -> {service}`",
        )
        return
    out.clusters[name] = cluster(context, name, Side.EGRESS, call.port.protocol, own=True)
    out.endpoints[name] = endpoints(name, *reachable(context, service, call.port))


def _alike(hop: Hop, calls: Sequence[Call]) -> Call | None:
    """The call that is most like the hop: of its protocol, and if possible of its port's name or number."""
    alike = [call for call in calls if call.port.protocol is hop.port.protocol]
    for call in alike:
        if call.port.name == hop.port.name or call.port.number == hop.port.number:
            return call
    return alike[0] if alike else None


# ---- listeners ----


def _socket(address: str, port: int) -> Json:
    return {"socket_address": {"address": address, "port_value": port}}


def _explicit(context: Context, hop: Hop, made: list[Json], out: _Collected) -> None:
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
    chains = [chain for chain in made if "filter_chain_match" in chain]
    rest = [chain for chain in made if "filter_chain_match" not in chain]
    out.listeners[hop.name] = {
        "name": hop.name,
        "address": _socket(addresses[0], hop.port.number),
        "additional_addresses": [{"address": _socket(address, hop.port.number)} for address in addresses[1:]],
        "filter_chains": [*rest, *chains],
        # Another process at the same address is an error to be seen, not a half of the connections.
        "enable_reuse_port": False,
        "traffic_direction": "INBOUND" if hop.side is Side.INGRESS else "OUTBOUND",
    }


def _matched(context: Context, hop: Hop, chain: Json) -> Json:
    """A filter chain that takes the connections of its hop by their original destination."""
    match = dict(chain.get("filter_chain_match", {}))
    if hop.side is Side.INGRESS:
        match["destination_port"] = hop.port.target
        return {**chain, "filter_chain_match": match}
    match["destination_port"] = hop.port.number
    stable = context.addresses.service_addresses(hop.destination)
    match["prefix_ranges"] = [cidr(network) for network in networks(stable)] or [_NOWHERE]
    return {**chain, "filter_chain_match": match}


def networks(texts: Sequence[str]) -> list[Network]:
    found = {ipaddress.ip_network(text, strict=False) for text in texts}
    return sorted(found, key=lambda network: (network.version, network.network_address, network.prefixlen))


def _redirected(context: Context, side: Side, out: _Collected) -> None:
    name = side.value
    through = f"{name}/passthrough"
    out.clusters[through] = cluster(context, through, side, Protocol.TCP, original=True)
    out.listeners[name] = {
        "name": name,
        "address": _socket("0.0.0.0", INGRESS_PORT if side is Side.INGRESS else EGRESS_PORT),  # noqa: S104
        "additional_addresses": [{"address": _socket("::", INGRESS_PORT if side is Side.INGRESS else EGRESS_PORT)}],
        "listener_filters": [
            extension("original-destination", "envoy.extensions.filters.listener.original_dst.v3.OriginalDst")
        ],
        "filter_chains": out.chains[side],
        "default_filter_chain": {"name": through, "filters": [tcp.proxy(through, through)]},
        "traffic_direction": "INBOUND" if side is Side.INGRESS else "OUTBOUND",
    }
