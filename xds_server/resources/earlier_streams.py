"""The clusters that a state-of-the-world client has from earlier streams: its requests name only their version.

A version is a digest of all clusters in a response. A client may have the response that it acknowledged last, and one
that it has not answered yet. A response that it refused, or that a later one has replaced, is forgotten at once. So the
server recognises these versions as long as the stream is open, and for some time after, however many changes a client
refuses. An unknown version is from before a restart or from another replica: then the clusters that some client of the
group acknowledged last are the best guess. Only clusters are kept: of other types it is enough that a client has some
version of each name to which it subscribes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.resources.acknowledged import AckedResources
from xds_server.resources.types import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.snapshot import ClientResource

REMEMBERED: Final = 16
"""So many versions of streams that have ended are kept, the latest ones."""


class EarlierStreams:
    """The clusters of one group of clients by version."""

    __slots__ = ("_held", "_left", "last_acked")

    def __init__(self, last_acked: AckedResources | None = None) -> None:
        self.last_acked = last_acked or AckedResources()
        """The resources that clients of the group have acknowledged last."""
        self._held: dict[str, tuple[int, Mapping[str, ClientResource]]] = {}
        """By version: how many open streams may have it, and its clusters."""
        self._left: dict[str, Mapping[str, ClientResource]] = {}
        """By version, in the order in which the streams ended."""

    def hold(self, version: str, clusters: Mapping[str, ClientResource]) -> None:
        """A client was sent these clusters, or has them from an earlier stream."""
        count, held = self._held.get(version, (0, clusters))
        self._held[version] = count + 1, held

    def drop(self, version: str) -> Mapping[str, ClientResource]:
        """A client has refused this version, or has another one now. Returns its clusters."""
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
