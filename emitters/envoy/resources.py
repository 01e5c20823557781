"""The resources of one ADM, by the names under which Envoy subscribes to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

LISTENER: Final = "envoy.config.listener.v3.Listener"
ROUTES: Final = "envoy.config.route.v3.RouteConfiguration"
CLUSTER: Final = "envoy.config.cluster.v3.Cluster"
ENDPOINTS: Final = "envoy.config.endpoint.v3.ClusterLoadAssignment"
EXTENSION: Final = "envoy.config.core.v3.TypedExtensionConfig"

SIBLINGS: Final = "siblings"
"""The name of the cluster of an ADM's own replicas, or the beginning of that name."""

PROBES: Final = "probes"
"""The name of the route table of probes, for which every ADM in a pod asks before it starts."""

REFUSING: Final = "refused/"
"""Prefix of the names of clusters that never exist: Envoy refuses connections to them."""


@dataclass(frozen=True, slots=True, eq=False)
class AdmResources:
    """The resources of one service's ADM by name, in canonical order. Listeners name routes, extensions and clusters;
    routes and extensions name clusters, clusters name endpoints."""

    service: str
    listeners: Mapping[str, Message]
    routes: Mapping[str, Message]
    clusters: Mapping[str, Message]
    endpoints: Mapping[str, Message]
    extensions: Mapping[str, Message]
    """The configurations of filters (ECDS). Their changes reach open connections."""
    admin: tuple[str, int]
    """The address and port of the admin interface."""
    marks: bool
    """Whether the connections that the ADM opens carry a packet mark."""
    siblings: str
    """The cluster of the ADM's own replicas. Envoy takes it only from its bootstrap."""
    shares_limits: bool
    """Whether these replicas share a limit at present."""
