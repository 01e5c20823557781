"""What a stream tells those who watch over it: what its client took or refused, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.snapshot import Resource, Snapshot


class Acked(NamedTuple):
    """The client acknowledged a response."""

    type_url: str
    version: str


class Nacked(NamedTuple):
    """The client refused a response, with these words."""

    type_url: str
    version: str
    error: str
    snapshot: Snapshot
    resources: Mapping[str, str | None]
    """The versions of all that was in it, or was refused before and has not been mended; None is a removal."""


class SnapshotAcked(NamedTuple):
    """The client has acknowledged everything of a snapshot that it can use."""

    snapshot: Snapshot


class TypeAcked(NamedTuple):
    """The client has acknowledged all of one type that it is to have of a snapshot. It may have more of it: what is to
    go is taken away at the end."""

    snapshot: Snapshot
    type_url: str
    resources: Mapping[str, Resource]


class SnapshotAckedButUrgent(NamedTuple):
    """The client has acknowledged everything of a snapshot that it can use, but that some endpoints or secrets, of
    which it has earlier ones, may be on their way: those of a busy service always are."""

    snapshot: Snapshot


Event = Acked | Nacked | SnapshotAcked | TypeAcked | SnapshotAckedButUrgent
