"""The limits of streams, memory and time that a server gives its clients."""

from __future__ import annotations

import random
from dataclasses import dataclass

from xds_server.protocol.shared_results import RESPONSE_BYTES


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server. Times are in seconds."""

    request_bytes: int = 4 << 20
    response_bytes: int = RESPONSE_BYTES
    """A larger response of the delta variant is divided into several. A single resource, and a response of state of
    the world, cannot be divided and may be larger."""
    streams: int = 20_000
    streams_per_peer: int = 1_000
    """Streams from one address. The same number limits connections from one address without an admitted client."""
    streams_per_identity: int = 1_000
    """Streams of one proven identity."""
    held_per_client: int = 512 << 20
    """Bytes of memory for all streams of one identity, or of one address if clients prove no identity. Most of this
    memory is for names that do not exist."""
    held: int = 1 << 30
    """Bytes of memory for all streams of all clients."""
    connections: int = 22_000
    """Open connections, each of which takes a file handle."""
    handshake_seconds: float = 10.0
    """How long a connection may take for the handshakes of TLS and HTTP/2."""
    idle_seconds: float = 300.0
    """How long a connection without a stream is kept."""
    streams_per_connection: int = 100
    turn_seconds: int = 300
    """How long a new stream may wait until the server accepts it. With gRPC's own 30 s, a server with a third of a
    core lost a third of 10,000 streams that arrived at once."""
    first_request_seconds: float = 15.0
    age_seconds: float = 1800.0
    """How long a stream lasts, give or take a quarter. Its client then opens a new stream, perhaps to another
    replica."""
    age_grace_seconds: float = 30.0
    patience_seconds: float = 5.0
    """How long listeners and routes wait for a client that does not subscribe to the endpoints of its new clusters."""
    handover_seconds: float = 0.1
    """How long each step of a handover between clusters lasts: a client of gRPC needs that time to apply the clusters
    of a route table."""
    quiet_seconds: float = 0.01
    """The server pushes a change when no further change has followed for this time ..."""
    quiet_limit_seconds: float = 0.1
    """... but no later than this time after the first change."""

    def random_age(self) -> float:
        return self.age_seconds * random.uniform(0.75, 1.25)  # noqa: S311 - no client gains by a guess
