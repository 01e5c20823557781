"""Clusters: where a connection goes on to, with nothing in the way that no policy asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsl.program import Protocol, Side
from emitters.addresses.index import is_address
from emitters.envoy.context import Mode
from emitters.envoy.held_headers import ANSWERS, COPIED, HOLDING, Version, hold_answer, restore, restore_copy
from emitters.envoy.matching.predicates import header_predicate, only_where
from emitters.envoy.messages.typed import Json, duration, extension, typed
from emitters.interception.ports import EGRESS_MARK, INGRESS_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.program import Policy, Port
    from emitters.envoy.context import Context
    from emitters.hops import Hop

UNLIMITED: Final = 4294967295
CONNECT_TIMEOUT: Final = "130s"
"""Longer than the kernel tries by itself, so that it is the kernel that gives up."""
IDLE: Final = "1s"
"""How long a connection to a service is kept without a request. Services close such connections themselves, often after
two to five seconds, and a request that is sent just then is lost."""
MAX_HEADERS: Final = 65535
MAX_HEADERS_KB: Final = 8192
_SOL_SOCKET: Final = 1
_SO_MARK: Final = 36
_MUTATION: Final = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
_HTTP_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def preserve_case() -> Json:
    """Header names and reason phrases keep their letters."""
    return {
        "stateful_formatter": extension(
            "preserve_case",
            "envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig",
            forward_reason_phrase=True,
        )
    }


def http1_options(**fields: Any) -> Json:
    return {"header_key_format": preserve_case(), "enable_trailers": True, **fields}


def http2_options(**fields: Any) -> Json:
    return {
        "allow_connect": True,
        "max_concurrent_streams": 2147483647,
        "override_stream_error_on_invalid_http_message": True,
        **fields,
    }


def endpoints(name: str, addresses: Iterable[str], port: int) -> Json:
    """A `ClusterLoadAssignment`."""
    hosts = [
        {"endpoint": {"address": {"socket_address": {"address": address, "port_value": port}}}} for address in addresses
    ]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}] if hosts else []}


def _protocol_options(own: Version | None, filters: Sequence[Json], *, repeats: bool) -> Json:
    """`filters` are upstream filters, which every attempt passes. `repeats`: failed attempts may be repeated.

    `own`: the ADM speaks for itself (authorization, copies), so there is no caller whose version Envoy could keep.
    """
    common = {"idle_timeout": IDLE, "max_headers_count": MAX_HEADERS, "max_response_headers_kb": MAX_HEADERS_KB}
    one = {"http_protocol_options": http1_options()}
    two = {"http2_protocol_options": http2_options()}
    version: Json
    if own is None:
        version = {"use_downstream_protocol_config": one | two}
    else:
        version = {"explicit_http_config": two if own is Version.TWO else one}
    # Here and not in the router: a mirrored request passes no router of ours.
    chain = [
        *(
            [{"name": ANSWERS, "typed_config": typed(_MUTATION, mutations={"response_mutations": hold_answer()})}]
            if repeats
            else []
        ),
        *filters,
        *([] if own is None else [_undo(COPIED, restore_copy())]),
        _undo(HOLDING, restore()),
        extension("codec", "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec"),
    ]
    return {_HTTP_OPTIONS: typed(_HTTP_OPTIONS, common_http_protocol_options=common, http_filters=chain, **version)}


def _undo(mark: str, mutations: Sequence[Json]) -> Json:
    """A filter that mutates the requests that carry a mark."""
    config = typed(_MUTATION, mutations={"request_mutations": list(mutations)})
    return {"name": mark, "typed_config": only_where([header_predicate(mark, {"exact": "1"})], mark, config)}


def marked(side: Side) -> Json:
    """Connections that are not to be redirected again."""
    option = {
        "description": "packet mark: not to be redirected again",
        "level": _SOL_SOCKET,
        "name": _SO_MARK,
        "int_value": INGRESS_MARK if side is Side.INGRESS else EGRESS_MARK,
        "state": "STATE_PREBIND",
    }
    return {"socket_options": [option]}


def _bind(context: Context, side: Side) -> Json | None:
    """What marks the ADM's own connections, or, on loopback, says who sends."""
    if context.mode is Mode.REDIRECT:
        return marked(side)
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
    hold in it. `several` is what `has_several` says of its endpoints. `repeats`: routes to it repeat failed attempts.
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
        # A limit on connections does not hold for the first one of a pool, so pools are shared where there is one.
        if not any(policy.kind.name == "circuit_breaking" for policy in policies):
            result["connection_pool_per_downstream_connection"] = True
    bind = _bind(context, side)
    if bind is not None:
        result["upstream_bind_config"] = bind
    for policy in policies:
        _POLICIES[policy.kind.name](policy, result, limit, several=several)
    return result


