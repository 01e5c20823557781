"""The webhook of one replica: what it knows, where it listens, and how the API server trusts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.kubernetes.cluster.webhook.configuration import WebhookConfiguration
from admc.kubernetes.cluster.webhook.counts import WebhookCounts
from admc.kubernetes.cluster.webhook.listener import Webhook
from admc.kubernetes.cluster.webhook.review import Known
from admc.kubernetes.cluster.webhook.specs import InjectionSpecs

if TYPE_CHECKING:
    from admc.kubernetes.cluster.authority.given import GivenAuthority
    from admc.kubernetes.cluster.authority.keeper import AuthorityKeeper
    from admc.kubernetes.cluster.follow import Cluster
    from admc.kubernetes.inject.model import Installation


class ClusterWebhook:
    """All calls belong on one event loop."""

    def __init__(
        self,
        cluster: Cluster,
        installation: Installation,
        address: tuple[str, int],
        authority: AuthorityKeeper | GivenAuthority,
    ) -> None:
        self._installation, self._namespace = installation, cluster.namespace
        self._address, self._authority = address, authority
        self._specs = InjectionSpecs(cluster.injections, cluster.controller, cluster.injections_shown)
        self.counts = WebhookCounts()
        self._webhook = Webhook(self._known, self.counts)
        self.configuration = WebhookConfiguration(
            cluster.api,
            cluster.controller,
            cluster.namespace,
            lambda: authority.bundle,
            lambda: self._webhook.certificate,
        )

    async def follow(self) -> None:
        """Read `Injection` objects as they change, until cancelled."""
        await self._specs.follow()

    async def listen(self) -> None:
        """Answer once there is a certificate, until cancelled. Raises `CommandError` if it cannot listen."""
        await self._authority.until_usable()
        await self._webhook.listen(*self._address, self._authority.material)

    def _known(self) -> Known | None:
        specs = self._specs.specs
        return None if specs is None else Known(self._installation, specs, self._namespace)
