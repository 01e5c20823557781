"""`split`: a share of the requests goes to another service."""

from __future__ import annotations

from emitters.envoy.kinds.interface import EnvoyKind, RouteParts


class Split(EnvoyKind):
    """A weighted cluster of the route."""

    to: str
    percent: float

    def add_to_route(self, route: RouteParts) -> None:
        route.shares.append((self.to, self.percent))
