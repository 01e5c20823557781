"""Who listens: open streams by group, and which of them have all that they are to have, noted as that changes.

Looking through thousands of streams takes tens of milliseconds, too much for what is asked at every scrape, or ten
times a second while something waits for a few groups of many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping

    from xds_server.protocol.wire import Node
    from xds_server.transport.connection import Connection


class ClientView(NamedTuple):
    """One client, for whoever waits for it: `ClientStatus` says more, at a price."""

    group: str
    node: Node
    acknowledged: str
    """Version of the last snapshot of which it acknowledged all that it can use; empty before that."""
    refuses: bool
    """Whether it has refused something that it has not taken or given up since."""
    fresh: bool
    """Whether it had nothing when its stream began, so that no connection through it is older than that."""
    unreferenced: Mapping[str, frozenset[str]]
    """By type URL, names of route tables and extensions that it subscribes to, and that no resource of the snapshot of
    its group refers to: all of those that the snapshot has, and at most 1,000 others of each type. Once a client has
    acknowledged the snapshot, these are what its draining filter chains use. Envoy ends such a subscription when the
    last filter chain that uses it is gone. A client that comes back repeats all subscriptions before it acknowledges
    anything, so that this is complete as soon as `acknowledged` is the version of the snapshot."""


class ClientRegistry:
    """The streams of clients that were let in."""

    def __init__(self) -> None:
        self._groups: dict[str, set[Connection]] = {}
        self._in_sync: set[Connection] = set()
        self._size = 0

    def __iter__(self) -> Iterator[Connection]:
        return (connection for group in self._groups.values() for connection in group)

    def __len__(self) -> int:
        return self._size

    @property
    def groups(self) -> KeysView[str]:
        """Those that somebody listens for."""
        return self._groups.keys()

    @property
    def behind(self) -> int:
        """How many have not acknowledged all that they are to have, or refused something of it."""
        return self._size - len(self._in_sync)

    def of(self, group: str) -> Collection[Connection]:
        return self._groups.get(group, ())

    def views(self, groups: Iterable[str]) -> tuple[ClientView, ...]:
        """Where the clients of some groups stand."""
        return tuple(
            ClientView(
                group,
                connection.node,
                connection.acknowledged,
                connection.refuses,
                connection.fresh,
                connection.unreferenced,
            )
            for group in groups
            for connection in self.of(group)
        )

    def join(self, group: str, connection: Connection) -> None:
        self._groups.setdefault(group, set()).add(connection)
        self._size += 1
        self.note(connection)

    def leave(self, connection: Connection) -> bool:
        """Whether it was there."""
        group = self._groups.get(connection.group)
        if group is None or connection not in group:
            return False
        group.remove(connection)
        if not group:
            del self._groups[connection.group]
        self._size -= 1
        self._in_sync.discard(connection)
        return True

    def note(self, connection: Connection) -> None:
        """Its client has answered, or there is something else for it to have."""
        if connection.in_sync:
            self._in_sync.add(connection)
        else:
            self._in_sync.discard(connection)
