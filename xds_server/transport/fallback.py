"""Whether a stream started from the configuration in force, in place of a refused snapshot, and which snapshot follows.

    store, group, Fallback -> the snapshot to offer, Fallback

Later snapshots mostly have the refused resources, too: endpoints change all the time. A client that has fallen back
does not get these snapshots, but the configuration in force with the latest endpoints.
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
    """It started from the latest snapshot."""
    NOW = auto()
    """It started from the configuration in force, and was offered nothing else."""
    EARLIER = auto()
    """It started from the configuration in force, and was offered a latest snapshot since."""


def at_start(store: SnapshotCache, group: str, snapshot: Snapshot) -> Fallback:
    """The state of a stream that starts from this snapshot."""
    return Fallback.NEVER if snapshot is store.current(group) else Fallback.NOW


def next_snapshot(store: SnapshotCache, group: str, fallback: Fallback) -> tuple[Snapshot | None, Fallback]:
    """What to offer to a stream after a change, and its state then."""
    current = store.current(group)
    if fallback is not Fallback.NOW:
        return current, fallback
    initial = store.initial(group)
    return initial, Fallback.EARLIER if initial is current else fallback
