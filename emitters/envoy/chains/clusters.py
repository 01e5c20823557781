"""Clusters: the upstream of a hop, without limits or checks that no policy asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.program import Protocol, Side
from emitters.addresses.index import is_address
from emitters.envoy.context import Mode
from emitters.envoy.failure_marks import FAILED, lost_once
from emitters.envoy.held_headers import ANSWERS, COPIED, HOLD, Version, clear_answer, restore_copy, restore_own
from emitters.envoy.kinds.registry import arguments_of, class_of
from emitters.envoy.matching.predicates import header_predicate, only_where
from emitters.envoy.messages.typed import Json, extension, typed
from emitters.ports import EGRESS_MARK, HANDOVER_IPV4, HANDOVER_IPV6, INGRESS_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.program import Policy, Port
    from emitters.envoy.context import Context
    from emitters.hops import Hop

UNLIMITED: Final = 4294967295
CONNECT_TIMEOUT: Final = "130s"
"""Longer than the kernel's own limit, so that the kernel decides when an attempt to connect has failed."""
IDLE: Final = "1s"
"""The time for which a connection to a service stays open without a request. Services close such connections
themselves, often after two to five seconds, and a request that Envoy sends just then is lost."""
MAX_FRAMES: Final = 10_000
"""Most HTTP/2 frames without a part of a request or response that a client or a service may send, or leave unread.
Envoy's own bounds are between 1 and 1,000, depending on the frame."""
MAX_HEADERS: Final = 65535
MAX_HEADERS_KB: Final = 8192
_SOL_SOCKET: Final = 1
_SO_MARK: Final = 36
_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
_HTTP_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def preserve_case() -> Json:
    """An option by which header names keep their capitals, and reason phrases stay as they are."""
    return {
        "stateful_formatter": extension(
            "preserve_case",
            "envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig",
            forward_reason_phrase=True,
        )
    }


def http1_options(**fields: bool | str | list[Json]) -> Json:
    return {"header_key_format": preserve_case(), "enable_trailers": True, **fields}


def http2_options() -> Json:
    return {
        "allow_connect": True,
        "max_concurrent_streams": 2147483647,
        "override_stream_error_on_invalid_http_message": True,
        "max_outbound_control_frames": MAX_FRAMES,
        "max_consecutive_inbound_frames_with_empty_payload": MAX_FRAMES,
        "max_inbound_priority_frames_per_stream": MAX_FRAMES,
        "max_inbound_window_update_frames_per_data_frame_sent": MAX_FRAMES,
    }


def endpoints(name: str, addresses: Iterable[str], port: int) -> Json:
    """A `ClusterLoadAssignment`."""
    hosts = [
        {"endpoint": {"address": {"socket_address": {"address": address, "port_value": port}}}} for address in addresses
    ]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}] if hosts else []}


def _protocol_options(own: Version | None, filters: Sequence[Json], *, repeats: bool) -> Json:
    """The HTTP options of a cluster.

    `filters` are upstream filters, which every attempt passes. `repeats`: failed attempts may be repeated. `own`: the
    version for requests that the ADM makes itself (authorization, copies), which have no downstream version to keep.
    """
    common = {"idle_timeout": IDLE, "max_headers_count": MAX_HEADERS, "max_response_headers_kb": MAX_HEADERS_KB}
    one = {"http_protocol_options": http1_options()}
    two = {"http2_protocol_options": http2_options()}
    version: Json
    if own is None:
        version = {"use_downstream_protocol_config": one | two}
    else:
        version = {"explicit_http_config": two if own is Version.TWO else one}
    # An answer passes the last filter first.
    chain: list[Json] = []
    if repeats:
        chain.append({"name": FAILED, "typed_config": lost_once()})
        chain.append(extension(ANSWERS, _MUTATION, mutations={"response_mutations": clear_answer()}))
    chain += filters
    if own is not None:
        chain.append(_undo(COPIED, restore_copy()))
        chain.append(extension(HOLD, _MUTATION, mutations={"request_mutations": restore_own()}))
    options = typed(_HTTP_OPTIONS, common_http_protocol_options=common, **version)
    if chain:
        # Each filter of a cluster costs every request something, and without any Envoy needs no list of them.
        codec = extension("codec", "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec")
        options["http_filters"] = [*chain, codec]
    return {_HTTP_OPTIONS: options}


def _undo(mark: str, mutations: Sequence[Json]) -> Json:
    """A filter that mutates the requests that carry a mark."""
    config = typed(_MUTATION, mutations={"request_mutations": list(mutations)})
    return {"name": mark, "typed_config": only_where([header_predicate(mark, {"exact": "1"})], mark, config)}


