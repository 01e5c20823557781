"""The types of resource that clients ask for, and what the protocol says of each: everything else goes by type URL."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "type.googleapis.com/"

CLUSTER: Final = PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINTS: Final = PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
EXTENSION: Final = PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
LISTENER: Final = PREFIX + "envoy.config.listener.v3.Listener"
ROUTES: Final = PREFIX + "envoy.config.route.v3.RouteConfiguration"
SECRET: Final = PREFIX + "envoy.extensions.transport_sockets.tls.v3.Secret"

ORDER: Final = (SECRET, CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES)
"""What is used comes before what uses it. Routes come last: only they send requests somewhere new."""

WHOLE: Final = frozenset({CLUSTER, LISTENER})
"""State of the world has no removals: for these a name that is not in a response is removed, so all are in each."""

URGENT: Final = frozenset({ENDPOINTS, SECRET})
"""These change all the time, and wait for nothing."""

TRIAL: Final = "trial"
"""An extension of this name goes before everything else of its snapshot, to clients that have an earlier one of it."""

USED_BY_LISTENERS: Final = frozenset({EXTENSION, ROUTES})
"""A client subscribes to these for its filter chains, also for those that drain."""

NAME_FIELD: Final = {ENDPOINTS: "cluster_name"}
"""Where a message keeps its name, if not in `name`."""


def short(type_url: str) -> str:
    """`Listener` for the type URL of listeners: for people, logs and labels."""
    return type_url.rpartition(".")[2]
