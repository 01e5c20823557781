"""The cluster side of `admc.serve.environment`: all that the server reads from outside comes from the cluster.

Cluster --ClusterPrograms--> programs, addresses, identities      Secrets --> storage
        --Pods, NetworkPolicies--> redirection, closing           Lease --> may_publish
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.address_source import ClusterAddresses
from admc.kubernetes.cluster.api import counts
from admc.kubernetes.cluster.audit import Audit
from admc.kubernetes.cluster.closing.policies import ClusterClosing
from admc.kubernetes.cluster.identity.pods import PodIdentities
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.program.plan_store import PlanStore
from admc.kubernetes.cluster.program.status_writer import StatusWriter
from admc.kubernetes.cluster.redirection import PodRedirection
from admc.kubernetes.cluster.reporting import Reporter
from admc.kubernetes.cluster.start_gate import WaitingPod
from admc.kubernetes.cluster.waiting_pods import WaitingPods
from admc.serve.environment import Replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.metrics_core import Metric

    from admc.kubernetes.cluster.follow import Cluster, Followed
    from admc.kubernetes.cluster.identity.keys import ClusterKeys
    from admc.kubernetes.cluster.program_source import ClusterPrograms
    from admc.kubernetes.cluster.proxy_config import ProxyConfig
    from admc.kubernetes.cluster.records import Key, Pod
    from admc.kubernetes.cluster.selection import Selection
    from admc.kubernetes.cluster.standby.standby import Standby
    from admc.kubernetes.cluster.storage.storage import SecretStorage
    from admc.serve.environment import Reach, Serving
    from dsl.program import Program
    from xds_server.transport.client import Caller

LOG: Final = logging.getLogger("admc.cluster")
LOOK_SECONDS: Final = 1.0
GONE: Final = (
    "the Program is gone, and its NetworkPolicies go with it; proxies keep its last plan, and callers that are not "
    "declared reach the destinations that were closed"
)


class ClusterEnvironment:
    """All calls belong on the server's event loop, except those of `storage`."""

    def __init__(
        self,
        cluster: Cluster,
        programs: ClusterPrograms,
        standby: Standby,
        storage: SecretStorage,
        keys: ClusterKeys,
        config: ProxyConfig,
        reach: Reach,
        replica: str,
    ) -> None:
        """`reach` says how pods reach the server; the Program adds the names of the Services."""
        self._cluster, self.programs, self._standby = cluster, programs, standby
        self._keys, self._config, self._replica = keys, config, replica
        self.addresses = ClusterAddresses(cluster, programs)
        self.identities = PodIdentities(keys, _Records(cluster), self._selection)
        self.storage = storage
        self.redirection = PodRedirection(self._pods, self._hosting)
        self.closing = ClusterClosing(
            cluster.api,
            cluster.controller,
            self._owner,
            cluster.policies.items,
            self._selectors,
            may_write=self._may_close,
        )
        self._reach = reach
        self._serving: Serving | None = None
        self._owned: tuple[Owner | None, tuple[Followed, ...]] = (None, ())
        """The owner and the programs when `closing` last computed its policies."""
        cluster.pod_changed = self._pod_changed
        cluster.selection_changed = self._selection_changed
        cluster.policy_changed = self.closing.changed

    @property
    def source(self) -> str:
        problem = f"; {self._cluster.problem}" if self._cluster.problem else ""
        return f"installation `{self._cluster.controller}`: {self._program_text}{problem}"

    @property
    def _program_text(self) -> str:
        programs, candidate = self.programs, self.programs.candidate
        if candidate is None:
            return "no Program yet" if programs.servable is None else "the Program is gone; its last plan stays"
        served = programs.servable is not None and programs.servable.followed is candidate.followed
        stays = "; an earlier plan stays" if programs.servable is not None and not served else ""
        return f"Program `{candidate.object.name}`{stays}"

    @property
    def reach(self) -> Reach:
        servable = self.programs.servable
        return self._reach if servable is None else self._reach._replace(objects=servable.followed.names)

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
        """Write the status, the plan and NetworkPolicies, until cancelled."""
        assert self._serving is not None  # noqa: S101 - the server calls `services` first
        cluster, programs, may_act = self._cluster, self.programs, self._standby.may_act
        plans = PlanStore(cluster.api, cluster.namespace, cluster.controller, cluster.plans.items)
        cluster.plan_changed = plans.changed
        writer = StatusWriter(cluster.api, cluster.controller, self._replica)
        audit = Audit(cluster, programs)
        reporter = Reporter(
            cluster, programs, self._serving, self.redirection, self.closing, audit, plans, writer, may_act
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(reporter.run())
            group.create_task(audit.run())
            group.create_task(self._config.run(lambda: programs.owner, may_act))
            group.create_task(self._close())
            group.create_task(self._update())
        raise AssertionError  # the tasks end by being cancelled

    async def _update(self) -> None:
        """Keep the followed programs and the owner up to date, until cancelled: programs in force stay followed, others
        are forgotten."""
        assert self._serving is not None  # noqa: S101 - as above
        while True:
            self._update_programs(self._serving)
            self._update_owner()
            await asyncio.sleep(LOOK_SECONDS)

    def _update_programs(self, serving: Serving) -> None:
        served, published = ([placed.program for placed in plans] for plans in (serving.placed, serving.published))
        self.programs.in_force(served[::-1], published)

    def _update_owner(self) -> None:
        before, now = self._owned, (self.programs.owner, self.programs.followed)
        if now == before:
            return
        self._owned = now
        self.closing.plan()
        if before[0] is not None and now[0] is None and self._serving is not None:
            closed = sorted({name for placed in self._serving.placed for name in placed.placement.closed})
            LOG.warning("program_gone", extra={"program": before[0].name, "open": closed, "text": GONE})

    async def _close(self) -> None:
        """Keep NetworkPolicies as they should be, once a Program owns them."""
        while not self._may_close():
            await asyncio.sleep(LOOK_SECONDS)
        await self.closing.run()

    # ---- the cluster's records of services ----

    def _selection(self, program: Program) -> Selection:
        return self.programs.followed_for(program).selection

    def _selection_with(self, service: str) -> Selection | None:
        return next(
            (followed.selection for followed in self.programs.followed if service in followed.selection.keys), None
        )

    def _pods(self, service: str) -> Iterable[Pod]:
        selection = self._selection_with(service)
        return () if selection is None else selection.pods(service).values()

    def _hosting(self, service: str) -> Iterable[Pod]:
        selection = self._selection_with(service)
        if selection is not None and selection.service(service) is None:
            return self._cluster.view.hosting_in(selection.keys[service].namespace, service)
        return self._pods(service)

    def _selectors(self) -> Mapping[str, Mapping[str, str]]:
        selectors: dict[str, Mapping[str, str]] = {}
        for followed in reversed(self.programs.followed):
            selection = followed.selection
            selectors |= {
                name: selection.selector(name) for name in selection.keys if selection.service(name) is not None
            }
        return selectors

    def _pod_changed(self, old: Pod | None, new: Pod | None, services: frozenset[str]) -> None:
        self.identities.pod_changed(old, new, services)

    def _selection_changed(self, services: frozenset[str]) -> None:
        self.identities.selection_changed(services)
        if services:
            self.closing.plan()

    # ---- the Program as owner ----

    def _may_close(self) -> bool:
        """Whether NetworkPolicies may be written. If their Program is gone, the cluster would remove them at once."""
        return self.programs.owner is not None and self._standby.may_act()

    def _owner(self) -> Owner:
        # While the Program is gone, nothing is written, and its earlier owner stands in.
        return self.programs.owner or self._owned[0] or Owner("", "")

    # ---- pods that wait ----

    def waiting_pod(self, caller: Caller) -> WaitingPod:
        """Raises `DeniedError`."""
        pod, _ = self.identities.pod_of(caller)
        names = {name for followed in self.programs.followed for name in followed.selection.services_of(pod.key)}
        return WaitingPod(pod.uid, min(names, default=""), pod.addresses)

    def adms(self, service: str) -> int:
        # Before its rules are loaded, a pod runs neither Envoy nor a container of its own.
        return sum(1 for pod in self._pods(service) if pod.service and pod.is_redirected and not pod.is_terminating)


class _Waiting:
    """`admc.kubernetes.cluster.waiting_pods.Pods`."""

    def __init__(self, environment: ClusterEnvironment) -> None:
        self.pod_of = environment.waiting_pod
        self.adms = environment.adms
        self.taken = environment.addresses.taken


class _Records:
    """`admc.kubernetes.cluster.identity.pods.Records`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def complete(self) -> bool:
        return self._cluster.complete

    @property
    def pods(self) -> Mapping[Key, Pod]:
        return self._cluster.pods.items


def jwks(document: Mapping[str, Any]) -> bytes:
    """Return the keys of the cluster in the form that `keys_from` reads."""
    return json.dumps(document).encode()