def marked(side: Side) -> Json:
    """Options of connections that the interception rules must not redirect again."""
    option = {
        "description": "packet mark: not to be redirected again",
        "level": _SOL_SOCKET,
        "name": _SO_MARK,
        "int_value": INGRESS_MARK if side is Side.INGRESS else EGRESS_MARK,
        "state": "STATE_PREBIND",
    }
    return {"socket_options": [option]}


def _handed_over(context: Context) -> Json:
    """Options of connections to the pod's own process, which the interception rules recognise by their source address
    and the ADM's user. Envoy uses the address of the destination's family."""
    bind: Json = {"source_address": {"address": HANDOVER_IPV4, "port_value": 0}}
    if context.index.ipv6:
        bind["extra_source_addresses"] = [{"address": {"address": HANDOVER_IPV6, "port_value": 0}}]
    return bind


def _bind(context: Context, side: Side) -> Json | None:
    """Options that tell the ADM's own connections from others; without redirection, the address of the sender."""
    if context.mode is Mode.REDIRECT:
        return marked(side)
    if context.mode is Mode.POD:
        return _handed_over(context) if side is Side.INGRESS else None
    pods = context.addresses.pod_addresses(context.service.name)
    if side is Side.EGRESS and pods:
        return {"source_address": {"address": pods[0], "port_value": 0}}
    return None


def cluster(
    context: Context,
    name: str,
    side: Side,
    protocol: Protocol,
    *,
    original: bool = False,
    own: Version | None = None,
    policies: Sequence[Policy] = (),
    filters: Sequence[Json] = (),
    several: bool = False,
    repeats: bool = False,
) -> Json:
    """One cluster: to the original destination, or to endpoints that come by EDS.

    `own` is the version of HTTP for requests that the ADM makes itself. `policies` are the cluster-stage policies that
    hold in it. `several` is the result of `has_several`. `repeats`: routes to the cluster repeat failed attempts.
    """
    limit = {
        "max_connections": UNLIMITED,
        "max_pending_requests": UNLIMITED,
        "max_requests": UNLIMITED,
        "max_retries": UNLIMITED,
        "max_connection_pools": UNLIMITED,
    }
    result: Json = {
        "name": name,
        "connect_timeout": CONNECT_TIMEOUT,
        "circuit_breakers": {"thresholds": [limit, {"priority": "HIGH", **limit}]},
    }
    if original:
        # Idle hosts of addresses that went away are forgotten.
        result |= {"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "cleanup_interval": "60s"}
    else:
        result |= {"type": "EDS", "eds_cluster_config": {"eds_config": ADS, "service_name": name}}
        # A destination all of whose endpoints are ejected or unready is still tried, as it would be without a proxy.
        result["common_lb_config"] = {"healthy_panic_threshold": {"value": 100.0}}
    if protocol is not Protocol.TCP:
        result["typed_extension_protocol_options"] = _protocol_options(own, filters, repeats=repeats)
        if not any(class_of(policy.kind).shares_connection_pools for policy in policies):
            result["connection_pool_per_downstream_connection"] = True
    bind = _bind(context, side)
    if bind is not None:
        result["upstream_bind_config"] = bind
    for policy in policies:
        arguments_of(policy).add_to_cluster(result, limit, several=several)
    return result


ADS: Final[Json] = {"ads": {}, "resource_api_version": "V3"}


def needs_endpoints(hop: Hop, policies: Iterable[Policy]) -> bool:
    """Whether the ADM chooses the endpoint, instead of keeping the address that was dialled."""
    return hop.side is Side.EGRESS and any(class_of(policy.kind).needs_endpoints for policy in policies)


def has_several(context: Context, destination: str, port: Port) -> bool:
    """Whether outlier detection can eject one endpoint of a destination and leave another.

    The declared replicas count, not the current ones: otherwise the cluster would change, and lose its ejections,
    whenever the number of replicas becomes one or more than one. Without redirection there is one process for each
    address.
    """
    service = context.program.services.get(destination)
    if service is not None and context.mode.redirected:
        return service.replicas > 1
    return len(reachable(context, destination, port)[0]) > 1


def reachable(context: Context, destination: str, port: Port) -> tuple[tuple[str, ...], int]:
    """The endpoints of a destination and their port: its ready pods, or all pods if none is ready. Without redirection
    or a known pod, they are the addresses that callers dial.

    Other pods that are not ready are left out, and not sent as unhealthy. Envoy would still choose unhealthy endpoints
    in its panic mode, and would count them among the endpoints of which outlier detection may eject a share.
    """
    if context.mode.redirected:
        pods = context.addresses.ready_addresses(destination)
        if pods:
            return pods, port.target
    external = context.program.externals.get(destination)
    known = (*context.addresses.service_addresses(destination), *(external.hosts if external is not None else ()))
    return tuple(dict.fromkeys(text for text in known if is_address(text))), port.number
