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
"""How long changes are collected: ten pods that start at once are one change of addresses."""


class ClusterAddresses:
    """The addresses of all followed programs in one document: those in force, and the servable one."""

    def __init__(self, cluster: Cluster, programs: ClusterPrograms) -> None:
        self._cluster = cluster
        self._programs = programs
        self._given = b""
        self._entries: Mapping[str, bytes] = {}
        """The entries of that document by service."""

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
    """Return the addresses of several programs in one document. Where two programs have a service of the same name, the
    first program decides, even if it does not list the service."""
    if len(followed) == 1:
        return followed[0].endpoints.document
    services: dict[str, object] = {}
    for source in reversed(followed):
        listed = json.loads(source.endpoints.document)["services"]
        services = {name: entry for name, entry in services.items() if name not in source.selection.keys} | listed
    return json.dumps({"services": dict(sorted(services.items()))}, separators=(",", ":")).encode()


def entries(followed: Sequence[Followed]) -> Mapping[str, bytes]:
    """Return the entries of the same document by service."""
    by_service: dict[str, bytes] = {}
    for source in reversed(followed):
        by_service |= source.endpoints.listed
    return by_service
