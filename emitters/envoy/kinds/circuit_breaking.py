"""`circuit_breaking`: thresholds of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from emitters.envoy.kinds.interface import EnvoyKind

if TYPE_CHECKING:
    from dsl.program import Kind
    from emitters.envoy.messages.typed import Json


class CircuitBreaking(EnvoyKind):
    """If several policies set a limit, the tightest one holds."""

    max_connections: int | None
    max_pending: int | None
    max_requests: int | None

    shares_connection_pools: ClassVar[bool] = True
    """A limit on connections does not hold for the first connection of a pool."""

    @classmethod
    def counts_per_port(cls, kind: Kind) -> bool:
        return True

    def add_to_cluster(self, cluster: Json, limits: Json, *, several: bool) -> None:
        stated = {
            "max_connections": self.max_connections,
            "max_pending_requests": self.max_pending,
            "max_requests": self.max_requests,
        }
        for field, value in stated.items():
            if value is not None:
                limits[field] = min(limits[field], value)
        thresholds = [limits | {"track_remaining": True}, {"priority": "HIGH", **limits}]
        cluster["circuit_breakers"] = {"thresholds": thresholds}
