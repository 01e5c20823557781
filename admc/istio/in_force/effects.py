"""What a resource does at one sidecar. All types are immutable."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

from admc.istio.mesh.model import Place

PlaceKey = tuple[int, tuple[str | int, ...]]


class Direction(StrEnum):
    INBOUND = "inbound"
    OUTBOUND = "outbound"


class Layer(IntEnum):
    """What a proxy has to read of the traffic."""

    CONNECTION = 4
    """Identities, addresses and ports: the proxy of a node does that, too."""
    REQUEST = 7


class What(StrEnum):
    """What a sidecar does because of a resource."""

    ROUTE = "a route"
    POOL = "connection pools"
    OUTLIERS = "outlier detection"
    BALANCING = "balancing"
    TLS = "TLS"
    RETRY_BUDGET = "a retry budget"
    TUNNEL = "a tunnel"
    PROXY_PROTOCOL = "the PROXY protocol"
    AUTHORIZATION = "authorization"
    DRY_RUN = "authorization as a dry run"
    STRICT = "mTLS that is required"
    MUTUAL_TLS = "mTLS that the client begins"
    IDENTITY = "the identity of the caller"
    TELEMETRY = "telemetry"
    NOT_JUDGED = "not judged"
    PLAINTEXT = "plain text"
    PERMISSIVE = "mTLS that is accepted"
    ALLOWED_ANYWAY = "an ALLOW beside an ALLOW of everything"

    @property
    def needs_sidecar(self) -> bool:
        """Whether the traffic would be treated otherwise without the sidecar."""
        return self not in (What.PLAINTEXT, What.PERMISSIVE, What.ALLOWED_ANYWAY)


class Effect(NamedTuple):
    """A resource that is in force at a sidecar."""

    direction: Direction | None
    """None for both."""
    port: int | None
    """Inbound the port of the pod, outbound that of the Service; None for all."""
    peer: str | None
    """Outbound the host; None for all."""
    resource: Place
    layer: Layer
    what: What


class Cause(StrEnum):
    """Why a resource, or a part of one, is in force nowhere."""

    NO_WORKLOAD = "it selects no workload"
    NO_SIDECAR = "no workload that it selects has a sidecar"
    NO_HOST = "no Service and no ServiceEntry has its host"
    NOT_SEEN = "no sidecar sees it: `exportTo` or a Sidecar hides it"
    NO_CALLER = "no sidecar may call its host"
    NO_ROUTE = "no route leads to the subset"
    OLDER_WINS = "another resource goes before it"
    BEHIND_ANOTHER = "an earlier route takes all requests"
    NEVER_MATCHES = "no request matches it"
    ROOT_SELECTOR = "a selector in the root namespace selects nothing"
    NO_GATEWAY = "no proxy is the gateway that it is for"
    NO_PORT = "no port of its host has the protocol of its routes"
    NO_DELEGATION = "no VirtualService delegates to it"
    OTHER_REVISION = "no workload is of its revision"
    DEFAULT = "Istio does the same without it"


class Unused(NamedTuple):
    """A resource, or a part of one, that is in force nowhere."""

    resource: Place
    cause: Cause
    by: Place | None = None
    """The resource that goes before it."""


def key_of_place(place: Place) -> PlaceKey:
    """What tells one place from another: objects are compared as such, and not by their contents."""
    return id(place.object), place.where
