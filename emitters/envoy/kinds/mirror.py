"""`mirror`: copies of requests to another service."""

from __future__ import annotations

from emitters.envoy.held_headers import copying
from emitters.envoy.kinds.interface import EnvoyKind, RouteParts
from emitters.envoy.kinds.shared.faults import fraction
from emitters.envoy.names import target_cluster


class Mirror(EnvoyKind):
    """A request mirror policy of the route."""

    to: str
    percent: float

    def copies_to(self) -> str:
        return self.to

    def add_to_route(self, route: RouteParts) -> None:
        route.mirrors.append(
            {
                "cluster": target_cluster(route.hop, self.to, route.version),
                "runtime_fraction": {"default_value": fraction(self.percent)},
                "disable_shadow_host_suffix_append": True,
                "request_headers_mutations": copying(),
                "trace_sampled": False,
            }
        )
