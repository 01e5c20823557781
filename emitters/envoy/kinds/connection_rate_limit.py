"""`connection_rate_limit`: Envoy's local rate limit for connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, NetworkFilter
from emitters.envoy.kinds.shared.token_bucket import check_bucket, token_bucket
from emitters.envoy.messages.typed import extension
from emitters.envoy.names import stat_name

if TYPE_CHECKING:
    from dsl.program import Kind, Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class ConnectionRateLimit(EnvoyKind):
    """The network filter does not count replicas. So each replica gets its share: the same amount, in a longer time."""

    connections: int
    per: int
    burst: int

    @classmethod
    def counts_per_port(cls, kind: Kind) -> bool:
        """Envoy's limit for connections is shared by all filters of one key."""
        return False

    def check_hop(self, context: Context, hop: Hop, policy: Policy) -> None:
        check_bucket(context, policy, self.connections, self.per, self.burst)

    def network_filter(self, context: Context, hop: Hop, policy: Policy) -> NetworkFilter:
        replicas = context.replicas
        return NetworkFilter(
            extension(
                policy.name,
                "envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit",
                stat_prefix=stat_name(policy, hop),
                token_bucket=token_bucket(self.connections, self.per * replicas, self.burst // replicas),
                # The filters of all ports and groups of callers count together.
                share_key=stat_name(policy, hop),
            )
        )
