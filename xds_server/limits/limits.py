"""What clients may take of a server, and how long things last."""

from __future__ import annotations

import random
from dataclasses import dataclass

from xds_server.protocol.type_state import RESPONSE_BYTES


@dataclass(frozen=True, slots=True)
class Limits:
    """See the module. Times are in seconds."""

    request_bytes: int = 4 << 20
    response_bytes: int = RESPONSE_BYTES
    """What would be more in delta becomes several responses. A single resource, and a response of state of the world,
    may be larger: those cannot be divided."""
    streams: int = 20_000
    streams_per_peer: int = 1_000
    """Streams from one address, and as many connections without a client that was let in."""
    streams_per_identity: int = 1_000
    """Streams of clients that have proven to be the same."""
    held_per_client: int = 512 << 20
    """Bytes that all streams of one identity, or where nobody proves one of one address, make the server keep: mostly
    names that do not exist."""
    held: int = 1 << 30
    """... and those of all clients."""
    connections: int = 22_000
    """Open connections: each takes a file handle, whoever is at its other end."""
    handshake_seconds: float = 10.0
    """How long a connection may take until it speaks TLS and HTTP/2."""
    idle_seconds: float = 300.0
    """How long a connection without a stream is kept."""
    streams_per_connection: int = 100
    turn_seconds: int = 300
    """How long a new stream may wait until the server comes to it. gRPC's own 30 lost a third of 10,000 streams that
    came at once to a server with a third of a core."""
    first_request_seconds: float = 15.0
    age_seconds: float = 1800.0
    """How long a stream lasts, give or take a quarter: its client opens the next one, maybe to another replica."""
    age_grace_seconds: float = 30.0
    patience_seconds: float = 5.0
    """How long listeners and routes wait for a client that does not ask for the endpoints of its new clusters."""
    handover_seconds: float = 0.1
    """How long a client of gRPC has to notice the clusters of new routes before it uses them, and is still told of
    those of before once it does not."""
    quiet_seconds: float = 0.01
    """Changes are passed on when none has come for so long ..."""
    quiet_limit_seconds: float = 0.1
    """... but no later than this after the first."""

    def random_age(self) -> float:
        return self.age_seconds * random.uniform(0.75, 1.25)  # noqa: S311 - nobody gains by guessing it
