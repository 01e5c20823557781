"""Keeps the plan of a `Program` in ConfigMaps of the cluster, and reads it from there.

put(plan) --> sync --apply, delete--> ConfigMaps --watch--> there --> sync
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.program.plan_objects import (
    CONFIG_MAPS,
    PlanConfigMap,
    PlanObjects,
    PlanReference,
    Stored,
    changes,
    plan_objects,
    put_together,
    read_index,
    read_part,
)
from admc.kubernetes.cluster.retry_loop import ChangedKeys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.program.owner import Owner
    from admc.kubernetes.cluster.records import Key


@dataclass(eq=False)
class PlanStore:
    """The plan of the Program that is served."""

    api: Api
    namespace: str
    """The namespace of the installation."""
    controller: str
    there: Mapping[Key, PlanConfigMap]
    """The ConfigMaps of this installation's plans (labels CONTROLLER and PLAN_OF), as records of a watch."""
    shown: ChangedKeys = field(default_factory=ChangedKeys)
    """Which of them the watch has shown anew."""
    _plan: PlanObjects | None = None
    _sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    """ConfigMaps that were applied and that the watch has not shown yet."""

    def __post_init__(self) -> None:
        self.shown.take()

    async def put(self, plan: bytes, program: Owner, facts: bytes | None = None) -> PlanReference:
        """Let `sync` keep this plan in the cluster from now on, and the facts that it relies on. Nothing is written
        yet."""
        # 12 MB are packed in 0.2 s.
        objects = await asyncio.to_thread(plan_objects, plan, program, self.namespace, self.controller, facts)
        self._plan = objects
        self.shown.pending.set()
        return objects.reference

    async def sync(self) -> bool:
        """Write ConfigMaps that are missing or altered, and remove those that no index names. Returns whether there was
        anything to do. Raises `ApiError`."""
        self.shown.pending.clear()
        for key in self.shown.take():
            self._sent.pop(key.name, None)
        if self._plan is None:
            return False
        due = changes(self._plan, {key.name: item for key, item in self.there.items()})
        try:
            for name, uid in due.replaced:
                await self._delete(name, uid)
            for body in due.applied:
                await self._apply(body)
            for name, uid in due.removed:
                await self._delete(name, uid)
        except BaseException:
            self.shown.pending.set()
            raise
        return not due.is_empty

    async def _apply(self, body: dict[str, Any]) -> None:
        """Apply a ConfigMap once, until the watch shows it."""
        name = body["metadata"]["name"]
        if self._sent.get(name) != body:
            await self.api.apply(self._path(name), body)
            self._sent[name] = body

    async def _delete(self, name: str, uid: str) -> None:
        try:
            await self.api.delete(self._path(name), uid=uid)
        except ApiError as error:
            # If it is gone, or another one has its name, the watch will show that.
            if not error.is_not_found and not error.is_conflict:
                raise

    def _path(self, name: str) -> str:
        return f"{CONFIG_MAPS.format(self.namespace)}/{name}"


async def stored_plan(api: Api, namespace: str, name: str) -> bytes:
    """Return the plan that an index names, verified. Raises `ApiError`, and `PlanObjectError` if the plan is not
    whole."""
    return (await stored_plan_and_facts(api, namespace, name))[0]


async def stored_plan_and_facts(api: Api, namespace: str, name: str) -> tuple[bytes, bytes | None]:
    """Return the plan, and the facts that it relies on; None if the server that wrote it kept no facts. Raises as
    `stored_plan` does."""
    index = read_index(await api.get(f"{CONFIG_MAPS.format(namespace)}/{name}"))
    plan = await _stored(api, namespace, index.plan)
    return plan, None if index.facts is None else await _stored(api, namespace, index.facts)


async def _stored(api: Api, namespace: str, stored: Stored) -> bytes:
    pieces = [read_part(part, await api.get(f"{CONFIG_MAPS.format(namespace)}/{part.name}")) for part in stored.parts]
    return await asyncio.to_thread(put_together, stored, pieces)
