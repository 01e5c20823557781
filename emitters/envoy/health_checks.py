"""The resources by which an ADM answers the probes of its pod: a route table, and a cluster for each probe.

    ServiceProbes -> route of each probe -> cluster with a health check -> 200 or 503

The kubelet's request never reaches the process. Envoy checks the process by itself, on loopback, and a route leads to
a cluster whose only endpoint is `PROBE_ANSWERS`, a listener inside Envoy that answers 200 to everything. The endpoint
has another address for its health checks, that of the process. So the answer is 200 while the last check was good;
otherwise Envoy has no healthy endpoint and answers 503.

Envoy's filter `health_check` would answer by the health of clusters, too, but also by `/healthcheck/fail`, which says
that the pod ends and not that the process is ill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from emitters.envoy.chains.clusters import MAX_HEADERS, MAX_HEADERS_KB, UNLIMITED
from emitters.envoy.messages.typed import Json, extension, message, typed
from emitters.envoy.resources import CLUSTER, PROBES, ROUTES
from emitters.health_probes import ProbeKind, parse
from emitters.ports import HANDOVER_IPV4, HANDOVER_IPV6

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

    from emitters.health_probes import Probe, ProbeHeader, ServiceProbes, WrittenProbe

PROBE_ANSWERS: Final = "probe-answers"
"""The listener inside Envoy to which the routes of probes lead."""
USER_AGENT: Final = "kube-probe/admc"
"""Begins as that of a kubelet, by which some processes recognise a probe."""
AGAIN: Final = 2
"""Seconds between two checks of a process that is not healthy, or the probe's period if that is shorter. A process that
has just started would count as ill for a period, and a kubelet restarts it, if it allows one failure."""
_TLS: Final = "tls"
_OPTIONS: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


class ProbeResources(NamedTuple):
    """The resources by name."""

    routes: Mapping[str, Message]
    clusters: Mapping[str, Message]


def probe_resources(probes: ServiceProbes) -> ProbeResources:
    """The resources for the probes of a service. The table answers 404 to everything else."""
    routes: list[Json] = []
    clusters: dict[str, Message] = {}
    for probe in probes.probes:
        written = parse(probe.path)
        assert written is not None  # noqa: S101 - no other probe is learned
        name = probe.path.partition("?")[0]
        routes.append(_route(name))
        clusters[name] = message(CLUSTER, _cluster(name, probe, written, probes.address))
    host = {"name": PROBES, "domains": ["*"], "routes": routes}
    table = message(ROUTES, {"name": PROBES, "virtual_hosts": [host]})
    return ProbeResources({PROBES: table}, clusters)


def _route(name: str) -> Json:
    """The tag makes the path of each probe another one, also without its query, which Envoy leaves out here."""
    get = {"name": ":method", "string_match": {"exact": "GET"}}
    return {"match": {"path": name, "headers": [get]}, "route": {"cluster": name}}


def _cluster(name: str, probe: Probe, written: WrittenProbe, address: str) -> Json:
    limit = {"max_connections": UNLIMITED, "max_pending_requests": UNLIMITED, "max_requests": UNLIMITED}
    source = HANDOVER_IPV6 if ":" in address else HANDOVER_IPV4
    process = {"socket_address": {"address": address, "port_value": probe.port}}
    endpoint = {
        "address": {"envoy_internal_address": {"server_listener_name": PROBE_ANSWERS}},
        "health_check_config": {"address": process},
    }
    result: Json = {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}]},
        "health_checks": [_health_check(probe, written, address)],
        # As what the ingress listener hands over: a process that trusts 127.0.0.1 takes no check for one of its own.
        "upstream_bind_config": {"source_address": {"address": source, "port_value": 0}},
        # In its panic mode, Envoy would take an unhealthy endpoint for a healthy one.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0.0}},
        # A caller that sends many requests at once makes no other request fail.
        "circuit_breakers": {"thresholds": [limit]},
    }
    if written.kind is not ProbeKind.TCP:
        version = "http2_protocol_options" if written.kind is ProbeKind.GRPC else "http_protocol_options"
        headers = {"max_headers_count": MAX_HEADERS, "max_response_headers_kb": MAX_HEADERS_KB}
        options = typed(_OPTIONS, explicit_http_config={version: {}}, common_http_protocol_options=headers)
        result["typed_extension_protocol_options"] = {_OPTIONS: options}
    if written.kind is ProbeKind.HTTPS:
        # As the kubelet does, this takes any certificate.
        context = extension(
            "envoy.transport_sockets.tls",
            "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            # By default, Envoy asks with TLS 1.2 at most.
            common_tls_context={"tls_params": {"tls_maximum_protocol_version": "TLSv1_3"}},
        )
        result["transport_socket_matches"] = [{"name": _TLS, "match": {_TLS: True}, "transport_socket": context}]
    return result


def _health_check(probe: Probe, written: WrittenProbe, address: str) -> Json:
    period, again = f"{probe.period}s", f"{min(probe.period, AGAIN)}s"
    check: Json = {
        "timeout": f"{probe.timeout}s",
        "interval": period,
        "unhealthy_interval": again,
        # Envoy has other intervals for a cluster that got no request yet.
        "no_traffic_interval": again,
        "no_traffic_healthy_interval": period,
        "healthy_threshold": 1,
        "unhealthy_threshold": 1,
        "reuse_connection": False,
    }
    if written.kind is ProbeKind.TCP:
        return {**check, "tcp_health_check": {}}
    at = f"[{address}]:{probe.port}" if ":" in address else f"{address}:{probe.port}"
    if written.kind is ProbeKind.GRPC:
        # By default, Envoy sends the name of the cluster, and some servers reset a stream to what is no host.
        return {**check, "grpc_health_check": {"service_name": (written.rest or "")[1:], "authority": at}}
    if written.kind is ProbeKind.HTTPS:
        check["transport_socket_match_criteria"] = {_TLS: True}
    headers = [header for header in probe.headers if header.name.lower() != "host"]
    hosts = [header.value for header in probe.headers if header.name.lower() == "host" and header.value]
    http: Json = {
        "host": hosts[0] if hosts else at,
        "path": written.rest or "/",
        "request_headers_to_add": [*_defaults(headers), *map(_header, headers)],
        "expected_statuses": [{"start": 200, "end": 400}],
    }
    return {**check, "http_health_check": http}


def _defaults(headers: list[ProbeHeader]) -> list[Json]:
    """The headers that a kubelet sends unless the probe has them."""
    own = {header.name.lower() for header in headers}
    defaults = {"user-agent": USER_AGENT, "accept": "*/*"}
    return [
        {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
        for name, value in defaults.items()
        if name not in own
    ]


def _header(header: ProbeHeader) -> Json:
    # Envoy replaces `%NAME%` in a value; `%%` is a percent sign.
    value: Any = {"key": header.name, "value": header.value.replace("%", "%%")}
    once = header.name.lower() == "user-agent"  # Envoy has one of its own
    action = "OVERWRITE_IF_EXISTS_OR_ADD" if once else "APPEND_IF_EXISTS_OR_ADD"
    return {"header": value, "append_action": action, "keep_empty_value": True}
