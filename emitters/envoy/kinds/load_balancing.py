"""`load_balancing`: how an endpoint is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsl.program import Protocol
from emitters.envoy.held_headers import inside
from emitters.envoy.kinds.interface import EnvoyKind, RouteParts

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.envoy.messages.typed import Json
    from emitters.hops import Hop

_HASHING: Final = ("ring_hash", "maglev")


class LoadBalancing(EnvoyKind):
    """The cluster chooses the endpoint, and the route has the key that the cluster hashes."""

    policy: str
    hash: str | None

    needs_endpoints: ClassVar[bool] = True

    def check_hop(self, context: Context, hop: Hop, policy: Policy) -> None:
        if self.policy not in _HASHING:
            return
        if hop.port.protocol is Protocol.TCP:
            problem, hint = "a `tcp` call has no header to hash", "use `round_robin`, `least_request` or `random`"
        elif self.hash is None:
            problem, hint = "it names no header to hash", 'add `hash: "x-user"`'
        else:
            return
        context.refuse(
            "ADM709",
            f"`{policy.name}` cannot choose an endpoint by `{self.policy}`: {problem}",
            policy,
            cause="requests with the same key go to the same endpoint, and the key is a request header",
            hint=hint,
        )

    def add_to_route(self, route: RouteParts) -> None:
        if self.hash:
            route.hash_policies.append({"header": {"header_name": inside(self.hash)}})

    def add_to_cluster(self, cluster: Json, limits: Json, *, several: bool) -> None:
        # Envoy's names are those of the language, in capitals.
        cluster["lb_policy"] = self.policy.upper()
