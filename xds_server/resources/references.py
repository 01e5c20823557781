"""Finds the references of a resource to other resources, for the check of a snapshot and the order of responses.

A reference is the name of a cluster, or the name of a resource with the config source `ads` or `self`: the proxy
requests such a resource over the stream on which it received the referring one. The search visits all fields of a
message, packed messages included. A packed message whose type is not among the installed Envoy messages cannot be
parsed, and counts as a message without references.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, ROUTES, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.message import Message

MAX_DEPTH: Final = 100
"""The depth up to which protobuf itself reads messages."""

_HTTP: Final = "envoy.extensions.filters.network.http_connection_manager.v3."

_NETWORK: Final = "envoy.extensions.filters.network."
_REDIS: Final = f"{_NETWORK}redis_proxy.v3.RedisProxy.PrefixRoutes.Route"
_THRIFT: Final = f"{_NETWORK}thrift_proxy.v3."
_UDP: Final = "envoy.extensions.filters.udp.udp_proxy.v3."

_CLUSTER_FIELDS: Final = {
    "envoy.config.core.v3.ApiConfigSource": "cluster_names",
    "envoy.config.core.v3.GrpcService.EnvoyGrpc": "cluster_name",
    "envoy.config.core.v3.HttpUri": "cluster",
    "envoy.config.route.v3.RouteAction": "cluster",
    "envoy.config.route.v3.RouteAction.RequestMirrorPolicy": "cluster",
    "envoy.config.route.v3.WeightedCluster.ClusterWeight": "name",
    "envoy.config.trace.v3.DatadogConfig": "collector_cluster",
    "envoy.config.trace.v3.LightstepConfig": "collector_cluster",
    "envoy.config.trace.v3.ZipkinConfig": "collector_cluster",
    "envoy.data.dns.v3.DnsTable.DnsEndpoint": "cluster_name",
    "envoy.data.dns.v3.DnsTable.DnsServiceTarget": "cluster_name",
    "envoy.extensions.access_loggers.fluentd.v3.FluentdAccessLogConfig": "cluster",
    "envoy.extensions.clusters.aggregate.v3.ClusterConfig": "clusters",
    "envoy.extensions.filters.http.cache_v2.v3.CacheV2Config": "override_upstream_cluster",
    "envoy.extensions.filters.http.gcp_authn.v3.GcpAuthnFilterConfig": "cluster",
    "envoy.extensions.filters.http.mcp_router.v3.McpRouter.McpCluster": "cluster",
    f"{_NETWORK}dubbo_proxy.v3.RouteAction": "cluster",
    f"{_NETWORK}generic_proxy.action.v3.RouteAction": "cluster",
    _REDIS: "cluster",
    f"{_REDIS}.ReadCommandPolicy": "cluster",
    f"{_REDIS}.RequestMirrorPolicy": "cluster",
    f"{_NETWORK}tcp_proxy.v3.TcpProxy": "cluster",
    f"{_NETWORK}tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight": "name",
    f"{_THRIFT}RouteAction": "cluster",
    f"{_THRIFT}RouteAction.RequestMirrorPolicy": "cluster",
    f"{_THRIFT}WeightedCluster.ClusterWeight": "name",
    f"{_UDP}Route": "cluster",
    f"{_UDP}UdpProxyConfig": "cluster",
    "envoy.extensions.router.cluster_specifiers.lua.v3.LuaConfig": "default_cluster",
    "envoy.extensions.router.cluster_specifiers.matcher.v3.ClusterAction": "cluster",
    "envoy.extensions.tracers.fluentd.v3.FluentdConfig": "cluster",
}
"""Message type -> its field with the name of a cluster."""

_ASKED_FIELDS: Final = {
    f"{_HTTP}Rds": ("config_source", "route_config_name", ROUTES),
    "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig": ("sds_config", "name", SECRET),
}
"""Message type -> its field with the config source, its field with the name, and the type URL of the name."""

_SCOPED: Final = f"{_HTTP}ScopedRoutes"
"""A message that names many route tables, with one config source for all of them."""

_TYPED_STRUCTS: Final = frozenset({"xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"})
"""Messages that contain a message of another type, written as JSON."""


_CLUSTER: Final = "envoy.config.cluster.v3.Cluster"
_OWN_KINDS: Final = frozenset({*_CLUSTER_FIELDS, *_ASKED_FIELDS, _SCOPED, _CLUSTER})
_LEAVES: Final = frozenset(
    {f"google.protobuf.{kind}Value" for kind in ("Bool", "UInt32", "UInt64", "Double", "String")}
    | {"google.protobuf.Duration", "google.protobuf.Struct", "envoy.type.v3.Percent", "envoy.config.core.v3.Address"}
)
"""Types of messages without references. Most messages have one of these types."""


class Reference(NamedTuple):
    """A resource to which another one refers."""

    type_url: str
    name: str


@cache
def message_class(type_name: str) -> type[Message] | None:
    """The class of a message by its full name, or None if no installed package has the message."""
    package = type_name.rpartition(".")[0]
    if package.startswith(("envoy.", "xds.", "udpa.", "google.protobuf")) and ".." not in package:
        try:
            parent = importlib.import_module(package)
        except ImportError:
            return None
        for module in pkgutil.iter_modules(parent.__path__):
            if module.name.endswith("_pb2"):
                importlib.import_module(f"{package}.{module.name}")
    try:
        descriptor = descriptor_pool.Default().FindMessageTypeByName(type_name)
    except KeyError:
        return None
    return message_factory.GetMessageClass(descriptor)


def references(message: Message) -> frozenset[Reference]:
    """All references in a message and in the messages packed in it."""
    collected: set[Reference] = set()
    _walk(message, MAX_DEPTH, collected)
    return frozenset(collected)


class _Shape(NamedTuple):
    """The places in a message of one type that may have references."""

    kind: str
    packed: bool
    """Whether the message is an `Any`, which contains a message in binary form."""
    spelled_out: bool
    """Whether the message is a `TypedStruct`, which contains a message as JSON."""
    own: bool
    """Whether the message itself has fields with names of resources."""
    leading: Mapping[str, bool]
    """Field that may lead to a reference, because it contains messages -> whether the field is a map."""


def _walk(message: Any, depth: int, collected: set[Reference]) -> None:
    if depth == 0:
        return
    shape = _shape(message.DESCRIPTOR)
    if shape.packed or shape.spelled_out:
        content = _unpacked(message) if shape.packed else _spelled_out(message)
        if content is not None:
            _walk(content, depth - 1, collected)
        return
    if shape.own:
        collected.update(_own(message, shape.kind))
    leading = shape.leading
    if not leading:
        return
    for field, value in message.ListFields():
        by_key = leading.get(field.name)
        if by_key is None:
            continue
        if by_key:
            for item in value.values():
                _walk(item, depth - 1, collected)
        elif hasattr(value, "DESCRIPTOR"):
            _walk(value, depth - 1, collected)
        else:
            for item in value:
                _walk(item, depth - 1, collected)


@cache
def _shape(kind: Any) -> _Shape:
    """The shape of a type. It is cached, because reading descriptors would take most of the time for a snapshot."""
    leading = {}
    for field in kind.fields:
        if field.type == field.TYPE_MESSAGE:
            by_key = field.message_type.GetOptions().map_entry
            inner = field.message_type.fields_by_name["value"] if by_key else field
            if inner.type == inner.TYPE_MESSAGE and inner.message_type.full_name not in _LEAVES:
                leading[field.name] = by_key
    name = kind.full_name
    return _Shape(
        name,
        packed=name == "google.protobuf.Any",
        spelled_out=name in _TYPED_STRUCTS,
        own=name in _OWN_KINDS or "config_discovery" in kind.fields_by_name,
        leading=leading,
    )


def _own(message: Any, kind: str) -> Iterator[Reference]:
    if kind in _CLUSTER_FIELDS:
        value = getattr(message, _CLUSTER_FIELDS[kind])
        for name in (value,) if isinstance(value, str) else value:
            if name:
                yield Reference(CLUSTER, name)
    elif kind in _ASKED_FIELDS:
        source, name, type_url = _ASKED_FIELDS[kind]
        if _asked_here(getattr(message, source)):
            yield Reference(type_url, getattr(message, name))
    elif kind == _SCOPED:
        if _asked_here(message.rds_config_source):
            for scope in message.scoped_route_configurations_list.scoped_route_configurations:
                if scope.route_configuration_name:
                    yield Reference(ROUTES, scope.route_configuration_name)
    elif kind == _CLUSTER:
        if _asked_here(message.eds_cluster_config.eds_config):
            yield Reference(ENDPOINTS, message.eds_cluster_config.service_name or message.name)
    elif (
        "config_discovery" in message.DESCRIPTOR.fields_by_name
        and message.HasField("config_discovery")
        and _asked_here(message.config_discovery.config_source)
    ):
        # A filter of any sort refers to the resource with the name of the filter.
        yield Reference(EXTENSION, message.name)


def _asked_here(source: Any) -> bool:
    return source.WhichOneof("config_source_specifier") in {"ads", "self"}


def _unpacked(packed: Any) -> Message | None:
    # Envoy too ignores the text before the last slash.
    class_ = message_class(packed.type_url.rpartition("/")[2])
    if class_ is None:
        return None
    try:
        return class_.FromString(packed.value)
    except DecodeError:
        return None


def _spelled_out(struct: Any) -> Message | None:
    class_ = message_class(struct.type_url.rpartition("/")[2])
    if class_ is None:
        return None
    try:
        fields = json_format.MessageToDict(struct.value)
        return json_format.ParseDict(fields, class_(), ignore_unknown_fields=True, max_recursion_depth=MAX_DEPTH)
    except (json_format.Error, RecursionError):
        return None
