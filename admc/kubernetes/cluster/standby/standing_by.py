"""The HTTP endpoints of a replica that stands by: it is ready once it could take over, and has no plan to report.

what the replica knows --StandingBy.view--> View --when it is active--> the View of the server
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NoReturn

from admc import __version__
from admc.base.exits import wrong_usage
from admc.kubernetes.cluster.api import counts
from admc.kubernetes.cluster.standby.standby import Role
from admc.serve.observe import status
from admc.serve.observe.http import View
from admc.serve.observe.metrics import Gauges, MetricSources
from admc.serve.observe.problems import Counts
from admc.serve.observe.status import ServerPhase
from xds_server.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from admc.kubernetes.cluster.authority.given import GivenAuthority
    from admc.kubernetes.cluster.authority.keeper import AuthorityKeeper
    from admc.kubernetes.cluster.follow import Cluster
    from admc.kubernetes.cluster.standby.standby import Standby
    from admc.kubernetes.cluster.standby.state_follower import StateFollower
    from admc.kubernetes.cluster.webhook.webhook import ClusterWebhook
    from admc.serve.observe.status import ServerRow, Status


class StandingBy:
    def __init__(
        self,
        cluster: Cluster,
        standby: Standby,
        follower: StateFollower,
        authority: AuthorityKeeper | GivenAuthority,
        webhook: ClusterWebhook | None,
    ) -> None:
        self._cluster, self._standby, self._follower, self._authority = cluster, standby, follower, authority
        self._webhook = webhook
        self._started = time.time()

    def view(self) -> View:
        sources = MetricSources(Metrics(), Counts(), self._gauges, environment=self._metrics)
        commands = {"/rollout/abort": self._refuse, "/rollout/continue": self._refuse}
        return View(self._status, self._row, sources, commands=commands, is_prepared=self._is_prepared)

    def _is_prepared(self) -> bool:
        """Whether this replica could take over. One that is active, and does not listen yet, has nothing to prepare."""
        is_able = self._cluster.complete and not self._authority.problem
        return is_able and (self._follower.is_prepared or self._standby.role is not Role.STANDBY)

    def _row(self) -> ServerRow:
        return status.server_row(
            phase=ServerPhase.STARTING,
            app="",
            source=f"installation `{self._cluster.controller}`",
            state="",
            started=self._started,
            why=self._why,
            role=self._standby.role,
            holder=self._standby.holder,
        )

    @property
    def _why(self) -> str:
        problems = (self._cluster.problem, self._follower.problem, self._authority.problem)
        unread = "" if self._cluster.complete else "the cluster has not been read yet"
        return "; ".join(filter(None, problems)) or unread

    def _status(self) -> Status:
        return status.collect(self._row(), (), {}, ())

    def _gauges(self) -> Gauges:
        return Gauges(
            ready=False,
            version=__version__,
            adms=0,
            adms_without_clients=0,
            clients_out_of_sync=0,
            problem=bool(self._follower.problem),
            lease_held=self._standby.role is Role.ACTIVE,
        )

    def _metrics(self) -> Iterable[Metric]:
        webhook = () if self._webhook is None else self._webhook.counts.metrics()
        return counts.requests(self._cluster.api.counts), counts.relists(self._cluster.relists), *webhook

    async def _refuse(self) -> NoReturn:
        raise wrong_usage("ADM951", status.standing_by(self._row()), hint="ask the active replica")
