"""`allow`: only the named callers pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.callers import principals, rbac
from emitters.envoy.names import stat_name

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class Allow(EnvoyKind):
    """An RBAC filter for requests; for connections, a filter chain of all other callers that ends there
    (`chains.tcp`)."""

    callers: tuple[str, ...]

    def admitted_callers(self) -> frozenset[str]:
        return frozenset(self.callers)

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        admitted = principals(context, hop, policy, self.admitted_callers())
        return HttpFilter(rbac(admitted, stat_name(policy, hop)))
