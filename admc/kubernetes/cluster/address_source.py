"""The addresses of the programs that are followed: `admc.serve.environment.AddressSource`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from admc.kubernetes.cluster.start_gate import canonical

if TYPE_CHECKING:
    from admc.kubernetes.cluster.core.located import Located
    from admc.kubernetes.cluster.program_source import ClusterPrograms


class ClusterAddresses:
    """The addresses of all published programs in one document: those in force, and the servable one."""

    def __init__(self, programs: ClusterPrograms) -> None:
        self._programs = programs
        self._given: Located | None = None
        """The addresses that `current` returned last."""

    async def current(self) -> bytes:
        await self._programs.restored.wait()
        self._given = self._programs.outputs.addresses
        return self._given.document

    def taken(self, service: str) -> frozenset[str]:
        """The addresses of the pods of a service in the document that `current` returned last."""
        entry = b"" if self._given is None else self._given.entries.get(service)
        return frozenset(map(canonical, json.loads(entry)["pods"])) if entry else frozenset()

    async def changed(self) -> None:
        while True:
            stepped = self._programs.stepped.next
            if self._given is None or self._programs.outputs.addresses.document != self._given.document:
                return
            await stepped.wait()
