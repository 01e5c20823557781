"""`rate_limit`: Envoy's local rate limit for requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsl.program import Protocol
from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.token_bucket import check_bucket, token_bucket
from emitters.envoy.messages.typed import Json, typed
from emitters.envoy.names import stat_name

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_ALWAYS: Final[Json] = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}


class RateLimit(EnvoyKind):
    """One bucket for the policy and destination, shared by the replicas of the service that holds it."""

    requests: int
    per: int
    burst: int

    limit_shared_by_replicas: ClassVar[bool] = True

    def check_hop(self, context: Context, hop: Hop, policy: Policy) -> None:
        check_bucket(context, policy, self.requests, self.per, self.burst)

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return HttpFilter(
            typed(
                "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
                stat_prefix=stat_name(policy, hop),
                token_bucket=token_bucket(self.requests, self.per, self.burst),
                filter_enabled=_ALWAYS,
                filter_enforced=_ALWAYS,
                local_cluster_rate_limit={},
                # A gRPC client takes 429 for UNAVAILABLE, and would repeat the request.
                rate_limited_as_resource_exhausted=True if hop.port.protocol is Protocol.GRPC else None,
            )
        )
