"""The cluster at present: watches of its objects, and what these show of a program's services.

API server --Watched--> records --> Followed (Selection, Endpoints, Mismatches, FactState) for each program
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster import addresses, decode, mismatches
from admc.kubernetes.cluster.addresses import Endpoints
from admc.kubernetes.cluster.api.counts import resource
from admc.kubernetes.cluster.api.watched import Watched
from admc.kubernetes.cluster.closing.policies import network_policy
from admc.kubernetes.cluster.facts import FactState, seen
from admc.kubernetes.cluster.mismatches import takes_part
from admc.kubernetes.cluster.names import CONTROLLER, PROGRAMS
from admc.kubernetes.cluster.program.plan_objects import CONFIG_MAPS, PLAN_OF, plan_config_map
from admc.kubernetes.cluster.program.spec import program_object
from admc.kubernetes.cluster.selection import selection_of
from admc.kubernetes.cluster.view import View, with_namespace, with_pod, with_service, with_slice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.closing.policies import NetworkPolicy
    from admc.kubernetes.cluster.program.plan_objects import PlanConfigMap
    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.kubernetes.cluster.records import Key, Namespace, Pod, Service, Slice
    from admc.kubernetes.cluster.view import Change
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program

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


class Followed:
    """The pods, addresses, findings and facts of one program's services, kept up to date."""

    def __init__(
        self, program: Program, names: Mapping[str, str], controller: str, facts: FactState, view: View
    ) -> None:
        """`facts` are those that were in force before; `FactState` decides when they end."""
        self.program = program
        self.names = dict(names)
        self.selection = selection_of(program, names, view)
        self.facts = facts.of(program.services)
        self._controller = controller
        self._endpoints = Endpoints()
        self._mismatches: mismatches.ByService = {}
        self._stale = frozenset(program.services)
        """The services that changed since addresses and findings were last computed."""
        self._moved: frozenset[str] = frozenset()
        """The addresses that pods have taken or left since then."""
        self._observe_facts(program.services)

    def is_for(self, program: Program, names: Mapping[str, str]) -> bool:
        """Whether a new `Followed` of this program, with these names of Services, would have the same content."""
        return self.names == names and services_of(self.program) == services_of(program)

    def change(self, change: Change, namespace: str = "") -> frozenset[str]:
        """Take over another picture of the cluster. Returns the services that the change concerns. `namespace` is the
        namespace whose record changed, if one did."""
        self.selection = self.selection.at(change.view)
        names = self.selection.concerned(change.services) | self.selection.within(namespace)
        self._moved |= self._endpoints.moved(change.addresses)
        self.update(names)
        return names

    def update(self, names: Collection[str]) -> None:
        """Look again at these services."""
        self._stale |= frozenset(names)
        self._observe_facts(names)

    def rest_on_published(self, programs: Collection[Program]) -> bool:
        """Take note that plans of these programs are published. Returns whether that can change the addresses."""
        before = self.selection
        self.selection = before.resting_on(programs)
        names = before.on_host ^ self.selection.on_host
        self.update(names)
        return bool(names)

    @property
    def endpoints(self) -> Endpoints:
        """The present addresses of the services."""
        self._renew()
        return self._endpoints

    @property
    def has_moved(self) -> bool:
        """Whether addresses may differ although no service changed."""
        return bool(self._moved)

    def _renew(self) -> None:
        if self._stale or self._moved:
            self._endpoints = addresses.renewed(self._endpoints, self.selection, self._stale, self._moved)
            self._mismatches = mismatches.renewed(self._mismatches, self.selection, self._stale)
            self._stale = self._moved = frozenset()

    def _observe_facts(self, names: Iterable[str]) -> None:
        now = time.monotonic()
        for name in names:
            has_pods = bool(self.selection.pods(name))
            self.facts = self.facts.observed(name, seen(self.selection, name), now, has_pods=has_pods)

    def replace_facts(self, facts: FactState) -> None:
        """Put these facts in force, and add those that pods show at present."""
        facts = facts.of(self.program.services)
        if facts.document() == self.facts_document():
            return
        self.facts = facts
        self._observe_facts(self.program.services)

    def facts_document(self) -> bytes:
        self.facts = self.facts.at(time.monotonic())
        return self.facts.document()

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        self._renew()
        return (
            *mismatches.findings(self.selection, self._mismatches, self._controller),
            *addresses.findings(self._endpoints, self.selection),
        )


