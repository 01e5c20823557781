"""`timeout`: the timeout of a route."""

from __future__ import annotations

from emitters.envoy.kinds.interface import EnvoyKind, RouteParts


class Timeout(EnvoyKind):
    """A timeout before the retry limits all attempts together; a timeout after the retry limits each attempt."""

    after: int

    def add_to_route(self, route: RouteParts) -> None:
        (route.timeouts if route.retry is None else route.attempt_timeouts).append(self.after)
