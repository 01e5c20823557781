"""Which snapshot each group of clients is to have, and which one a new client is safe to start from.

A group is whatever the caller says: the clients that get the same resources. All calls come from one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from xds_server.metrics import Metrics
from xds_server.snapshot import Snapshot, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Watcher(Protocol):
    """Who wants to hear of new snapshots."""

    def __call__(self, group: str, old: Snapshot | None, new: Snapshot) -> None: ...


@dataclass(slots=True)
class _Group:
    current: Snapshot
    accepted: Snapshot | None = None
    """The last one of which some client acknowledged all that it can use."""
    refused: bool = False
    """Whether a client refused something of `current`."""


@dataclass(slots=True)
class SnapshotStore:
    """The snapshots of all groups. `watchers` are told of every change."""

    metrics: Metrics = field(default_factory=Metrics)
    watchers: list[Watcher] = field(default_factory=list)
    _groups: dict[str, _Group] = field(default_factory=dict)

    def publish(self, group: str, snapshot: Snapshot) -> bool:
        """Give a group a new snapshot; False if it has this one already.

        Raises `InconsistentSnapshotError` and changes nothing if a resource refers to one that does not exist.
        """
        return self.publish_all({group: snapshot}) == 1

    def publish_all(self, snapshots: Mapping[str, Snapshot]) -> int:
        """Publish for several groups, or for none of them if one is inconsistent; how many are new."""
        try:
            for snapshot in snapshots.values():
                snapshot.check()
        except SnapshotError:
            self.metrics.refused_snapshots += 1
            raise
        return sum(self._replace(group, snapshot) for group, snapshot in snapshots.items())

    def remove(self, group: str) -> None:
        """Forget a group: its clients keep what they have, and new ones find nothing."""
        self._groups.pop(group, None)

    def current(self, group: str) -> Snapshot | None:
        """The last snapshot that was published for a group."""
        found = self._groups.get(group)
        return found.current if found else None

    def start(self, group: str) -> Snapshot | None:
        """What a new client of the group gets: the latest, unless it was refused and one before was taken."""
        found = self._groups.get(group)
        if found is None:
            return None
        return found.accepted if found.refused and found.accepted is not None else found.current

    def taken(self, group: str) -> Snapshot | None:
        """The last snapshot of which some client of the group has acknowledged everything."""
        found = self._groups.get(group)
        return None if found is None else found.accepted

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(sorted(self._groups))

    def accepted(self, group: str, snapshot: Snapshot) -> None:
        """A client has acknowledged all of it."""
        found = self._groups.get(group)
        if found is not None and found.current is snapshot:
            found.accepted = snapshot

    def refused(self, group: str, snapshot: Snapshot) -> None:
        """A client has refused a part of it."""
        found = self._groups.get(group)
        if found is not None and found.current is snapshot:
            found.refused = True

    def _replace(self, group: str, snapshot: Snapshot) -> bool:
        found = self._groups.get(group)
        old = found.current if found else None
        if old is not None and old.version == snapshot.version:
            return False
        snapshot = snapshot if old is None else snapshot.sharing(old)
        if found is None:
            self._groups[group] = _Group(snapshot)
        else:
            found.current, found.refused = snapshot, False
        self.metrics.snapshots += 1
        for watcher in list(self.watchers):
            watcher(group, old, snapshot)
        return True


def only_differs_in(old: Snapshot, new: Snapshot, types: frozenset[str]) -> bool:
    """Whether two snapshots have the same resources of all other types."""
    kinds = (old.collections.keys() | new.collections.keys()) - types
    return all(old.of_type(kind).version == new.of_type(kind).version for kind in kinds)
