"""Resources that are easy to tell apart: each carries a number as its content."""

from __future__ import annotations

from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import extension_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from google.protobuf.wrappers_pb2 import StringValue

from xds_server.resources.snapshot import Resource
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET

WORDS = {
    "clusters": CLUSTER,
    "endpoints": ENDPOINTS,
    "extensions": EXTENSION,
    "listeners": LISTENER,
    "routes": ROUTES,
    "secrets": SECRET,
}
STRING = f"type.googleapis.com/{StringValue.DESCRIPTOR.full_name}"
MESSAGES: dict[str, Any] = {
    CLUSTER: cluster_pb2.Cluster,
    ENDPOINTS: endpoint_pb2.ClusterLoadAssignment,
    EXTENSION: extension_pb2.TypedExtensionConfig,
    LISTENER: listener_pb2.Listener,
    ROUTES: route_pb2.RouteConfiguration,
    SECRET: secret_pb2.Secret,
}


def resource(type_url: str, name: str, content: int, uses: tuple[str, ...] = ()) -> Resource:
    """A resource with a number in it that refers to others: a listener to routes, and to an extension `f` as `+f`;
    routes to clusters; and a cluster to endpoints of its own name unless it uses `-`."""
    message = MESSAGES[type_url]()
    if type_url == CLUSTER:
        message.name = name
        message.connect_timeout.seconds = content
        if uses != ("-",):
            message.type = cluster_pb2.Cluster.EDS
            message.eds_cluster_config.eds_config.ads.SetInParent()
            if uses:
                message.eds_cluster_config.service_name = uses[0]
    elif type_url == ENDPOINTS:
        message.cluster_name = name
        message.policy.overprovisioning_factor.value = content
    elif type_url == EXTENSION:
        message.name = name
        message.typed_config.Pack(StringValue(value=str(content)))
    elif type_url == LISTENER:
        message.name = name
        message.stat_prefix = str(content)
        for used in uses:
            if used.startswith("+"):
                found = message.filter_chains.add().filters.add(name=used[1:]).config_discovery
                found.config_source.ads.SetInParent()
                found.type_urls.append(STRING)
                continue
            manager = http_connection_manager_pb2.HttpConnectionManager(stat_prefix=used)
            manager.rds.route_config_name = used
            manager.rds.config_source.ads.SetInParent()
            message.filter_chains.add().filters.add(name="http").typed_config.Pack(manager)
    elif type_url == ROUTES:
        message.name = name
        host = message.virtual_hosts.add(name=str(content), domains=["*"])
        for used in uses:
            route = host.routes.add()
            route.match.prefix = "/"
            route.route.cluster = used
    else:
        message.name = name
        message.generic_secret.secret.inline_string = str(content)
    return Resource.of(message)


def content_of(message: Any) -> str:
    """The number in a resource, or `empty` for endpoints without any."""
    kind = message.DESCRIPTOR.name
    if kind == "Cluster":
        return str(message.connect_timeout.seconds)
    if kind == "ClusterLoadAssignment":
        return str(message.policy.overprovisioning_factor.value) if message.HasField("policy") else "empty"
    if kind == "TypedExtensionConfig":
        text = StringValue()
        message.typed_config.Unpack(text)
        return text.value
    if kind == "Listener":
        return str(message.stat_prefix)
    if kind == "RouteConfiguration":
        return str(message.virtual_hosts[0].name)
    return str(message.generic_secret.secret.inline_string)
