"""The client of a stream: its own claims, its admission, and its status for an operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import TypeStatus
    from xds_server.protocol.wire import ClientNode


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that opened a stream: its node, and the facts of the transport."""

    node: ClientNode
    peer: str
    """Its address, as gRPC writes it."""
    auth: Mapping[str, tuple[bytes, ...]]
    """The authentication context of gRPC, with the certificate; empty without TLS."""
    metadata: tuple[tuple[str, str | bytes], ...] = field(default=(), repr=False)
    """The metadata of the call, such as a token. Never shown."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission of a client."""

    group: str
    identity: str = ""
    """The identity that the client has proven; empty if the server requires no proof."""
    expires: float | None = None
    """When the proof ends, in seconds since 1970. The stream ends with it."""
    node: str = ""
    """The id of the client's node if the proof contains it. If empty, the server believes the client's own claim."""


class DeniedError(Exception):
    """A client is not admitted. The message explains this to the operator, and is not sent to the client."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """A label of the metrics, from a small set of words."""


class NotYetError(DeniedError):
    """The server does not know yet whether to admit a client. The client may come again."""


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """The status of one client, for people."""

    group: str
    node: ClientNode
    peer: str
    variant: str
    types: tuple[TypeStatus, ...]
    identity: str = ""
    since: float = 0.0
    """When its stream began, in seconds since 1970."""
    wanted: str = ""
    """Version of the snapshot of its group."""
    sent: str = ""
    """Version of the snapshot that its stream is sending or has sent."""
    acknowledged: str = ""
    """The version of the last snapshot of which the client acknowledged all resources that it can use; empty before."""
