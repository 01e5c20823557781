"""The snapshot of each group of clients, and the snapshot from which a new client may start.

A group is a name for clients that get the same resources. All changes come from one thread; another one may read.
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
"""The number of refused responses of a group that are kept. The latest are kept."""


class Watcher(Protocol):
    """A function that is called for each new snapshot."""

    def __call__(self, group: str, old: Snapshot | None, new: Snapshot) -> None: ...


class _Refusal(NamedTuple):
    """The resources of one refused response. A NACK does not name the wrong resource."""

    type_url: str
    versions: Mapping[str, str]

    def concerns(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot has all of these versions. As soon as one version has changed, all may be sent again."""
        return all(_has(snapshot, self.type_url, name, version) for name, version in self.versions.items())

    def within(self, event: TypeAcked) -> bool:
        """Whether a client has acknowledged all of these versions."""
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
        """Resources that a client refused and no client has acknowledged since. Later snapshots may contain them,
        too."""
        self._numbers: WeakKeyDictionary[Snapshot, int] = WeakKeyDictionary()
        """The numbers of snapshots in the order of publication, as long as a client may acknowledge them."""
        self._start: tuple[Snapshot, Snapshot, Snapshot] | None = None
        """The last acknowledged snapshot, the current snapshot, and the snapshot that new clients get instead of
        both."""
        self.published = 0
        self.replace(snapshot)

    def replace(self, snapshot: Snapshot) -> None:
        self.current = snapshot
        self.published += 1
        self._numbers[snapshot] = self.published
        self.update_refused()

    def number(self, snapshot: Snapshot) -> int | None:
        """The number of a snapshot; None if it was not published for this group."""
        return self._numbers.get(snapshot)

    def update_refused(self) -> None:
        """Determine whether the current snapshot was refused, after a NACK, an acknowledgement or a new snapshot."""
        self.nacked = any(refusal.concerns(self.current) for refusal in self.refusals)

    @property
    def start(self) -> Snapshot:
        """The snapshot for a new client."""
        new = self.current
        old = self.last_acked.snapshot if self.nacked else None
        if old is None:
            return new
        if self._start is None or self._start[0] is not old or self._start[1] is not new:
            self._start = (old, new, up_to_date(old, new))
        return self._start[2]


