"""The watches of an installation: they keep one picture of the cluster, and collect where it changes.

API server --Watched--> records --with_pod, with_service, ...--> View, and the Change since the last call of `take`
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster import decode
from admc.kubernetes.cluster.api.counts import resource
from admc.kubernetes.cluster.api.watched import Watched
from admc.kubernetes.cluster.closing.policies import network_policy
from admc.kubernetes.cluster.core.mismatches import takes_part
from admc.kubernetes.cluster.core.view import (
    Change,
    View,
    merged,
    with_namespace,
    with_pod,
    with_program,
    with_service,
    with_slice,
)
from admc.kubernetes.cluster.injections.objects import EVERYWHERE, injection_object
from admc.kubernetes.cluster.names import CONTROLLER, PROGRAMS, SYSTEM_NAMESPACES
from admc.kubernetes.cluster.program.plan_objects import CONFIG_MAPS, PLAN_OF, plan_config_map
from admc.kubernetes.cluster.program.spec import program_object
from admc.kubernetes.cluster.retry_loop import ChangedKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.closing.policies import NetworkPolicy
    from admc.kubernetes.cluster.injections.objects import InjectionObject
    from admc.kubernetes.cluster.program.plan_objects import PlanConfigMap
    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.kubernetes.cluster.records import Key, Namespace, Pod, Service, Slice

LOG: Final = logging.getLogger("admc.cluster")
_POLICIES: Final = "/apis/networking.k8s.io/v1/networkpolicies"
_SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"


class Signal:
    """Wakes all tasks that wait. A task takes `next` before it looks at the state, so that it misses no later
    change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def next(self) -> asyncio.Event:
        return self._event

    def send(self) -> None:
        self._event.set()
        self._event = asyncio.Event()


async def wait_for_any(*events: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until one of the events is set, at most for so many seconds."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


class Cluster:
    """The watches of one installation. All calls belong on one event loop."""

    def __init__(self, api: Api, controller: str, namespace: str, pod: Callable[[dict[str, Any]], Pod | None]) -> None:
        """`controller` is the name of the installation, `namespace` has its own objects, and `pod` decodes a pod."""
        self.api = api
        self.controller = controller
        self.namespace = namespace
        self.changed = Signal()
        """Sent when the picture has changed."""
        self.namespaces_changed = Signal()
        self.policies_changed, self.plans_changed, self.injections_changed = ChangedKeys(), ChangedKeys(), ChangedKeys()
        """The changes of NetworkPolicies, of the ConfigMaps of plans and of `Injection` objects, for their writers."""
        self.injections_shown = Signal()
        """Sent with each change of `Injection` objects, for their readers."""
        self.view = View()
        self._changes: list[Change] = []
        """The changes since the last call of `take`, once everything has been listed."""
        self.pods: Watched[Pod] = Watched(api, "/api/v1/pods", pod, changed=self._pod)
        self.services: Watched[Service] = Watched(api, "/api/v1/services", decode.service, changed=self._service)
        self.slices: Watched[Slice] = Watched(api, _SLICES, decode.endpoint_slice, changed=self._slice)
        self.namespaces: Watched[Namespace] = Watched(
            api, "/api/v1/namespaces", partial(decode.namespace, own=namespace), changed=self._namespace
        )
        self.programs: Watched[ProgramObject] = Watched(
            api, PROGRAMS, program_object, changed=self._program, definition="deploy/install.yaml"
        )
        self.plans: Watched[PlanConfigMap] = Watched(
            api,
            CONFIG_MAPS.format(namespace),
            plan_config_map,
            label_selector=f"{CONTROLLER}={controller},{PLAN_OF}",
            changed=self.plans_changed.note,
        )
        self.policies: Watched[NetworkPolicy] = Watched(
            api, _POLICIES, network_policy, changed=self.policies_changed.note
        )

        self.injections: Watched[InjectionObject] = Watched(
            api,
            EVERYWHERE,
            injection_object,
            label_selector=f"{CONTROLLER}={controller}",
            changed=self._injection,
            definition="deploy/install.yaml",
        )

    @property
    def _watches(self) -> tuple[Watched[Any], ...]:
        return (
            self.pods,
            self.services,
            self.slices,
            self.namespaces,
            self.programs,
            self.plans,
            self.policies,
            self.injections,
        )

    @property
    def complete(self) -> bool:
        """Whether everything has been listed once."""
        return all(watch.synced.is_set() for watch in self._watches)

    @property
    def relists(self) -> dict[str, int]:
        """How often each resource was listed after the first time."""
        return {resource(watch.path): watch.relists for watch in self._watches}

    @property
    def problem(self) -> str:
        """Why the cluster cannot be followed at present; empty if it can."""
        kinds_by_problem: dict[str, list[str]] = {}
        for watch in self._watches:
            if watch.problem:
                kinds_by_problem.setdefault(watch.problem, []).append(resource(watch.path))
        return "; ".join(f"{', '.join(kinds)} cannot be read: {problem}" for problem, kinds in kinds_by_problem.items())

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())
            await self.synced()
            numbers = {"pods": len(self.pods.items), "services": len(self.services.items)}
            LOG.info("cluster_read", extra={**numbers, "seconds": round(time.monotonic() - began, 3)})

    async def synced(self) -> None:
        """Wait until everything has been listed once: before that, a missing object may be one that was not read
        yet."""
        for watch in self._watches:
            await watch.synced.wait()

    @property
    def taking_part(self) -> tuple[str, ...]:
        """The namespaces that take part in the installation, sorted."""
        return tuple(
            sorted(
                namespace.name for namespace in self.namespaces.items.values() if takes_part(namespace, self.controller)
            )
        )

    @property
    def reserved(self) -> tuple[Namespace, ...]:
        """The namespaces that take no part whatever their labels say, sorted."""
        names = sorted({*SYSTEM_NAMESPACES, self.namespace})
        return tuple(record for name in names if (record := self.view.namespaces.get(name)) is not None)

    def take(self) -> Change:
        """Return the present picture, and where it differs from that of the last call. Before everything has been
        listed, no differences are collected."""
        changes, self._changes = self._changes, []
        return merged(self.view, changes)

    # ---- changes ----

    def _pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        self._note(with_pod(self.view, key, new))

    def _service(self, key: Key, old: Service | None, new: Service | None) -> None:
        self._note(with_service(self.view, key, new))

    def _slice(self, key: Key, old: Slice | None, new: Slice | None) -> None:
        self._note(with_slice(self.view, key, new))

    def _namespace(self, key: Key, old: Namespace | None, new: Namespace | None) -> None:
        self._note(with_namespace(self.view, key.name, new))
        self.namespaces_changed.send()

    def _program(self, key: Key, old: ProgramObject | None, new: ProgramObject | None) -> None:
        self._note(with_program(self.view, key, new))

    def _injection(self, key: Key, old: InjectionObject | None, new: InjectionObject | None) -> None:
        self.injections_changed.note(key, old, new)
        self.injections_shown.send()

    def _note(self, change: Change) -> None:
        self.view = change.view
        if self.complete:  # before that, no program is followed
            self._changes.append(change._replace(view=View()))  # earlier pictures need not be kept
        self.changed.send()
