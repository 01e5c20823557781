"""`deny`: none of the calls in scope passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.callers import rbac
from emitters.envoy.names import stat_name

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class Deny(EnvoyKind):
    """An RBAC filter without a principal, or a filter chain that ends there."""

    def admitted_callers(self) -> frozenset[str]:
        return frozenset()

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return HttpFilter(rbac((), stat_name(policy, hop)))
