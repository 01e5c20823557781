"""The cluster side of `admc.serve.environment`: everything that the server takes from outside comes from the cluster.

Cluster --Wanted--> programs, addresses, identities      Secrets --> storage
        --Pods, NetworkPolicies--> redirection, closing  Lease --> may_publish
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from admc.cluster.address_source import ClusterAddresses
from admc.cluster.api import counts
from admc.cluster.audit import Audit
from admc.cluster.closing.policies import ClusterClosing
from admc.cluster.identity.pods import PodIdentities
from admc.cluster.known import WaitingPod
from admc.cluster.program.owner import Owner
from admc.cluster.program.plan_store import PlanStore
from admc.cluster.program.status_writer import StatusWriter
from admc.cluster.redirection import PodRedirection
from admc.cluster.reporting import Reporter
from admc.cluster.waiting_pods import WaitingPods
from admc.serve.environment import Reach, Replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.metrics_core import Metric

    from admc.cluster.follow import Cluster
    from admc.cluster.identity.keys import ClusterKeys
    from admc.cluster.proxy_config import ProxyConfig
    from admc.cluster.records import Key, Pod
    from admc.cluster.selection import Selection
    from admc.cluster.standby.standby import Standby
    from admc.cluster.storage.storage import SecretStorage
    from admc.cluster.wanted import Wanted
    from admc.serve.environment import Serving
    from dsl.program import Program
    from xds_server.transport.client import Caller

LOOK_SECONDS: Final = 1.0


class ClusterEnvironment:
    """All calls belong on the server's event loop, except those of `storage`."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Wanted,
        standby: Standby,
        storage: SecretStorage,
        keys: ClusterKeys,
        config: ProxyConfig,
        reach: Reach,
        replica: str,
    ) -> None:
        self._cluster, self._wanted, self._standby = cluster, wanted, standby
        self._keys, self._config, self._replica = keys, config, replica
        self.programs = wanted
        self.addresses = ClusterAddresses(cluster, wanted)
        self.identities = PodIdentities(keys, _Records(cluster), self._selection)
        self.storage = storage
        self.redirection = PodRedirection(self._pods)
        self.closing = ClusterClosing(
            cluster.api,
            cluster.controller,
            self._owner,
            cluster.policies.items,
            self._selectors,
            may_write=standby.may_act,
        )
        self.reach = reach
        self._serving: Serving | None = None
        cluster.pod_changed = self._pod_changed
        cluster.selection_changed = self._selection_changed
        cluster.policy_changed = self.closing.changed

    @property
    def source(self) -> str:
        adopted = self._wanted.adopted
        what = "no Program yet" if adopted is None else f"Program `{adopted.object.name}`"
        return f"installation `{self._cluster.controller}`: {what}"

    def services(self, serving: Serving) -> Iterable[Callable[[Any], None]]:
        self._serving = serving
        return [WaitingPods(serving, _Waiting(self), self._standby.may_act).add]

    async def end_streams(self) -> None:
        """Proxies connect anew, and reach the active replica."""
        if self._serving is not None:
            await self._serving.server.end_streams()

    @property
    def replica(self) -> Replica:
        return Replica(self._standby.role, self._standby.holder)

    def metrics(self) -> Iterable[Metric]:
        return counts.requests(self._cluster.api.counts), counts.relists(self._cluster.relists)

    def may_publish(self) -> bool:
        return self._standby.may_act()

    async def run(self) -> int:
        """Writes what became of the program, until cancelled."""
        assert self._serving is not None  # noqa: S101 - the server calls `services` first
        cluster, wanted, may_act = self._cluster, self._wanted, self._standby.may_act
        plans = PlanStore(cluster.api, cluster.namespace, cluster.controller, cluster.plans.items)
        cluster.plan_changed = plans.changed
        writer = StatusWriter(cluster.api, cluster.controller, self._replica)
        audit = Audit(cluster, wanted)
        reporter = Reporter(
            cluster, wanted, self._serving, self.redirection, self.closing, audit, plans, writer, may_act
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(reporter.run())
            group.create_task(audit.run())
            group.create_task(self._config.run(self._present_owner, may_act))
            group.create_task(self._close())
            group.create_task(self._look())
        raise AssertionError  # the tasks end by being cancelled

    async def _look(self) -> None:
        """What is in force stays followed; what was before it is forgotten."""
        assert self._serving is not None  # noqa: S101 - as above
        while True:
            if self._serving.state is not None:
                self._wanted.in_force(self._serving.state.program)
            await asyncio.sleep(LOOK_SECONDS)

    async def _close(self) -> None:
        """Keep NetworkPolicies as they should be, once there is a Program that they belong to."""
        while self._present_owner() is None or not self.may_publish():
            await asyncio.sleep(LOOK_SECONDS)
        await self.closing.run()

    # ---- what the cluster says about services ----

    def _selection(self, program: Program) -> Selection:
        return self._wanted.about(program).selection

    def _pods(self, service: str) -> Iterable[Pod]:
        for each in self._wanted.followed:
            if service in each.selection.keys:
                return each.selection.pods(service).values()
        return ()

    def _selectors(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for each in reversed(self._wanted.followed):
            selection = each.selection
            found |= {name: selection.selector(name) for name in selection.keys if selection.service(name) is not None}
        return found

    def _pod_changed(self, old: Pod | None, new: Pod | None, services: frozenset[str]) -> None:
        self.identities.pod_changed(old, new, services)

    def _selection_changed(self, services: frozenset[str]) -> None:
        self.identities.selection_changed(services)
        if services:
            self.closing.plan()

    # ---- the Program as owner ----

    def _present_owner(self) -> Owner | None:
        adopted = self._wanted.adopted
        return None if adopted is None else Owner(adopted.object.name, adopted.object.uid)

    def _owner(self) -> Owner:
        owner = self._present_owner()
        assert owner is not None  # noqa: S101 - `_close` waits for it
        return owner

    # ---- pods that wait ----

    def waiting_pod(self, caller: Caller) -> WaitingPod:
        """Raises `DeniedError`."""
        pod, _ = self.identities.pod_of(caller)
        names = {name for each in self._wanted.followed for name in each.selection.services_of(pod.key)}
        return WaitingPod(pod.uid, min(names, default=""), pod.addresses)

    def adms(self, service: str) -> int:
        # Before its rules are loaded, a pod runs neither Envoy nor a container of its own.
        return sum(1 for pod in self._pods(service) if pod.service and pod.is_redirected and not pod.is_terminating)


class _Waiting:
    """`admc.cluster.waiting_pods.Pods`."""

    def __init__(self, environment: ClusterEnvironment) -> None:
        self.pod_of = environment.waiting_pod
        self.adms = environment.adms


class _Records:
    """`admc.cluster.identity.pods.Records`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def complete(self) -> bool:
        return self._cluster.complete

    @property
    def pods(self) -> Mapping[Key, Pod]:
        return self._cluster.pods.items


def jwks(document: Mapping[str, Any]) -> bytes:
    """The keys of the cluster as `keys_from` reads them."""
    return json.dumps(document).encode()
