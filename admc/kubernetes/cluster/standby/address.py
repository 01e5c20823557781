"""The EndpointSlice of the xDS Service, in which the active replica writes its own address alone.

The Service has no selector, so no controller writes its slices. A write of a replica that was stopped may arrive late,
so the active replica checks the slice from time to time.
"""

from __future__ import annotations

import asyncio
import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.api.applied import Applied
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.names import CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.kubernetes.cluster.api.requests import Api

LOG: Final = logging.getLogger("admc.cluster")
LOOK_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 0.5
REQUEST_SECONDS: Final = 5.0
PORT_NAME: Final = "xds"


class ActiveAddress:
    """Writes the address of one replica. `may_write` returns whether the replica is the active one."""

    def __init__(
        self, api: Api, namespace: str, installation: str, address: tuple[str, int], may_write: Callable[[], bool]
    ) -> None:
        self._api, self._may_write = api, may_write
        self._applied = Applied(api)
        self._body = _slice(namespace, installation, *address)
        name = self._body["metadata"]["name"]
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
        self._is_failing = False

    async def keep(self) -> None:
        """Write the address, and again whenever it differs, while this replica is active; until cancelled."""
        while True:
            pause = LOOK_SECONDS
            if self._may_write():
                try:
                    async with asyncio.timeout(REQUEST_SECONDS):
                        await self._check_slice()
                    self._is_failing = False
                except (ApiError, TimeoutError) as error:
                    self._report(str(error) or "the API server did not answer in time")
                    pause = RETRY_SECONDS
            await asyncio.sleep(pause)

    async def _check_slice(self) -> None:
        try:
            slice_ = await self._api.get(self._path)
        except ApiError as error:
            if not error.is_not_found:
                raise
            slice_ = None
        self._applied.seen(self._path, slice_)
        if self._may_write() and await self._applied.apply(self._path, self._body):
            LOG.info("address_written", extra={"address": self._body["endpoints"][0]["addresses"][0]})

    def _report(self, why: str) -> None:
        if not self._is_failing:
            LOG.warning("address_not_written", extra={"why": why})
        self._is_failing = True


def _slice(namespace: str, installation: str, host: str, port: int) -> dict[str, Any]:
    name = f"admc-{installation}"
    labels = {
        "kubernetes.io/service-name": name,
        "endpointslice.kubernetes.io/managed-by": "admc.dev",
        CONTROLLER: installation,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "addressType": f"IPv{ip_address(host).version}",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    }
