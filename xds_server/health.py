"""The health service of gRPC on the xDS port, for load balancers and probes.

The messages come from gRPC's library, but the servicer does not. In the servicer of the library, a watcher that does
not read blocks the caller that sets the status, and a watcher that leaves makes other watchers miss updates.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]
from grpc_health.v1 import health_pb2, health_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICES: Final = frozenset({"", "envoy.service.discovery.v3.AggregatedDiscoveryService"})
"""The services with a status: the whole server, and the service that proxies use."""
MAX_WATCHERS: Final = 1_000
"""A client that begins to watch beside so many others gets RESOURCE_EXHAUSTED."""


class Health:
    """The status is "not serving" until `set` changes it. All calls belong on the event loop of the server.

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
        """Set the status, and send it to all watchers."""
        self._serving = serving
        self._changed.set()
        self._changed = asyncio.Event()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name in the service
        if request.service not in SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return self._status(request.service)

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        if self._watchers >= MAX_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watch already")
        self._watchers += 1
        try:
            sent = None
            while True:
                changed, status = self._changed, self._status(request.service)
                if status != sent:
                    yield status
                    sent = status
                else:
                    await changed.wait()
        finally:
            self._watchers -= 1

    def _status(self, service: str) -> Any:
        kinds = health_pb2.HealthCheckResponse
        if service not in SERVICES:
            return kinds(status=kinds.SERVICE_UNKNOWN)
        return kinds(status=kinds.SERVING if self._serving else kinds.NOT_SERVING)
