"""Keeps the open streams by group, and which streams are in sync with the snapshot of their group.

The registry notes changes as they happen. A search through thousands of streams takes tens of milliseconds, too much
for each scrape of the metrics, or for a poll ten times a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping

    from xds_server.protocol.wire import ClientNode


class ClientView(NamedTuple):
    """One client, for a cheap poll. `ClientStatus` has more, and takes longer to compute."""

    group: str
    node: ClientNode
    acknowledged: str
    """The version of the last snapshot of which the client acknowledged all resources that it can use; empty before."""
    refuses: bool
    """Whether the client has refused a resource, and has since neither acknowledged another version of the resource nor
    ended its subscription."""
    fresh: bool
    """Whether both hold: the client had no resources when its stream began, so that no connection through the proxy is
    older than the stream; and the stream started from the latest snapshot, which had not been refused."""
    stream: Registered

    @property
    def unreferenced(self) -> Mapping[str, frozenset[str]]:
        """By type URL, the route tables and extensions to which the client subscribes although no resource of the
        snapshot of its group refers to them: all such names that the snapshot has, and at most 1,000 others of a type.

        Once a client has acknowledged the snapshot, its draining filter chains use these names. Envoy ends such a
        subscription when the last filter chain that uses it is gone. A returning client repeats all subscriptions
        before it acknowledges a resource. So the names are complete as soon as `acknowledged` is the version of the
        snapshot.

        The names are computed when they are read: most polls do not need them, and they take longer than all other
        fields together.
        """
        return self.stream.unreferenced

    def held_version(self, type_url: str, name: str) -> str | None:
        """The version of a resource that the client has, also if another server sent it; None if it has none."""
        return self.stream.held_version(type_url, name)


class Registered(Protocol):
    """The properties of a stream that the registry reads."""

    @property
    def group(self) -> str: ...

    @property
    def acknowledged(self) -> str: ...

    @property
    def refuses(self) -> bool: ...

    @property
    def fresh(self) -> bool: ...

    @property
    def unreferenced(self) -> Mapping[str, frozenset[str]]: ...

    @property
    def in_sync(self) -> bool: ...

    def held_version(self, type_url: str, name: str) -> str | None: ...

    node: ClientNode


StreamT = TypeVar("StreamT", bound=Registered)


class ClientRegistry(Generic[StreamT]):
    """The streams of admitted clients."""

    def __init__(self) -> None:
        self._groups: dict[str, set[StreamT]] = {}
        self._in_sync: set[StreamT] = set()
        self._size = 0

    def __iter__(self) -> Iterator[StreamT]:
        return (stream for group in self._groups.values() for stream in group)

    def __len__(self) -> int:
        return self._size

    @property
    def groups(self) -> KeysView[str]:
        """Groups with at least one open stream."""
        return self._groups.keys()

    @property
    def behind(self) -> int:
        """The number of streams that are not in sync: their clients have not acknowledged the whole snapshot of their
        group, or have refused a part of it."""
        return self._size - len(self._in_sync)

    def of(self, group: str) -> Collection[StreamT]:
        return self._groups.get(group, ())

    def views(self, groups: Iterable[str]) -> tuple[ClientView, ...]:
        """The clients of some groups."""
        return tuple(
            ClientView(group, stream.node, stream.acknowledged, stream.refuses, stream.fresh, stream)
            for group in groups
            for stream in self.of(group)
        )

    def join(self, group: str, stream: StreamT) -> None:
        self._groups.setdefault(group, set()).add(stream)
        self._size += 1
        self.note(stream)

    def leave(self, stream: StreamT) -> bool:
        """Remove a stream, and return whether it was registered."""
        group = self._groups.get(stream.group)
        if group is None or stream not in group:
            return False
        group.remove(stream)
        if not group:
            del self._groups[stream.group]
        self._size -= 1
        self._in_sync.discard(stream)
        return True

    def note(self, stream: StreamT) -> None:
        """Update a stream after an answer of the client or a new snapshot of its group."""
        if stream.in_sync:
            self._in_sync.add(stream)
        else:
            self._in_sync.discard(stream)
