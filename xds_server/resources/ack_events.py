"""Events of a stream: its client has acknowledged or refused a response, a type or a whole snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.snapshot import Resource, Snapshot


class Acked(NamedTuple):
    """The client acknowledged a response."""

    type_url: str
    version: str


class Nacked(NamedTuple):
    """The client refused a response, with this message."""

    type_url: str
    version: str
    error: str
    snapshot: Snapshot
    resources: Mapping[str, str | None]
    """The versions of all resources in the response, and of resources that the client refused earlier and that have not
    changed since. None is a removal."""


@dataclass(frozen=True, slots=True)
class SnapshotAcked:
    """The client has acknowledged all resources of a snapshot that it can use."""

    snapshot: Snapshot


class TypeAcked(NamedTuple):
    """The client has acknowledged all resources of one type in a snapshot to which it subscribes. It may also have
    resources that are removed later, at the end of the transition."""

    snapshot: Snapshot
    type_url: str
    resources: Mapping[str, Resource]


@dataclass(frozen=True, slots=True)
class SnapshotAckedExceptUrgent:
    """The client has acknowledged all resources of a snapshot that it can use, except that it may have earlier versions
    of endpoints and secrets. The endpoints of a busy service always are earlier versions."""

    snapshot: Snapshot


Event = Acked | Nacked | SnapshotAcked | TypeAcked | SnapshotAckedExceptUrgent
