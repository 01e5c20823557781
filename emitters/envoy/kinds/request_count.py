"""`request_count`: a counter of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.callers import ANY, rbac
from emitters.envoy.names import stat_name

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class RequestCount(EnvoyKind):
    """An RBAC filter that admits all callers and counts what it admits: `...rbac.POLICY/DESTINATION.allowed`."""

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return HttpFilter(rbac([ANY], stat_name(policy, hop)))
