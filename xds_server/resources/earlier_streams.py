"""What a client of state of the world has from earlier streams: it says no more of that than a version.

A version is a digest of all that was in a response. What a client may have is the response that it acknowledged last,
and one that it has not answered. A response that it refused, or that a later one has replaced, is forgotten at once.
So these are known however many changes a client refuses, as long as its stream is open, and for some time after that.
A version that is not known is from before a restart or from another replica: then what some client of the group
acknowledged last is the best guess. Only clusters are remembered: of everything else it is enough that a client has
something of each name that it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.resources.acknowledged import AckedResources
from xds_server.resources.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.snapshot import ClientResource

REMEMBERED: Final = 16
"""Versions that clients had when their streams ended, the latest ones."""


class EarlierStreams:
    """Of one group of clients."""

    __slots__ = ("_held", "_left", "last_acked")

    def __init__(self, last_acked: AckedResources | None = None) -> None:
        self.last_acked = last_acked or AckedResources()
        """What is in force in the group."""
        self._held: dict[str, tuple[int, Mapping[str, ClientResource]]] = {}
        """By version: how many open streams may have it, and what it is."""
        self._left: dict[str, Mapping[str, ClientResource]] = {}
        """By version, the one of the stream that ended last at the end."""

    def hold(self, version: str, clusters: Mapping[str, ClientResource]) -> None:
        """A client was sent these, or has brought them along."""
        count, held = self._held.get(version, (0, clusters))
        self._held[version] = count + 1, held

    def drop(self, version: str) -> Mapping[str, ClientResource]:
        """A client has refused this version, or has another in its place; what it was."""
        count, held = self._held.pop(version)
        if count > 1:
            self._held[version] = count - 1, held
        return held

    def leave(self, version: str) -> None:
        """The stream of a client that may have this version has ended."""
        held = self.drop(version)
        self._left.pop(version, None)
        self._left[version] = held
        if len(self._left) > REMEMBERED:
            del self._left[next(iter(self._left))]

    def knows(self, version: str) -> bool:
        return version in self._held or version in self._left

    def clusters(self, version: str) -> Mapping[str, ClientResource]:
        """What a client has that says this version."""
        if version in self._held:
            return self._held[version][1]
        return self._left[version] if version in self._left else self.last_acked.resources(CLUSTER)