@dataclass(slots=True)
class SnapshotCache:
    """The snapshots of all groups. Each new snapshot calls all `watchers`."""

    metrics: Metrics = field(default_factory=Metrics)
    watchers: list[Watcher] = field(default_factory=list)
    _groups: dict[str, _Group] = field(default_factory=dict)

    def publish(self, group: str, snapshot: Snapshot) -> bool:
        """Give a group a new snapshot. Return False if the group already has this snapshot.

        Raises `InconsistentSnapshotError` and changes nothing if a resource refers to one that does not exist.
        """
        return self.publish_all({group: snapshot}) == 1

    def publish_all(self, snapshots: Mapping[str, Snapshot]) -> int:
        """Publish for several groups, or for none if a snapshot is inconsistent. Return the number of new snapshots."""
        try:
            for snapshot in snapshots.values():
                snapshot.check()
        except SnapshotError:
            self.metrics.refused_snapshots += 1
            raise
        return sum(self._replace(group, snapshot) for group, snapshot in snapshots.items())

    def remove(self, group: str) -> None:
        """Remove a group: its clients keep their resources, and new clients get none."""
        self._groups.pop(group, None)

    def current(self, group: str) -> Snapshot | None:
        """The last snapshot that was published for a group."""
        state = self._groups.get(group)
        return state.current if state else None

    def published(self, group: str) -> int:
        """The number of snapshots that were published for a group."""
        state = self._groups.get(group)
        return 0 if state is None else state.published

    def number(self, group: str, snapshot: Snapshot) -> int:
        """The number of a snapshot among those of its group, from 1; 0 if it was not published for the group."""
        state = self._groups.get(group)
        return (0 if state is None else state.number(snapshot)) or 0

    def initial(self, group: str) -> Snapshot | None:
        """The snapshot for a new client of the group: the latest; if a client refused the latest, the configuration in
        force with the latest endpoints and secrets, if there is one. None before the first snapshot."""
        state = self._groups.get(group)
        return None if state is None else state.start

    def last_acked(self, group: str) -> Snapshot | None:
        """The configuration in force: for each type, the resources that a client of the group acknowledged last. None
        before a client has acknowledged a whole snapshot."""
        state = self._groups.get(group)
        return None if state is None else state.last_acked.snapshot

    def earlier_streams(self, group: str) -> EarlierStreams:
        """The clusters that clients of the group may have from earlier streams."""
        state = self._groups.get(group)
        return EarlierStreams() if state is None else state.earlier_streams

    def nacked_resources(self, group: str) -> frozenset[Reference]:
        """Resources of the group's snapshot that a client refused, and of which no acknowledgement is known."""
        state = self._groups.get(group)
        if state is None:
            return frozenset()
        accepted = state.last_acked.snapshot
        return frozenset(
            Reference(refusal.type_url, name)
            for refusal in state.refusals
            if refusal.concerns(state.current)
            for name, version in refusal.versions.items()
            if accepted is None or not _has(accepted, refusal.type_url, name, version)
        )

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(sorted(self._groups))

    def acked(self, group: str, snapshot: Snapshot) -> None:
        """A client has acknowledged all resources of a snapshot that it can use. It may have earlier versions of
        endpoints and secrets."""
        state = self._groups.get(group)
        if state is None or (state.last_acked.is_whole(snapshot) and not state.refusals):
            return
        number = state.number(snapshot)
        if number is None:
            return
        state.last_acked.snapshot_acked(number, snapshot)
        if state.refusals:
            # An acknowledgement of the latest snapshot covers all refused resources. That of an earlier snapshot
            # covers the resources of this snapshot.
            latest = snapshot is state.current
            state.refusals = [] if latest else [refusal for refusal in state.refusals if not refusal.concerns(snapshot)]
            state.update_refused()

    def type_acked(self, group: str, event: TypeAcked) -> None:
        """A client has acknowledged all resources of one type in a snapshot to which it subscribes."""
        state = self._groups.get(group)
        number = None if state is None else state.number(event.snapshot)
        if state is None or number is None:
            return
        state.last_acked.type_acked(number, event.snapshot, event.type_url, event.resources)
        if state.refusals:
            state.refusals = [refusal for refusal in state.refusals if not refusal.within(event)]
            state.update_refused()

    def nacked(self, group: str, refusal: Nacked) -> None:
        """A client has refused resources of a snapshot of its group."""
        state = self._groups.get(group)
        versions = {
            name: version
            for name, version in refusal.resources.items()
            if version is not None and _has(refusal.snapshot, refusal.type_url, name, version)
        }
        # A NACK of a removal, or of a name that the client made up, does not concern other clients.
        if state is not None and versions:
            new = _Refusal(refusal.type_url, versions)
            state.refusals = [*(earlier for earlier in state.refusals if earlier != new), new][-REMEMBERED:]
            state.update_refused()

    def _replace(self, group: str, snapshot: Snapshot) -> bool:
        state = self._groups.get(group)
        old = state.current if state else None
        if old is not None and old.version == snapshot.version:
            return False
        snapshot = snapshot if old is None else snapshot.sharing(old)
        if state is None:
            self._groups[group] = _Group(snapshot)
        else:
            state.replace(snapshot)
        self.metrics.snapshots += 1
        for watcher in list(self.watchers):
            watcher(group, old, snapshot)
        return True


def _has(snapshot: Snapshot, type_url: str, name: str, version: str) -> bool:
    there = snapshot.of_type(type_url).resources
    return name in there and there[name].version == version


def up_to_date(old: Snapshot, new: Snapshot) -> Snapshot:
    """An older snapshot with the endpoints and secrets of a newer one. Those of clusters that differ stay, because they
    may have changed together with the cluster."""
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
