"""The types of resources that Envoy uses, and their roles in the protocol. All other types go by their type URL."""

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
"""A resource comes before its users. Routes come last: only they send requests to new clusters."""

WHOLE: Final = frozenset({CLUSTER, LISTENER})
"""State of the world has no removals. Of these types, a name that is not in a response is removed, so each response has
all resources."""

URGENT: Final = frozenset({ENDPOINTS, SECRET})
"""Types that change all the time, and are sent at once."""

TRIAL: Final = "trial"
"""An extension of this name is sent before all other resources of its snapshot, to clients that have an earlier version
of it."""

USED_BY_LISTENERS: Final = frozenset({EXTENSION, ROUTES})
"""Types to which a proxy subscribes for its filter chains, including the draining ones."""

NAME_FIELD: Final = {ENDPOINTS: "cluster_name"}
"""The field with the name of a message, if this field is not `name`."""


def short(type_url: str) -> str:
    """`Listener` for the type URL of listeners: for people, logs and labels."""
    return type_url.rpartition(".")[2]
