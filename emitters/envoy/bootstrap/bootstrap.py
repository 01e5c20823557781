"""The file that an Envoy starts from: complete in itself (`static_json`), or naming an xDS server (`xds_bootstrap`).

Both describe the same resources. In the static one every reference is replaced by the resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsl.program import Side
from emitters.envoy.bootstrap import xds_server
from emitters.envoy.chains.clusters import ADS, marked
from emitters.envoy.messages.typed import Json, message, ordered, to_json

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from emitters.envoy.resources import AdmResources

BOOTSTRAP: Final = "envoy.config.bootstrap.v3.Bootstrap"
_READ_ONLY: Final = (
    "/ready",
    "/stats",
    "/server_info",
    "/clusters",
    "/listeners",
    "/config_dump",
    "/init_dump",
    "/memory",
    "/certs",
)
"""Admin pages that only show. The others would let any process of the pod stop the ADM."""

_COMING_BACK: Final = {"retry_back_off": {"base_interval": "0.5s", "max_interval": "5s"}}
"""When to ask again after a server was away. By itself Envoy stays away for up to half a minute."""

_REGEX_STEPS: Final = 1_000_000.0
_MAX_RESETS: Final = 100_000.0
"""How many streams of an HTTP/2 connection may end before the connection does, if most of them were reset within a
second: a client that asks twice and gives up the slower answer does that all the time. By itself Envoy takes 500."""
_RUNTIME: Final = {
    "overload.premature_reset_total_stream_count": _MAX_RESETS,
    "re2.max_program_size.error_level": _REGEX_STEPS,
    "re2.max_program_size.warn_level": _REGEX_STEPS,
}


def static_json(resources: AdmResources) -> Json:
    """A bootstrap that needs nothing else, what `envoy -c` runs: as JSON in canonical order, without the detour over a
    message. Its parts were messages."""
    routes = {name: to_json(item) for name, item in resources.routes.items()}
    extensions = {name: to_json(item) for name, item in resources.extensions.items()}
    listeners = [_inline(to_json(item), routes, extensions) for item in resources.listeners.values()]
    clusters = []
    for name, item in resources.clusters.items():
        if name == resources.siblings and not resources.shares_limits:
            continue
        content = to_json(item)
        if content.pop("eds_cluster_config", None) is not None:
            content["type"] = "STATIC"
            content["load_assignment"] = to_json(resources.endpoints[name])
        clusters.append(content)
    common = _common(resources, None, resources.shares_limits)
    return ordered({**common, "static_resources": {"listeners": listeners, "clusters": clusters}})


def xds_bootstrap(
    resources: AdmResources, xds: xds_server.Server | tuple[str, int], *, admin: tuple[str, int] | None = None
) -> Message:
    """A bootstrap that asks an aggregated xDS server for everything; by host and port alone, without TLS.

    Every replica needs a node id of its own: start it with `envoy --service-node ID`, which overrides the one here.
    """
    server = xds_server.Server(*xds)
    clusters: list[Json] = [xds_server.cluster(server)]
    if resources.marks:
        clusters[0]["upstream_bind_config"] = marked(Side.EGRESS)
    # Envoy looks for its own cluster before it opens a stream, and a policy that needs it may come later.
    clusters.append(to_json(resources.clusters[resources.siblings]))
    return message(
        BOOTSTRAP,
        {
            **_common(resources, admin, True),
            "static_resources": {"clusters": clusters},
            "dynamic_resources": asking(ADS),
        },
    )


def asking(source: Json) -> Json:
    """`dynamic_resources`: listeners and clusters come from the server, by this configuration source."""
    return {
        "ads_config": {
            "api_type": "DELTA_GRPC",
            "transport_api_version": "V3",
            "set_node_on_first_message_only": True,
            "grpc_services": [{"envoy_grpc": {"cluster_name": xds_server.XDS_CLUSTER, "retry_policy": _COMING_BACK}}],
        },
        "cds_config": source,
        "lds_config": source,
    }


def admin(address: str, port: int) -> Json:
    """The admin interface, which only shows."""
    at = {"socket_address": {"address": address, "port_value": port}}
    return {"admin": {"address": at, "allow_paths": [{"prefix": path} for path in _READ_ONLY]}}


def runtime() -> Json:
    # By itself Envoy takes expressions of 100 steps, which a header of 90 letters exceeds (`elements`).
    return {"layered_runtime": {"layers": [{"name": "admc", "static_layer": _RUNTIME}]}}


def _common(resources: AdmResources, at: tuple[str, int] | None, siblings: bool) -> Json:
    common: Json = {
        "node": {"cluster": resources.service, "id": resources.service},
        **admin(*(at or resources.admin)),
        **runtime(),
    }
    if siblings:
        common["cluster_manager"] = {"local_cluster_name": resources.siblings}
    return common


def _inline(value: Any, routes: dict[str, Json], extensions: dict[str, Json]) -> Any:
    """Replace every reference to a route table or to a filter's configuration."""
    if isinstance(value, list):
        return [_inline(item, routes, extensions) for item in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, item in value.items():
        # A template may have such keys too, and means files by them.
        if key == "rds" and item.get("config_source") == ADS:
            result["route_config"] = routes[item["route_config_name"]]
        elif key == "config_discovery" and item.get("config_source") == ADS:
            result["typed_config"] = extensions[value["name"]]["typed_config"]
        else:
            result[key] = _inline(item, routes, extensions)
    return result
