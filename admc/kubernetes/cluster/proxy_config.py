"""The ConfigMap from which the proxies of an installation start, one in each namespace that takes part.

authority of the server's certificate, where it is reached --pod_bootstrap--> ConfigMap admc-NAME
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.api.applied import Applied
from admc.kubernetes.cluster.api.backoff import Backoff
from admc.kubernetes.cluster.api.errors import ApiError, is_refusal
from admc.kubernetes.cluster.follow import wait_for_any
from admc.kubernetes.cluster.names import CONTROLLER
from emitters.envoy.bootstrap.pod import pod_bootstrap, server

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.kubernetes.cluster.follow import Cluster
    from admc.kubernetes.cluster.program.owner import Owner

LOG: Final = logging.getLogger("admc.cluster")
AGAIN_SECONDS: Final = 60.0
"""The time after which all ConfigMaps are applied again, in case one was altered."""
LOOK_SECONDS: Final = 2.0
"""The time between two checks whether another `Program` owns them, the authority is another one, or this replica may
write by now."""
AUTHORITY: Final = "ca.crt"


class ProxyConfig:
    """Keeps the ConfigMaps. The `Program` owns them, so the cluster removes them with it."""

    def __init__(self, cluster: Cluster, at: tuple[str, int], authority: Callable[[], str], *, ipv6: bool) -> None:
        """`at` is the host and port at which pods reach the server; `authority` returns certificates in PEM, which may
        change at any time."""
        files = pod_bootstrap(server(*at), ipv6=ipv6)
        self._files = {name: content.decode() for name, content in files.items()}
        self._cluster, self._authority = cluster, authority
        self._applied = Applied(cluster.api)
        self.everywhere = ""
        """The authority that every ConfigMap has; empty if they are not known to have one."""

    async def run(self, owner: Callable[[], Owner | None], may_write: Callable[[], bool]) -> None:
        """Write the ConfigMaps whenever they may differ, until cancelled."""
        backoff, problem, again = Backoff(), "", 0.0
        while True:
            changed = self._cluster.namespaces_changed.next
            if time.monotonic() >= again:
                self._applied = Applied(self._cluster.api)  # one that was altered by hand is written again
                again = time.monotonic() + AGAIN_SECONDS
            try:
                program = owner()
                if program is not None and may_write():
                    await self.write(program)
                problem = ""
                backoff.reset()
            except ApiError as error:
                if str(error) != problem:
                    LOG.warning("the ConfigMap of proxies cannot be written: %s", error)
                problem = str(error)
                await asyncio.sleep(backoff.seconds(error.retry_after))
                continue
            await wait_for_any(changed, seconds=LOOK_SECONDS)

    async def write(self, owner: Owner) -> None:
        """Write all ConfigMaps. A namespace that refuses one does not stop the others. Raises the first `ApiError`."""
        authority, self.everywhere = self._authority(), ""
        refused: list[ApiError] = []
        for namespace in self._cluster.taking_part:
            path = f"/api/v1/namespaces/{namespace}/configmaps/{self.name}"
            try:
                await self._applied.apply(path, self._object(namespace, owner, authority))
            except ApiError as error:
                if not is_refusal(error):
                    raise
                refused.append(error)
        if refused:
            raise refused[0]
        self.everywhere = authority

    @property
    def name(self) -> str:
        return f"admc-{self._cluster.controller}"

    def _object(self, namespace: str, owner: Owner, authority: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "labels": {CONTROLLER: self._cluster.controller},
                "ownerReferences": [owner.reference],
            },
            "data": {AUTHORITY: authority, **self._files},
        }
