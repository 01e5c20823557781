"""The cluster at present: watches of its objects, and what these show of a program's services.

API server --Watched--> records --> Followed (Selection, Endpoints, Mismatches, FactState) for each program
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster import decode
from admc.kubernetes.cluster.addresses import Endpoints
from admc.kubernetes.cluster.api.counts import resource
from admc.kubernetes.cluster.api.watched import Watched
from admc.kubernetes.cluster.closing.policies import network_policy
from admc.kubernetes.cluster.facts import FactState, seen
from admc.kubernetes.cluster.mismatches import Mismatches, takes_part
from admc.kubernetes.cluster.names import CONTROLLER, PROGRAMS
from admc.kubernetes.cluster.program.plan_objects import CONFIG_MAPS, PLAN_OF, plan_config_map
from admc.kubernetes.cluster.program.spec import program_object
from admc.kubernetes.cluster.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.closing.policies import NetworkPolicy
    from admc.kubernetes.cluster.program.plan_objects import PlanConfigMap
    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.kubernetes.cluster.records import Key, Namespace, Pod, Service, Slice
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
        self,
        program: Program,
        names: Mapping[str, str],
        controller: str,
        facts: FactState,
        at: Callable[[str], Mapping[Key, bool]] = lambda address: {},
    ) -> None:
        """`facts` are those that were in force before; `FactState` decides when they end. `at` is as in `Endpoints`."""
        self.program = program
        self.names = dict(names)
        self.selection = Selection(program, names)
        self.endpoints = Endpoints(self.selection, at)
        self._mismatches = Mismatches(self.selection, controller)
        self.facts = facts.of(program.services)

    def is_for(self, program: Program, names: Mapping[str, str]) -> bool:
        """Whether a new `Followed` of this program, with these names of Services, would have the same content."""
        return self.names == names and services_of(self.program) == services_of(program)

    def update(self, names: Iterable[str]) -> None:
        """Look again at these services."""
        names = tuple(names)
        self.endpoints.update(names)
        self._mismatches.update(names)
        self._observe_facts(names)

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
        return (*self._mismatches.all(), *self.endpoints.findings())


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
        self._hosting: defaultdict[str, dict[Key, Pod]] = defaultdict(dict)
        """Service -> the pods with its ADM, of any app, that are not over."""
        self._at: dict[str, dict[Key, bool]] = {}
        """Address -> pods; see `at`."""
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
        new = Followed(program, names, self.controller, facts, self.at)
        selection = new.selection
        for namespace in self.namespaces.items.values():
            selection.namespace_changed(None, namespace)
        for service in self.services.items.values():
            selection.service_changed(None, service)
        for slice_ in self.slices.items.values():
            selection.slice_changed(None, slice_)
        for pod in self.pods.items.values():
            selection.pod_changed(None, pod)
        new.update(program.services)
        self._followed.append(new)
        return new

    def forget(self, followed: Followed) -> None:
        self._followed.remove(followed)

    def at(self, address: str) -> Mapping[Key, bool]:
        """Return the pods with an address, in any namespace, each with whether it stays (does not terminate)."""
        return self._at.get(address, {})

    def hosting(self, service: str, namespace: str) -> tuple[Pod, ...]:
        """Return the pods of a namespace that have the ADM of a service, whatever Service selects them."""
        pods = self._hosting.get(service, {}).values()
        return tuple(pod for pod in pods if pod.key.namespace == namespace)

    # ---- changes ----

    def _pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        if old is not None and old.service:
            self._hosting[old.hosts].pop(key, None)
        if new is not None and new.service and not new.is_over:
            self._hosting[new.hosts][key] = new
        moved = self._locate(key, old, new)
        names = self._update(lambda selection: selection.pod_changed(old, new))
        for followed in self._followed:
            if followed.endpoints.moved(moved):
                self.changed.send()
        self.pod_changed(old, new, names)

    def _locate(self, key: Key, old: Pod | None, new: Pod | None) -> frozenset[str]:
        """Note the addresses of a pod; returns the addresses at which something changed."""
        before, now = ({} if record is None else _where(record) for record in (old, new))
        for address in before.keys() - now.keys():
            there = self._at[address]
            del there[key]
            if not there:
                del self._at[address]
        for address, stays in now.items():
            self._at.setdefault(address, {})[key] = stays
        return frozenset(address for address in before.keys() | now.keys() if before.get(address) != now.get(address))

    def _service(self, key: Key, old: Service | None, new: Service | None) -> None:
        self.selection_changed(self._update(lambda selection: selection.service_changed(old, new)))

    def _slice(self, key: Key, old: Slice | None, new: Slice | None) -> None:
        self._update(lambda selection: selection.slice_changed(old, new))

    def _namespace(self, key: Key, old: Namespace | None, new: Namespace | None) -> None:
        self._update(lambda selection: selection.namespace_changed(old, new))
        self.changed.send()  # which namespaces take part may differ

    def _update(self, change: Callable[[Selection], frozenset[str]]) -> frozenset[str]:
        """Apply a change to all followed programs; returns the services that it concerns."""
        touched: frozenset[str] = frozenset()
        for followed in self._followed:
            if names := change(followed.selection):
                followed.update(names)
                touched |= names
        if touched:
            self.changed.send()
        return touched

    def _program(self, key: Key, old: ProgramObject | None, new: ProgramObject | None) -> None:
        self.programs_changed.send()

    def _plan(self, key: Key, old: PlanConfigMap | None, new: PlanConfigMap | None) -> None:
        self.plan_changed(key, old, new)

    def _policy(self, key: Key, old: NetworkPolicy | None, new: NetworkPolicy | None) -> None:
        self.policy_changed(key, old, new)


def _where(pod: Pod) -> dict[str, bool]:
    """Return the addresses that a pod does not share, each with whether the pod stays."""
    return {} if pod.is_over or pod.host_network else dict.fromkeys(pod.addresses, not pod.is_terminating)


def _ignored(key: Key, old: object, new: object) -> None:
    pass
