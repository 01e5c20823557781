"""Chooses the next snapshot of a stream that started from the configuration in force instead of a refused snapshot.

    store, group, Fallback -> the snapshot to offer, Fallback

Endpoints change all the time, so most later snapshots contain the refused resources, too. A client that has fallen back
does not get these snapshots. It gets the configuration in force with the latest endpoints.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xds_server.resources.cache import SnapshotCache
    from xds_server.resources.snapshot import Snapshot


class Fallback(Enum):
    """The state of one stream."""

    NEVER = auto()
    """The stream started from the latest snapshot."""
    NOW = auto()
    """The stream started from the configuration in force, and was offered no other snapshot."""
    EARLIER = auto()
    """The stream started from the configuration in force, and has since been offered a latest snapshot."""


def at_start(store: SnapshotCache, group: str, snapshot: Snapshot) -> Fallback:
    """The state of a stream that starts from this snapshot."""
    return Fallback.NEVER if snapshot is store.current(group) else Fallback.NOW


def next_snapshot(store: SnapshotCache, group: str, fallback: Fallback) -> tuple[Snapshot | None, Fallback]:
    """The snapshot to offer to a stream after a change, and the state of the stream with this snapshot."""
    current = store.current(group)
    if fallback is not Fallback.NOW:
        return current, fallback
    initial = store.initial(group)
    return initial, Fallback.EARLIER if initial is current else fallback
