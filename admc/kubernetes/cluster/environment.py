"""The cluster side of `admc.serve.environment`: all that the server reads from outside comes from the cluster.

Cluster --ClusterPrograms--> programs, addresses, identities      Secrets --> storage
        --Pods, NetworkPolicies--> redirection, closing           Lease --> may_publish
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.cluster.address_source import ClusterAddresses
from admc.kubernetes.cluster.api import counts
from admc.kubernetes.cluster.audit import Audit
from admc.kubernetes.cluster.closing.policies import ClusterClosing
from admc.kubernetes.cluster.follow import wait_for_any
from admc.kubernetes.cluster.identity.pods import PodIdentities
from admc.kubernetes.cluster.injections.guarded import any_lacks
from admc.kubernetes.cluster.injections.writer import InjectionWriter, Picture
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.program.plan_store import PlanStore
from admc.kubernetes.cluster.program.status_writer import StatusWriter
from admc.kubernetes.cluster.redirection import PodRedirection
from admc.kubernetes.cluster.reporting import Reporter
from admc.kubernetes.cluster.start_gate import WaitingPod
from admc.kubernetes.cluster.waiting_pods import WaitingPods
from admc.kubernetes.inject.needs import Place
from admc.serve.environment import Replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.metrics_core import Metric

    from admc.kubernetes.cluster.authority.given import GivenAuthority
    from admc.kubernetes.cluster.authority.keeper import AuthorityKeeper
    from admc.kubernetes.cluster.core.selection import Selection
    from admc.kubernetes.cluster.follow import Cluster
    from admc.kubernetes.cluster.identity.keys import ClusterKeys
    from admc.kubernetes.cluster.program_source import ClusterPrograms
    from admc.kubernetes.cluster.proxy_config import ProxyConfig
    from admc.kubernetes.cluster.records import Key, Pod, Service
    from admc.kubernetes.cluster.standby.standby import Standby
    from admc.kubernetes.cluster.storage.storage import SecretStorage
    from admc.kubernetes.cluster.webhook.webhook import ClusterWebhook
    from admc.kubernetes.inject.needs import Needs
    from admc.kubernetes.inject.spec import Amounts
    from admc.serve.environment import Serving
    from xds_server.transport.client import Caller

LOG: Final = logging.getLogger("admc.cluster")
LOOK_SECONDS: Final = 1.0
GONE: Final = (
    "the Program is gone, and its NetworkPolicies go with it; proxies keep its last plan, and callers that are not "
    "declared reach the destinations that were closed"
)


class _Planned(NamedTuple):
    """From what the policies of closed destinations were last computed."""

    owner: Owner | None
    programs: tuple[int, ...]
    """The numbers of the published programs."""
    services: Mapping[Key, Service]


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
        server: str,
        limits: Amounts | None,
        replica: str,
        authority: AuthorityKeeper | GivenAuthority,
        webhook: ClusterWebhook | None,
    ) -> None:
        """`server` is its address, as pods dial it. `limits` are those of ADMs. `webhook` is None if there is none."""
        self._cluster, self.programs, self._standby = cluster, programs, standby
        self._keys, self._config, self._replica, self._authority = keys, config, replica, authority
        self._webhook = webhook
        self.addresses = ClusterAddresses(programs)
        self.identities = PodIdentities(keys, cluster, programs)
        self.storage = storage
        self.redirection = PodRedirection(self._pods, self._hosting)
        self.closing = ClusterClosing(
            cluster.api,
            cluster.controller,
            self._owner,
            cluster.policies.items,
            self._selectors,
            may_write=self._may_close,
            shown=cluster.policies_changed,
        )
        self._injections = InjectionWriter(
            cluster.api,
            cluster.controller,
            server,
            limits,
            cluster.injections.items,
            cluster.injections_changed,
            picture=self._picture,
            owner=lambda: programs.outputs.owner,
            may_write=standby.may_act,
            published=lambda: () if self._serving is None else self._serving.published,
            lacks=self._lacks,
        )
        self.announced = self._injections.announced
        self._serving: Serving | None = None
        self._planned = _Planned(None, (), cluster.view.services)

    @property
    def source(self) -> str:
        about = f"installation `{self._cluster.controller}`: {self._program_text}"
        findings = () if self._webhook is None else self._webhook.configuration.findings
        webhook = (f"{item.code}: {item.message}" for item in findings)
        return "; ".join(filter(None, (about, self._cluster.problem, self._authority.problem, *webhook)))

    @property
    def _program_text(self) -> str:
        candidate, servable = self.programs.state.candidate, self.programs.state.servable
        if candidate is None:
            return "no Program yet" if servable is None else "the Program is gone; its last plan stays"
        stays = "; an earlier plan stays" if servable is not None and servable.followed != candidate.followed else ""
        return f"Program `{candidate.object.name}`{stays}"

    def services(self, serving: Serving) -> Iterable[Callable[[Any], None]]:
        self._serving = serving
        return [WaitingPods(serving, _Waiting(self), self._standby.may_act).add]

    async def end_streams(self) -> None:
        """Proxies connect anew, and reach the active replica."""
        if self._serving is not None:
            await self._serving.server.end_streams()

    @property
    def replica(self) -> Replica:
        return Replica(self._standby.role, self._standby.holder, self._standby.resign)

    def metrics(self) -> Iterable[Metric]:
        webhook = () if self._webhook is None else self._webhook.counts.metrics()
        return counts.requests(self._cluster.api.counts), counts.relists(self._cluster.relists), *webhook

    @property
    def is_prepared(self) -> bool:
        """Whether everything has been read: a replica is ready then, since there may be no Program for any time."""
        return self._cluster.complete

    def may_publish(self) -> bool:
        return self._standby.may_act()

    async def run(self) -> int:
        """Write the status, the events, the plan, NetworkPolicies, `Injection` objects and the ConfigMaps of proxies,
        until cancelled."""
        assert self._serving is not None  # noqa: S101 - the server calls `services` first
        cluster, programs, may_act = self._cluster, self.programs, self._standby.may_act
        plans = PlanStore(
            cluster.api, cluster.namespace, cluster.controller, cluster.plans.items, cluster.plans_changed
        )
        writer = StatusWriter(cluster.api, cluster.controller, self._replica)
        audit = Audit(programs)
        reporter = Reporter(
            cluster,
            programs,
            self._serving,
            self.redirection,
            self.closing,
            self._injections,
            audit,
            plans,
            writer,
            may_act,
            None if self._webhook is None else self._webhook.configuration,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(reporter.run())
            group.create_task(audit.run())
            group.create_task(self._config.run(lambda: programs.outputs.owner, may_act))
            group.create_task(self._close())
            group.create_task(self._injections.run(self._serving))
            group.create_task(self._update())
            if self._webhook is not None:
                group.create_task(self._webhook.configuration.run(may_act))
        raise AssertionError  # the tasks end by being cancelled

    async def _update(self) -> None:
        """Keep the programs in force and the policies of closed destinations up to date, until cancelled."""
        assert self._serving is not None  # noqa: S101 - as above
        while True:
            stepped = self.programs.stepped.next
            served, published = (
                [placed.program for placed in plans] for plans in (self._serving.placed, self._serving.published)
            )
            self.programs.in_force(served[::-1], published)
            self._plan_closing(self._serving)
            await wait_for_any(stepped, seconds=LOOK_SECONDS)

    def _plan_closing(self, serving: Serving) -> None:
        """Compute the policies of closed destinations anew, if they may differ."""
        numbers = tuple(program.number for program in self.programs.state.published)
        before, now = self._planned, _Planned(self.programs.outputs.owner, numbers, self._cluster.view.services)
        if before[:2] == now[:2] and before.services is now.services:
            return
        self._planned = now
        self.closing.plan()
        if before.owner is not None and now.owner is None:
            closed = sorted({name for placed in serving.placed for name in placed.placement.closed})
            LOG.warning("program_gone", extra={"program": before.owner.name, "open": closed, "text": GONE})

    async def _close(self) -> None:
        """Keep NetworkPolicies as they should be, once a Program owns them."""
        while not self._may_close():
            await asyncio.sleep(LOOK_SECONDS)
        await self.closing.run()

    # ---- the pods and Services of services ----

    @property
    def _selections(self) -> list[Selection]:
        """The selections of the published programs; the first program that has a service decides about it."""
        return [program.selection.at(self._cluster.view) for program in self.programs.state.published]

    def _selection_with(self, service: str) -> Selection | None:
        return next((selection for selection in self._selections if service in selection.keys), None)

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
        for selection in reversed(self._selections):
            selectors |= {
                name: selection.selector(name) for name in selection.keys if selection.service(name) is not None
            }
        return selectors

    def _picture(self) -> Picture:
        selectors: dict[Place, Mapping[str, str]] = {}
        names: dict[Place, str] = {}
        for selection in reversed(self._selections):
            places = {Place(key.namespace, name): key for name, key in selection.keys.items()}
            selectors |= {place: selection.selector(place.service) for place in places}
            names |= {place: key.name for place, key in places.items()}
        return Picture(selectors, self._cluster.taking_part, names)

    def _lacks(self, app: str, place: Place, needs: Needs) -> bool:
        """Whether a pod of a service lacks some of its needs. A pod that cannot be read may be of any service of its
        namespace."""
        selection = self._selection_with(place.service)
        if selection is None or selection.keys[place.service].namespace != place.namespace:
            return True
        if any(key.namespace == place.namespace for key in self._cluster.pods.rejected):
            return True
        return any_lacks(selection.pods(place.service).values(), f"{app}/{place.service}", needs)

    # ---- the Program as owner ----

    def _may_close(self) -> bool:
        """Whether NetworkPolicies may be written. If their Program is gone, the cluster would remove them at once."""
        return self.programs.outputs.owner is not None and self._standby.may_act()

    def _owner(self) -> Owner:
        # While the Program is gone, nothing is written, and its earlier owner stands in.
        return self.programs.outputs.owner or self._planned.owner or Owner("", "")

    # ---- pods that wait ----

    def waiting_pod(self, caller: Caller) -> WaitingPod:
        """Raises `DeniedError`."""
        pod, _ = self.identities.pod_of(caller)
        names = {name for selection in self._selections for name in selection.services_of(pod.key)}
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


def jwks(document: Mapping[str, Any]) -> bytes:
    """Return the keys of the cluster in the form that `keys_from` reads."""
    return json.dumps(document).encode()
