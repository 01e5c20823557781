"""Finds the clusters that a state-of-the-world client has from an earlier stream, by the version in its request.

The version is a digest of all clusters in a response. A client may have the response that it acknowledged last, and a
response that it has not answered yet. These versions are kept while the stream is open, and for some time after. A
response that the client refused, or that a later response has replaced, is forgotten at once.

An unknown version is from before a restart, or from another replica. Then the best guess are the clusters that a client
of the group acknowledged last. Only clusters are kept: for other types it is enough that a client has some version of
each name to which it subscribes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.resources.acknowledged import AckedResources
from xds_server.resources.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.snapshot import ClientResource

REMEMBERED: Final = 16
"""The number of versions of ended streams that are kept. The latest are kept."""


class EarlierStreams:
    """The clusters of one group of clients by version."""

    __slots__ = ("_held", "_left", "last_acked")

    def __init__(self, last_acked: AckedResources | None = None) -> None:
        self.last_acked = last_acked or AckedResources()
        """The resources that clients of the group have acknowledged last."""
        self._held: dict[str, tuple[int, Mapping[str, ClientResource]]] = {}
        """By version: the number of open streams that may have it, and its clusters."""
        self._left: dict[str, Mapping[str, ClientResource]] = {}
        """The clusters of ended streams by version, in the order in which the streams ended."""

    def hold(self, version: str, clusters: Mapping[str, ClientResource]) -> None:
        """A client received these clusters, or has them from an earlier stream."""
        count, held = self._held.get(version, (0, clusters))
        self._held[version] = count + 1, held

    def drop(self, version: str) -> Mapping[str, ClientResource]:
        """A client has refused this version, or has another version now. Returns the clusters of the version."""
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

    def has(self, version: str) -> bool:
        return version in self._held or version in self._left

    def clusters(self, version: str) -> Mapping[str, ClientResource]:
        """The clusters of a client with this version."""
        if version in self._held:
            return self._held[version][1]
        return self._left[version] if version in self._left else self.last_acked.resources(CLUSTER)
