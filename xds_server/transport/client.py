"""Clients as whoever runs a server sees them: who one says it is, how it is let in, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import TypeStatus
    from xds_server.protocol.wire import ClientNode


@dataclass(frozen=True, slots=True)
class Caller:
    """Who opened a stream: what it says of itself, and what the transport says."""

    node: ClientNode
    peer: str
    """Its address, as gRPC writes it."""
    auth: Mapping[str, tuple[bytes, ...]]
    """What its certificate says (gRPC's authentication context); empty without TLS."""
    metadata: tuple[tuple[str, str | bytes], ...] = field(default=(), repr=False)
    """What it sent along, such as a token: never to be shown."""


@dataclass(frozen=True, slots=True)
class Admission:
    """A client that is let in."""

    group: str
    identity: str = ""
    """Who it has proven to be; empty where nothing was asked for."""
    expires: float | None = None
    """When the proof ends, in seconds since 1970. The stream ends with it."""


class DeniedError(Exception):
    """A client is not let in. The message says why, to those who run the server and not to the client."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """One word of few, for counting."""


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """One client, for people."""

    group: str
    node: ClientNode
    peer: str
    variant: str
    types: tuple[TypeStatus, ...]
    identity: str = ""
    since: float = 0.0
    """When its stream began, in seconds since 1970."""
    wanted: str = ""
    """Version of the snapshot that its group is to have."""
    sent: str = ""
    """Version of the snapshot that it is being led to."""
    acknowledged: str = ""
    """Version of the last snapshot of which it acknowledged all that it can use; empty before that."""
