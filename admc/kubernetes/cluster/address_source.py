"""The addresses of the programs that are followed: `admc.serve.environment.AddressSource`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.start_gate import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.kubernetes.cluster.follow import Cluster, Followed
    from admc.kubernetes.cluster.program_source import ClusterPrograms

GATHER_SECONDS: Final = 0.05
"""Changes of this time are taken together: ten pods that start at once are one change of addresses."""


class ClusterAddresses:
    """One document for the programs in force and the wanted one: each takes the names that it knows."""

    def __init__(self, cluster: Cluster, programs: ClusterPrograms) -> None:
        self._cluster = cluster
        self._programs = programs
        self._given = b""
        self._entries: Mapping[str, bytes] = {}
        """Of the same document, by service."""

    async def current(self) -> bytes:
        await self._cluster.synced()
        await self._programs.restored.wait()
        self._given = document(self._programs.followed)
        self._entries = entries(self._programs.followed)
        return self._given

    def taken(self, service: str) -> frozenset[str]:
        """The addresses of the pods of a service in the document that `current` returned last."""
        entry = self._entries.get(service)
        return frozenset() if entry is None else frozenset(map(canonical, json.loads(entry)["pods"]))

    async def changed(self) -> None:
        while True:
            event = self._cluster.changed.next
            if document(self._programs.followed) != self._given:
                return
            await event.wait()
            await asyncio.sleep(GATHER_SECONDS)


def document(followed: Sequence[Followed]) -> bytes:
    """The addresses of several programs. Where two know a name, the first one decides, also that it is not listed."""
    if len(followed) == 1:
        return followed[0].endpoints.document()
    services: dict[str, object] = {}
    for source in reversed(followed):
        listed = json.loads(source.endpoints.document())["services"]
        services = {name: entry for name, entry in services.items() if name not in source.selection.keys} | listed
    return json.dumps({"services": dict(sorted(services.items()))}, separators=(",", ":")).encode()


def entries(followed: Sequence[Followed]) -> Mapping[str, bytes]:
    """The same by service."""
    by_service: dict[str, bytes] = {}
    for source in reversed(followed):
        by_service |= source.endpoints.entries()
    return by_service
