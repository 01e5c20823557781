"""What clients of one group have acknowledged, by type: the configuration that is in force.

A client acknowledges each type by itself, and mostly when a newer snapshot has been published already. So the last
acknowledged resources of each type are kept, with the number of the snapshot that they are from. An acknowledgement
that is older than the one that is known changes nothing.

    acknowledged whole snapshot + resources of types acknowledged since -> one consistent snapshot
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xds_server.snapshot import Collection, Resource, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Mark(NamedTuple):
    """Resources of one type that some client has acknowledged."""

    number: int
    resources: Mapping[str, Resource]


class Taken:
    """See the module. It keeps references only: the bytes of a resource are those of the snapshots."""

    __slots__ = ("_base", "_elsewhere", "_made", "_marks", "_number")

    def __init__(self) -> None:
        self._base: Snapshot | None = None
        """The last snapshot of which a client has acknowledged all that it can use."""
        self._number = 0
        self._marks: dict[str, _Mark] = {}
        """Types of which something newer than that is acknowledged."""
        self._elsewhere: frozenset[str] = frozenset()
        self._made: Snapshot | None = None
        """What `snapshot` has found, until something changes."""

    def whole(self, number: int, snapshot: Snapshot) -> None:
        """A client has acknowledged all that it can use of the snapshot with this number."""
        if number < self._number or snapshot is self._base:
            return
        self._base, self._number, self._made = snapshot, number, None
        self._marks = {kind: mark for kind, mark in self._marks.items() if mark.number > number}

    def part(self, number: int, snapshot: Snapshot, type_url: str, resources: Mapping[str, Resource]) -> None:
        """A client has acknowledged these resources of a type: all of the snapshot, or those that it asks for."""
        mark = self._marks.get(type_url)
        if number <= self._number or (mark is not None and (number < mark.number or mark.resources is resources)):
            return
        if resources is not snapshot.of_type(type_url).resources:
            held = self.resources(type_url)
            if all(held.get(name) is item for name, item in resources.items()):
                return
            resources = dict(sorted({**held, **resources}.items()))
        self._marks[type_url] = _Mark(number, resources)
        self._elsewhere |= snapshot.elsewhere
        self._made = None

    def is_whole(self, snapshot: Snapshot) -> bool:
        """Whether this is the last snapshot that is acknowledged as a whole."""
        return self._base is snapshot

    def resources(self, type_url: str) -> Mapping[str, Resource]:
        """What is acknowledged of one type, whether or not the other types fit to it."""
        if type_url in self._marks:
            return self._marks[type_url].resources
        return {} if self._base is None else self._base.of_type(type_url).resources

    @property
    def snapshot(self) -> Snapshot | None:
        """All that is in force; None before a client has acknowledged a whole snapshot."""
        if self._made is None and self._base is not None:
            self._made = _joined(self._base, self._marks, self._elsewhere) if self._marks else self._base
        return self._made


def _joined(base: Snapshot, marks: Mapping[str, _Mark], elsewhere: frozenset[str]) -> Snapshot:
    """The snapshot with newer resources of some types, and whatever of its own is referred to besides: a client keeps
    that until nothing uses it. The snapshot alone if that is not enough."""
    newer = {kind: mark.resources for kind, mark in marks.items()}
    found = {kind: dict(newer.get(kind, base.of_type(kind).resources)) for kind in {*base.collections, *newer}}
    while True:
        collections = {kind: Collection(kind, dict(sorted(found[kind].items()))) for kind in sorted(found)}
        made = Snapshot(collections, base.elsewhere | elsewhere)
        missing = {problem.missing for problem in made.dangling()}
        if not missing:
            return made
        for reference in missing:
            kept = base.of_type(reference.type_url).resources.get(reference.name)
            if kept is None:
                return base
            found.setdefault(reference.type_url, {})[reference.name] = kept
