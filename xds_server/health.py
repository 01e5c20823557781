"""Whether clients are served, as gRPC's health checking tells it on the xDS port: load balancers and probes ask that.

The messages are the library's and the servicer is not: there one watcher that does not read holds up whoever sets the
status, and one that leaves takes the others' news with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]
from grpc_health.v1 import health_pb2, health_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICES: Final = frozenset({"", "envoy.service.discovery.v3.AggregatedDiscoveryService"})
"""What may be asked for: the whole server, and the service that proxies use."""
MAX_WATCHERS: Final = 1_000


class Health:
    """Not serving until told otherwise. All calls belong on the loop of the server.

    health = Health()
    await server.start(address, services=[health.add])
    health.set(serving=True)
    """

    def __init__(self) -> None:
        self._serving = False
        self._changed = asyncio.Event()
        self._watchers = 0

    def add(self, grpc_server: Any) -> None:
        """Offer the service on a gRPC server."""
        health_pb2_grpc.add_HealthServicer_to_server(self, grpc_server)

    def set(self, *, serving: bool) -> None:
        """Tell everybody who watches."""
        self._serving = serving
        self._changed.set()
        self._changed = asyncio.Event()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's own word
        if request.service not in SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return self._status(request.service)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        if self._watchers >= MAX_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watch already")
        self._watchers += 1
        try:
            said = None
            while True:
                changed, status = self._changed, self._status(request.service)
                if status != said:
                    yield status
                    said = status
                else:
                    await changed.wait()
        finally:
            self._watchers -= 1

    def _status(self, service: str) -> Any:
        kinds = health_pb2.HealthCheckResponse
        if service not in SERVICES:
            return kinds(status=kinds.SERVICE_UNKNOWN)
        return kinds(status=kinds.SERVING if self._serving else kinds.NOT_SERVING)