ADS: Final[Json] = {"ads": {}, "resource_api_version": "V3"}

# ---- cluster-stage kinds ----


def _circuit_breaking(policy: Policy, result: Json, limit: Json, *, several: bool) -> None:
    """The tightest of several limits holds."""
    fields = {
        "max_connections": "max_connections",
        "max_pending": "max_pending_requests",
        "max_requests": "max_requests",
    }
    for parameter, field in fields.items():
        value = policy.arguments[parameter]
        if isinstance(value, int):
            limit[field] = min(limit[field], value)
    high = dict(limit)
    result["circuit_breakers"] = {"thresholds": [limit | {"track_remaining": True}, {"priority": "HIGH", **high}]}


def _outlier_detection(policy: Policy, result: Json, limit: Json, *, several: bool) -> None:
    interval, ejection = policy.arguments["interval"], policy.arguments["ejection"]
    assert isinstance(interval, int)  # noqa: S101 - checked by the resolver
    assert isinstance(ejection, int)  # noqa: S101
    percent = policy.arguments["max_ejected"]
    assert isinstance(percent, int | float)  # noqa: S101
    consecutive = policy.arguments["consecutive_errors"]
    result["outlier_detection"] = {
        "consecutive_5xx": consecutive,
        "consecutive_gateway_failure": consecutive,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_success_rate": 0,
        "interval": duration(interval),
        "base_ejection_time": duration(ejection),
        "max_ejection_time": duration(max(ejection, 300_000_000)),
        "max_ejection_percent": int(percent),
    }
    if several and percent > 0:
        # Or Envoy would put out nobody where the share is less than one of them, as 10% of three is.
        result["outlier_detection"]["always_eject_one_host"] = True
    # By itself Envoy lets an ejection wait for a second where the endpoints have just changed.
    result["common_lb_config"] = {"healthy_panic_threshold": {"value": 0.0}, "update_merge_window": "0s"}


_LB: Final = {
    "round_robin": "ROUND_ROBIN",
    "least_request": "LEAST_REQUEST",
    "random": "RANDOM",
    "ring_hash": "RING_HASH",
    "maglev": "MAGLEV",
}


def _load_balancing(policy: Policy, result: Json, limit: Json, *, several: bool) -> None:
    result["lb_policy"] = _LB[str(policy.arguments["policy"])]


_POLICIES: Final = {
    "circuit_breaking": _circuit_breaking,
    "outlier_detection": _outlier_detection,
    "load_balancing": _load_balancing,
}


def needs_endpoints(hop: Hop, policies: Iterable[Policy]) -> bool:
    """Whether the ADM chooses who is called, instead of keeping the address that was dialled."""
    return hop.side is Side.EGRESS and any(
        policy.kind.name in ("load_balancing", "outlier_detection") for policy in policies
    )


def has_several(context: Context, destination: str, port: Port) -> bool:
    """Whether one endpoint can be put out and leave another.

    As many as are declared, not as many as are known now: else a cluster would change, and forget whom it has put out,
    whenever the first or the last but one comes or goes. Without redirection there is one process for each address.
    """
    service = context.program.services.get(destination)
    if service is not None and context.mode is Mode.REDIRECT:
        return service.replicas > 1
    return len(reachable(context, destination, port)[0]) > 1


def reachable(context: Context, destination: str, port: Port) -> tuple[tuple[str, ...], int]:
    """The endpoints of a destination: its pods that are ready, or what is dialled where nothing is redirected.

    Those that are not are left out, and not sent as unhealthy: Envoy would choose them all the same wherever it is to
    try somebody whatever happens, and count them among those of whom outlier detection may put out a share.
    """
    if context.mode is Mode.REDIRECT:
        pods = context.addresses.ready_addresses(destination)
        if pods:
            return pods, port.target
    external = context.program.externals.get(destination)
    known = (*context.addresses.service_addresses(destination), *(external.hosts if external is not None else ()))
    return tuple(dict.fromkeys(text for text in known if is_address(text))), port.number
