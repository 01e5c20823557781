"""The resources that clients of one group have acknowledged last, by type: the configuration that is in force.

A client acknowledges each type by itself, and often after a newer snapshot has been published. So the last acknowledged
resources of each type are kept, with the number of their snapshot. An acknowledgement of an older snapshot changes
nothing. An acknowledgement of some names changes only these names.

    acknowledged whole snapshot + resources of types acknowledged since -> one consistent snapshot
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xds_server.resources.snapshot import Collection, Resource, Snapshot
from xds_server.resources.types import URGENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.snapshot import Dangling


class _AckedType(NamedTuple):
    """All resources of one type that a client has acknowledged."""

    number: int
    resources: Mapping[str, Resource]
    snapshot: Snapshot
    """The snapshot that contains the resources."""


class _AckedResource(NamedTuple):
    """One resource that was acknowledged by a client which does not subscribe to all resources of the type."""

    number: int
    resource: Resource
    snapshot: Snapshot


class AckedResources:
    """The acknowledged resources of one group. The class keeps references only; the snapshots hold the bytes."""

    __slots__ = ("_base", "_made", "_marks", "_number", "_resources", "_singles")

    def __init__(self) -> None:
        self._base: Snapshot | None = None
        """The last snapshot of which a client has acknowledged all resources that it can use."""
        self._number = 0
        self._marks: dict[str, _AckedType] = {}
        """Types that were acknowledged as a whole in a newer snapshot."""
        self._singles: dict[str, dict[str, _AckedResource]] = {}
        """By type and name, single resources that are newer than `_base` and `_marks`."""
        self._resources: dict[str, Mapping[str, Resource]] = {}
        """The results of `resources` for types with single resources, until one changes."""
        self._made: Snapshot | None = None
        """The result of `snapshot`, until a part of it changes."""

    def snapshot_acked(self, number: int, snapshot: Snapshot) -> None:
        """A client has acknowledged all resources that it can use of the snapshot with this number."""
        if number < self._number or snapshot is self._base:
            return
        self._base, self._number = snapshot, number
        self._marks = {kind: mark for kind, mark in self._marks.items() if mark.number > number}
        for kind in list(self._singles):
            self._forget(kind, number)
        self._made = None

    def type_acked(self, number: int, snapshot: Snapshot, type_url: str, resources: Mapping[str, Resource]) -> None:
        """A client has acknowledged these resources of a type: all of the snapshot, or those of its subscription."""
        mark = self._marks.get(type_url)
        if number <= self._number or (mark is not None and number < mark.number):
            return
        there = snapshot.of_type(type_url).resources
        if resources is there:
            if mark is not None and mark.resources is resources:
                return
            self._marks[type_url] = _AckedType(number, resources, snapshot)
            self._forget(type_url, number)
        else:
            held = self.resources(type_url)
            if all(held.get(name) is item for name, item in resources.items()):
                return
            singles = self._singles.get(type_url, {})
            newer = {name: single for name, single in singles.items() if single.number > number}
            # A newer snapshot without a name drops the name. Otherwise the names of all snapshots would be kept.
            older = {name: single for name, single in singles.items() if name in there}
            these = {name: _AckedResource(number, item, snapshot) for name, item in resources.items()}
            self._singles[type_url] = {**older, **these, **newer}
            self._resources.pop(type_url, None)
        self._made = None

    def is_whole(self, snapshot: Snapshot) -> bool:
        """Whether this is the last snapshot that is acknowledged as a whole."""
        return self._base is snapshot

    def resources(self, type_url: str) -> Mapping[str, Resource]:
        """The acknowledged resources of one type, whether or not those of other types are consistent with them."""
        mark, base = self._marks.get(type_url), self._base
        whole: Mapping[str, Resource] = {}
        if mark is not None:
            whole = mark.resources
        elif base is not None:
            whole = base.of_type(type_url).resources
        if type_url not in self._singles:
            return whole
        if type_url not in self._resources:
            newer = {name: single.resource for name, single in self._singles[type_url].items()}
            self._resources[type_url] = dict(sorted({**whole, **newer}.items()))
        return self._resources[type_url]

    @property
    def snapshot(self) -> Snapshot | None:
        """The configuration in force, consistent; None before a client has acknowledged a whole snapshot."""
        if self._made is None and self._base is not None:
            newer = self._marks.keys() | self._singles.keys()
            self._made = self._joined(self._base) if newer else self._base
        return self._made

    def _forget(self, type_url: str, number: int) -> None:
        """Forget single resources up to this number: a client has acknowledged the whole type in that snapshot."""
        newer = {name: single for name, single in self._singles.pop(type_url, {}).items() if single.number > number}
        self._resources.pop(type_url, None)
        if newer:
            self._singles[type_url] = newer

    def _from(self, type_url: str, name: str) -> Snapshot | None:
        """The snapshot that has an acknowledged resource."""
        single, mark = self._singles.get(type_url, {}).get(name), self._marks.get(type_url)
        if single is not None:
            return single.snapshot
        return mark.snapshot if mark is not None else self._base

    def _joined(self, base: Snapshot) -> Snapshot:
        """The last whole snapshot, with newer resources in place of its own.

        Resources of the whole snapshot to which newer ones refer stay: a client keeps a resource until nothing uses it.
        A newer resource that refers to a resource without an acknowledgement is not in force yet: a client uses the
        earlier version until it has both.
        """
        kinds = {*base.collections, *self._marks, *self._singles}
        collected = {kind: dict(self.resources(kind)) for kind in kinds}
        sources = [acked_type.snapshot for acked_type in self._marks.values()]
        sources += [single.snapshot for singles in self._singles.values() for single in singles.values()]
        elsewhere = base.elsewhere.union(*(snapshot.elsewhere for snapshot in sources))
        while True:
            made = Snapshot(
                {kind: Collection(kind, dict(sorted(collected[kind].items()))) for kind in sorted(collected)}, elsewhere
            )
            problems = made.dangling()
            if not problems:
                return made
            for problem in problems:
                kind, name = problem.type_url, problem.name
                unchanged = collected[kind].get(name) is made.of_type(kind).resources[name]
                if unchanged and not self._mend(problem, base, collected):
                    return base

    def _mend(self, problem: Dangling, base: Snapshot, collected: dict[str, dict[str, Resource]]) -> bool:
        """Add a missing resource, or else restore the earlier version of the resource that refers to it. False if that
        resource is in the last whole snapshot."""
        kind, name = problem.missing
        missing = base.of_type(kind).resources.get(name)
        source = self._from(problem.type_url, problem.name)
        if missing is None and kind in URGENT and source is not None:
            # Acknowledgements of these types are not kept, and no other type waits for them.
            missing = source.of_type(kind).resources.get(name)
        if missing is not None:
            collected.setdefault(kind, {})[name] = missing
            return True
        users = collected[problem.type_url]
        newer, before = users.pop(problem.name), base.of_type(problem.type_url).resources.get(problem.name)
        if before is not None:
            users[problem.name] = before
        return newer is not before
