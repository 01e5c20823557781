"""Every way in which a resource can refer to another is seen: else a snapshot is published that leads nowhere."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import envoy
import pytest
from envoy.extensions.clusters.aggregate.v3 import cluster_pb2 as aggregate_pb2
from envoy.extensions.filters.http.ext_authz.v3 import ext_authz_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.router.cluster_specifiers.lua.v3 import lua_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from google.protobuf import message_factory

from tests.xds_server.build import MESSAGES
from xds_server.resources.references import message_class, references
from xds_server.resources.types import CLUSTER, EXTENSION, LISTENER, ROUTES, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator


def _messages() -> Iterator[Any]:
    """All messages of Envoy's own API, as installed."""
    for module in pkgutil.walk_packages(envoy.__path__, "envoy."):
        if module.name.endswith("_pb2") and (".v3." in module.name or ".v1." in module.name):
            pending = [*importlib.import_module(module.name).DESCRIPTOR.message_types_by_name.values()]
            while pending:
                found = pending.pop()
                pending.extend(found.nested_types)
                yield found


SAYS_NO_CLUSTER = {
    # Where it comes from a header, where a match compares, where a header is sent, and where it is the message's own.
    "cluster_header", "cluster_service_name", "upstream_cluster", "cluster_id_format", "cluster_specifier_plugin",
    "local_cluster_name", "Node.cluster", "ClusterLoadAssignment.cluster_name", "ClusterStats.cluster_name",
    "OutlierDetectionEvent.cluster_name", "HealthCheckEvent.cluster_name",
    # In bootstraps alone.
    "tcp_cluster_name",
}  # fmt: skip


def test_no_message_of_envoy_names_a_cluster_that_is_not_looked_at() -> None:
    """A newer version of the messages fails here if it has new fields that refer to a cluster."""
    unknown, seen = [], set()
    for kind in _messages():
        if kind.full_name.startswith(("envoy.admin.", "envoy.service.", "envoy.config.bootstrap.")):
            continue
        for field in kind.fields:
            if field.type == field.TYPE_STRING and "cluster" in field.name:
                if {field.name, f"{kind.name}.{field.name}"} & SAYS_NO_CLUSTER:
                    continue
                message = message_factory.GetMessageClass(kind)()
                value = getattr(message, field.name)
                if isinstance(value, str):
                    setattr(message, field.name, "nowhere")
                else:
                    value.append("nowhere")
                if (CLUSTER, "nowhere") in references(message):
                    seen.add(kind.full_name)
                else:
                    unknown.append(f"{kind.full_name}.{field.name}")
    assert not unknown
    assert len(seen) > 20


@pytest.mark.parametrize("type_url", ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"])
@pytest.mark.parametrize("prefix", ["type.googleapis.com/", "type.example/x/"])
def test_messages_that_are_spelled_out_are_looked_into(type_url: str, prefix: str) -> None:
    kind = message_class(type_url)
    assert kind is not None
    struct: Any = kind(type_url=prefix + http_connection_manager_pb2.HttpConnectionManager.DESCRIPTOR.full_name)
    struct.value.update({
        "stat_prefix": "s",
        "no_such_field": {},
        "rds": {"route_config_name": "r", "config_source": {"ads": {}}},
        "http_filters": [{"name": "quota", "configDiscovery": {"config_source": {"self": {}}}}],
    })  # fmt: skip
    listener = MESSAGES[LISTENER](name="l")
    listener.filter_chains.add().filters.add(name="http").typed_config.Pack(struct, prefix)
    assert references(listener) == {(ROUTES, "r"), (EXTENSION, "quota")}
    struct.value.update({"stat_prefix": {}})
    assert references(struct) == frozenset()


def test_routes_overrides_mirrors_and_scopes_are_looked_into() -> None:
    routes = MESSAGES[ROUTES](name="r")
    routes.request_mirror_policies.add(cluster="all")
    host = routes.virtual_hosts.add(name="h", domains=["*"])
    host.request_mirror_policies.add(cluster="host")
    route = host.routes.add()
    route.route.request_mirror_policies.add(cluster="mirror")
    weight = route.route.weighted_clusters.clusters.add(name="w")
    check = ext_authz_pb2.CheckSettings()
    check.grpc_service.envoy_grpc.cluster_name = "authz"
    override = ext_authz_pb2.ExtAuthzPerRoute(check_settings=check)
    weight.typed_per_filter_config["authz"].Pack(override)
    plugin = routes.cluster_specifier_plugins.add().extension
    plugin.typed_config.Pack(lua_pb2.LuaConfig(default_cluster="plugin"))
    wanted = {"all", "host", "mirror", "w", "authz", "plugin"}
    assert references(routes) == {(CLUSTER, name) for name in wanted}
    manager = http_connection_manager_pb2.HttpConnectionManager(stat_prefix="s")
    manager.scoped_routes.rds_config_source.ads.SetInParent()
    scopes = manager.scoped_routes.scoped_route_configurations_list.scoped_route_configurations
    scopes.add(name="one", route_configuration_name="r1")
    scopes.add(name="two", route_configuration_name="r2")
    assert references(manager) == {(ROUTES, "r1"), (ROUTES, "r2")}


def test_clusters_refer_to_clusters_secrets_and_extensions() -> None:
    cluster = MESSAGES[CLUSTER](name="c")
    cluster.cluster_type.typed_config.Pack(aggregate_pb2.ClusterConfig(clusters=["a", "b"]))
    tls = tls_pb2.UpstreamTlsContext()
    both = tls.common_tls_context.combined_validation_context.validation_context_sds_secret_config
    both.name = "ca"
    both.sds_config.ads.SetInParent()
    cluster.transport_socket_matches.add(name="tls").transport_socket.typed_config.Pack(tls)
    cluster.filters.add(name="f").config_discovery.config_source.ads.SetInParent()
    assert references(cluster) == {(CLUSTER, "a"), (CLUSTER, "b"), (SECRET, "ca"), (EXTENSION, "f")}
