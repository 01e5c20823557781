"""What the pods of each namespace need, as `Injection` objects say it, read ahead of the questions about pods.

A spec with thousands of services takes a second to read, and the API server waits for two.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING

from admc.kubernetes.inject.spec import InjectionError, read_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.api.watched import Watched
    from admc.kubernetes.cluster.follow import Signal
    from admc.kubernetes.cluster.injections.objects import InjectionObject
    from admc.kubernetes.inject.spec import InjectionSpec

    Specs = Mapping[str, InjectionSpec | InjectionError]
    """Namespace -> the spec of its object, or why that cannot be used."""


class InjectionSpecs:
    """All calls belong on one event loop."""

    def __init__(self, watched: Watched[InjectionObject], installation: str, changed: Signal) -> None:
        """`changed` is sent with each change of `watched`."""
        self._watched, self._installation, self._changed = watched, installation, changed
        self._read: dict[str, InjectionObject] = {}
        """Namespace -> the object whose spec is in `specs`."""
        self.specs: Specs | None = None
        """None until all objects have been read once. It is replaced and never changed, so that a thread may use it."""

    async def follow(self) -> None:
        """Read what changes, until cancelled."""
        await self._watched.synced.wait()
        while True:
            changed = self._changed.next
            await self._take()
            await changed.wait()

    async def _take(self) -> None:
        there = {key.namespace: item for key, item in self._watched.items.items() if key.name == self._installation}
        specs: dict[str, InjectionSpec | InjectionError] = {
            namespace: spec for namespace, spec in (self.specs or {}).items() if namespace in there
        }
        for namespace, item in there.items():
            if self._read.get(namespace) != item:
                specs[namespace] = await asyncio.to_thread(_spec, item)
        for key, reason in self._watched.rejected.items():
            if key.name == self._installation:
                specs[key.namespace] = InjectionError(reason)
        self._read = there
        self.specs = MappingProxyType(specs)


def _spec(item: InjectionObject) -> InjectionSpec | InjectionError:
    try:
        return read_spec(item.spec)
    except InjectionError as error:
        return error
