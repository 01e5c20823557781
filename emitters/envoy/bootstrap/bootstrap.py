"""The file from which an Envoy starts: a complete one (`static_json`), or one with an xDS server (`xds_bootstrap`).

The complete file has the route tables, filter configurations and endpoints in place of the references to them. With an
xDS server, the file has only the clusters that Envoy needs before it asks the server for all resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsl.program import Side
from emitters.envoy.bootstrap import xds_server
from emitters.envoy.chains.clusters import ADS, marked
from emitters.envoy.held_headers import CONTROL
from emitters.envoy.messages.typed import Json, message, ordered, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

    from emitters.envoy.resources import AdmResources

BOOTSTRAP: Final = "envoy.config.bootstrap.v3.Bootstrap"
_READ_ONLY: Final = (
    "/ready",
    "/server_info",
    "/clusters",
    "/listeners",
    "/config_dump",
    "/init_dump",
    "/memory",
    "/certs",
)
"""Admin pages that change nothing. The other pages would let any process of the pod stop the ADM."""
_STATS: Final = r"/stats(/prometheus)?(\?.*)?"
"""The statistics. Other pages below `/stats` change what Envoy records (`/stats/recentlookups/enable`)."""

_COMING_BACK: Final = {"retry_back_off": {"base_interval": "0.5s", "max_interval": "5s"}}
"""The pauses between attempts to reach a server again. By default, Envoy waits for up to half a minute."""

_REGEX_STEPS: Final = 1_000_000.0
_MAX_RESETS: Final = 100_000.0
"""The number of streams after which Envoy closes an HTTP/2 connection, if most of them were reset within a second. A
client that sends each request twice and cancels the slower one soon exceeds Envoy's default of 500."""
_RUNTIME: Final = {
    "overload.premature_reset_total_stream_count": _MAX_RESETS,
    "re2.max_program_size.error_level": _REGEX_STEPS,
    "re2.max_program_size.warn_level": _REGEX_STEPS,
}


def static_json(resources: AdmResources) -> Json:
    """A complete bootstrap for `envoy -c`, as JSON in canonical order. It does not become a message, since all of its
    parts have been messages already."""
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
    """A bootstrap that asks an aggregated xDS server for all resources. A server as (host, port) is one without TLS.

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


def admin(address: str, port: int, *, changing: Sequence[str] = ()) -> Json:
    """The admin interface, without pages that change anything except those of `changing`."""
    at = {"socket_address": {"address": address, "port_value": port}}
    shown = [*({"prefix": path} for path in _READ_ONLY), {"safe_regex": {"regex": _STATS}}]
    return {"admin": {"address": at, "allow_paths": [*shown, *({"exact": path} for path in changing)]}}


def process() -> Json:
    """Settings that an Envoy takes from its bootstrap only."""
    # By default, Envoy accepts expressions of up to 100 steps, and 90 letters of a header exceed that
    # (`header_elements`).
    return {"header_prefix": CONTROL, "layered_runtime": {"layers": [{"name": "admc", "static_layer": _RUNTIME}]}}


def _common(resources: AdmResources, at: tuple[str, int] | None, siblings: bool) -> Json:
    common: Json = {
        "node": {"cluster": resources.service, "id": resources.service},
        **admin(*(at or resources.admin)),
        **process(),
    }
    if siblings:
        common["cluster_manager"] = {"local_cluster_name": resources.siblings}
    return common


def _inline(value: Any, routes: dict[str, Json], extensions: dict[str, Json]) -> Any:
    """A part of a message with every reference to a route table or to a filter's configuration replaced by these."""
    if isinstance(value, list):
        return [_inline(item, routes, extensions) for item in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, item in value.items():
        # A template may have such keys too, which then refer to files.
        if key == "rds" and item.get("config_source") == ADS:
            result["route_config"] = routes[item["route_config_name"]]
        elif key == "config_discovery" and item.get("config_source") == ADS:
            result["typed_config"] = extensions[value["name"]]["typed_config"]
        else:
            result[key] = _inline(item, routes, extensions)
    return result
