"""What a client of state of the world has from earlier streams: it says no more of that than a version.

A version is a digest of all that was in a response, so whoever says one that was sent to its group has just that. One
that nobody knows here is from before a restart or from another replica: then what some client acknowledged last is the
best guess, and nothing that others are likely to refuse. Only clusters are remembered: of everything else it is enough
that a client has something of each name that it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.snapshot import Known, Snapshot

REMEMBERED: Final = 16
"""Responses of a group that are remembered, those sent last: each change takes two."""


class Past:
    """Of one group of clients."""

    __slots__ = ("_acknowledged", "_sent")

    def __init__(self) -> None:
        self._sent: dict[str, Mapping[str, Known]] = {}
        """By version, the one sent last at the end."""
        self._acknowledged: Mapping[str, Known] = {}

    def accept(self, snapshot: Snapshot) -> None:
        """Some client has acknowledged all of it."""
        self._acknowledged = snapshot.of_type(CLUSTER).resources

    def send(self, version: str, clusters: Mapping[str, Known]) -> None:
        """A client is sent all these."""
        self._sent[version] = self._sent.pop(version, clusters)
        if len(self._sent) > REMEMBERED:
            del self._sent[next(iter(self._sent))]

    def clusters(self, version: str) -> Mapping[str, Known]:
        """What a client has that says this version."""
        return self._sent.get(version, self._acknowledged)
