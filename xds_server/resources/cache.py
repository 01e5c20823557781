"""Which snapshot each group of clients is to have, and which one a new client is safe to start from.

A group is whatever the caller says: the clients that get the same resources. All calls come from one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from xds_server.metrics import Metrics
from xds_server.resources.acknowledged import AckedResources
from xds_server.resources.earlier_streams import EarlierStreams
from xds_server.resources.references import Reference
from xds_server.resources.snapshot import Collection, Snapshot, SnapshotError
from xds_server.resources.types import CLUSTER, ENDPOINTS, SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.ack_events import Nacked, TypeAcked

REMEMBERED: Final = 16
"""Refusals of a group that are remembered, the latest ones."""


class Watcher(Protocol):
    """Who wants to hear of new snapshots."""

    def __call__(self, group: str, old: Snapshot | None, new: Snapshot) -> None: ...


class _Refusal(NamedTuple):
    """Resources that were refused together: nobody can tell which of them is wrong."""

    type_url: str
    versions: Mapping[str, str]

    def concerns(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot has just these: as soon as any has changed they may be tried again."""
        return all(_has(snapshot, self.type_url, name, version) for name, version in self.versions.items())

    def within(self, event: TypeAcked) -> bool:
        """Whether a client has taken just these."""
        there = event.resources
        return event.type_url == self.type_url and all(
            name in there and there[name].version == version for name, version in self.versions.items()
        )


class _Group:
    """One group of clients."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.last_acked = AckedResources()
        self.earlier_streams = EarlierStreams(self.last_acked)
        self.refusals: list[_Refusal] = []
        """What clients refused and no client has accepted since. It may be in later snapshots, too."""
        self._numbers: WeakKeyDictionary[Snapshot, int] = WeakKeyDictionary()
        """Snapshots in the order in which they were published, as long as some client may acknowledge them."""
        self._start: tuple[Snapshot, Snapshot, Snapshot] | None = None
        """What new clients get instead of the current snapshot, after what it is made of."""
        self.published = 0
        self.replace(snapshot)

    def replace(self, snapshot: Snapshot) -> None:
        self.current = snapshot
        self.published += 1
        self._numbers[snapshot] = self.published
        self.consider()

    def number(self, snapshot: Snapshot) -> int | None:
        """Which one it is; None if it was not published for this group."""
        return self._numbers.get(snapshot)

    def consider(self) -> None:
        """After a refusal, an acknowledgement or a new snapshot."""
        self.nacked = any(refusal.concerns(self.current) for refusal in self.refusals)

    @property
    def start(self) -> Snapshot:
        """What a new client gets."""
        new = self.current
        old = self.last_acked.snapshot if self.nacked else None
        if old is None:
            return new
        if self._start is None or self._start[0] is not old or self._start[1] is not new:
            self._start = (old, new, up_to_date(old, new))
        return self._start[2]


@dataclass(slots=True)
class SnapshotCache:
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

    def initial(self, group: str) -> Snapshot | None:
        """What a new client of the group gets: the latest, unless it was refused and something before was taken."""
        found = self._groups.get(group)
        return None if found is None else found.start

    def last_acked(self, group: str) -> Snapshot | None:
        """What is in force: of each type what some client of the group has acknowledged last. None before one has
        acknowledged a whole snapshot."""
        found = self._groups.get(group)
        return None if found is None else found.last_acked.snapshot

    def earlier_streams(self, group: str) -> EarlierStreams:
        """What clients of the group may have from earlier streams."""
        found = self._groups.get(group)
        return EarlierStreams() if found is None else found.earlier_streams

    def nacked_resources(self, group: str) -> frozenset[Reference]:
        """What the group's snapshot has that clients refused, and none is known to have taken."""
        found = self._groups.get(group)
        if found is None:
            return frozenset()
        accepted = found.last_acked.snapshot
        return frozenset(
            Reference(refusal.type_url, name)
            for refusal in found.refusals
            if refusal.concerns(found.current)
            for name, version in refusal.versions.items()
            if accepted is None or not _has(accepted, refusal.type_url, name, version)
        )

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(sorted(self._groups))

    def acked(self, group: str, snapshot: Snapshot) -> None:
        """A client has acknowledged all of it that it can use, though endpoints and secrets may be on their way."""
        found = self._groups.get(group)
        if found is None or (found.last_acked.is_whole(snapshot) and not found.refusals):
            return
        number = found.number(snapshot)
        if number is None:
            return
        found.last_acked.snapshot_acked(number, snapshot)
        if found.refusals:
            # A client that takes the latest snapshot takes all of it. An earlier one speaks for its own resources.
            latest = snapshot is found.current
            found.refusals = [] if latest else [each for each in found.refusals if not each.concerns(snapshot)]
            found.consider()

    def type_acked(self, group: str, event: TypeAcked) -> None:
        """A client has acknowledged all of one type that it is to have of a snapshot."""
        found = self._groups.get(group)
        number = None if found is None else found.number(event.snapshot)
        if found is None or number is None:
            return
        found.last_acked.type_acked(number, event.snapshot, event.type_url, event.resources)
        if found.refusals:
            found.refusals = [each for each in found.refusals if not each.within(event)]
            found.consider()

    def nacked(self, group: str, refusal: Nacked) -> None:
        """A client has refused a part of what its group had at that time, and maybe still has."""
        found = self._groups.get(group)
        versions = {
            name: version
            for name, version in refusal.resources.items()
            if version is not None and _has(refusal.snapshot, refusal.type_url, name, version)
        }
        # A name that a client made up, or a removal, is no reason to keep anything from others.
        if found is not None and versions:
            new = _Refusal(refusal.type_url, versions)
            found.refusals = [*(each for each in found.refusals if each != new), new][-REMEMBERED:]
            found.consider()

    def _replace(self, group: str, snapshot: Snapshot) -> bool:
        found = self._groups.get(group)
        old = found.current if found else None
        if old is not None and old.version == snapshot.version:
            return False
        snapshot = snapshot if old is None else snapshot.sharing(old)
        if found is None:
            self._groups[group] = _Group(snapshot)
        else:
            found.replace(snapshot)
        self.metrics.snapshots += 1
        for watcher in list(self.watchers):
            watcher(group, old, snapshot)
        return True


def _has(snapshot: Snapshot, type_url: str, name: str, version: str) -> bool:
    there = snapshot.of_type(type_url).resources
    return name in there and there[name].version == version


def up_to_date(old: Snapshot, new: Snapshot) -> Snapshot:
    """An older snapshot with the endpoints and secrets of a newer one, but for those of clusters that differ: they may
    have changed together with what the cluster says of them."""
    clusters = new.of_type(CLUSTER).resources
    stay = {
        reference
        for name, cluster in old.of_type(CLUSTER).resources.items()
        if name not in clusters or clusters[name].version != cluster.version
        for reference in cluster.references
    }
    collections = dict(old.collections)
    for type_url in (ENDPOINTS, SECRET):
        held, newer = old.of_type(type_url).resources, new.of_type(type_url).resources
        if held:
            fresh = {name: item if (type_url, name) in stay else newer.get(name, item) for name, item in held.items()}
            collections[type_url] = Collection(type_url, fresh)
    return Snapshot(collections, old.elsewhere)


def only_differs_in(old: Snapshot, new: Snapshot, types: frozenset[str]) -> bool:
    """Whether two snapshots have the same resources of all other types."""
    kinds = (old.collections.keys() | new.collections.keys()) - types
    return all(old.of_type(kind).version == new.of_type(kind).version for kind in kinds)
