"""The addresses of the programs that are followed: `admc.serve.environment.AddressSource`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from admc.cluster.known import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.cluster.follow import Cluster, Followed
    from admc.cluster.wanted import Wanted

GATHER_SECONDS: Final = 0.05
"""Changes of this time are taken together: ten pods that start at once are one change of addresses."""


class ClusterAddresses:
    """One document for the wanted program and for the one before it: each takes the names that it knows."""

    def __init__(self, cluster: Cluster, wanted: Wanted) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._given = b""
        self._entries: Mapping[str, bytes] = {}
        """Of the same document, by service."""

    async def current(self) -> bytes:
        await self._cluster.synced()
        await self._wanted.looked.wait()
        self._given = document(self._wanted.followed)
        self._entries = entries(self._wanted.followed)
        return self._given

    def taken(self, service: str) -> frozenset[str]:
        """The addresses of the pods of a service in the document that `current` returned last."""
        entry = self._entries.get(service)
        return frozenset() if entry is None else frozenset(map(canonical, json.loads(entry)["pods"]))

    async def changed(self) -> None:
        while True:
            event = self._cluster.changed.next
            if document(self._wanted.followed) != self._given:
                return
            await event.wait()
            await asyncio.sleep(GATHER_SECONDS)


def document(followed: Sequence[Followed]) -> bytes:
    """The addresses of several programs. Where two know a name, the first one decides."""
    documents = [each.endpoints.document() for each in followed]
    if len(documents) == 1:
        return documents[0]
    services: dict[str, object] = {}
    for each in reversed(documents):
        services |= json.loads(each)["services"]
    return json.dumps({"services": dict(sorted(services.items()))}, separators=(",", ":")).encode()


def entries(followed: Sequence[Followed]) -> Mapping[str, bytes]:
    """The same by service."""
    found: dict[str, bytes] = {}
    for each in reversed(followed):
        found |= each.endpoints.entries()
    return found