def services_of(program: Program) -> dict[str, tuple[str, object]]:
    """Return what `Selection` needs of a program: namespaces, to find pods, and ports, to check them."""
    return {name: (service.namespace, service.ports) for name, service in program.services.items()}


class Cluster:
    """The watches of one installation. All calls belong on one event loop."""

    def __init__(self, api: Api, controller: str, namespace: str, pod: Callable[[dict[str, Any]], Pod | None]) -> None:
        """`controller` is the name of the installation, `namespace` has its own objects, and `pod` decodes a pod."""
        self.api = api
        self.controller = controller
        self.namespace = namespace
        self.changed = Signal()
        """Sent when a pod, Service, EndpointSlice or Namespace has changed in a way that a followed program needs."""
        self.programs_changed = Signal()
        self._followed: list[Followed] = []
        self.view = View()
        self.pod_changed: Callable[[Pod | None, Pod | None, frozenset[str]], None] = lambda old, new, names: None
        """Called with each change of a pod, and the services of followed programs that it concerns."""
        self.selection_changed: Callable[[frozenset[str]], None] = lambda names: None
        """Called with the services that may have other pods, or other labels."""
        pods: Watched[Pod] = Watched(api, "/api/v1/pods", pod, changed=self._pod)
        services: Watched[Service] = Watched(api, "/api/v1/services", decode.service, changed=self._service)
        slices: Watched[Slice] = Watched(api, _SLICES, decode.endpoint_slice, changed=self._slice)
        namespaces: Watched[Namespace] = Watched(api, "/api/v1/namespaces", decode.namespace, changed=self._namespace)
        programs: Watched[ProgramObject] = Watched(
            api, PROGRAMS, program_object, changed=self._program, definition="deploy/crd.yaml"
        )
        self.plan_changed: Callable[[Key, PlanConfigMap | None, PlanConfigMap | None], None] = lambda key, old, new: (
            None
        )
        plans: Watched[PlanConfigMap] = Watched(
            api,
            CONFIG_MAPS.format(namespace),
            plan_config_map,
            label_selector=f"{CONTROLLER}={controller},{PLAN_OF}",
            changed=self._plan,
        )
        self.pods, self.services, self.slices, self.namespaces = pods, services, slices, namespaces
        self.programs, self.plans = programs, plans
        self.policy_changed: Callable[[Key, NetworkPolicy | None, NetworkPolicy | None], None] = _ignored
        self.policies: Watched[NetworkPolicy] = Watched(api, _POLICIES, network_policy, changed=self._policy)

    @property
    def _watches(self) -> tuple[Watched[Any], ...]:
        return self.pods, self.services, self.slices, self.namespaces, self.programs, self.plans, self.policies

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

    def follow(self, program: Program, names: Mapping[str, str], facts: FactState) -> Followed:
        """Follow one more program. Everything has to be listed before."""
        new = Followed(program, names, self.controller, facts, self.view)
        self._followed.append(new)
        return new

    def forget(self, followed: Followed) -> None:
        self._followed.remove(followed)

    # ---- changes ----

    def _pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        self.pod_changed(old, new, self._take(with_pod(self.view, key, new)))

    def _service(self, key: Key, old: Service | None, new: Service | None) -> None:
        self.selection_changed(self._take(with_service(self.view, key, new)))

    def _slice(self, key: Key, old: Slice | None, new: Slice | None) -> None:
        self._take(with_slice(self.view, key, new))

    def _namespace(self, key: Key, old: Namespace | None, new: Namespace | None) -> None:
        self._take(with_namespace(self.view, key.name, new), key.name)
        self.changed.send()  # which namespaces take part may differ

    def _take(self, change: Change, namespace: str = "") -> frozenset[str]:
        """Apply a change to all followed programs. Returns the services that it concerns."""
        self.view = change.view
        touched: frozenset[str] = frozenset()
        for followed in self._followed:
            touched |= followed.change(change, namespace)
        if touched or any(followed.has_moved for followed in self._followed):
            self.changed.send()
        return touched

    def _program(self, key: Key, old: ProgramObject | None, new: ProgramObject | None) -> None:
        self.programs_changed.send()

    def _plan(self, key: Key, old: PlanConfigMap | None, new: PlanConfigMap | None) -> None:
        self.plan_changed(key, old, new)

    def _policy(self, key: Key, old: NetworkPolicy | None, new: NetworkPolicy | None) -> None:
        self.policy_changed(key, old, new)


def _ignored(key: Key, old: object, new: object) -> None:
    pass
