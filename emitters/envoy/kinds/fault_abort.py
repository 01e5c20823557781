"""`fault_abort`: requests are answered with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.faults import fault, fraction

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class FaultAbort(EnvoyKind):
    """`status` is an HTTP status; for a gRPC client Envoy translates it."""

    status: int
    percent: float

    def may_reply_with(self, status: int) -> bool:
        return status == self.status

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return HttpFilter(fault(abort={"http_status": self.status, "percentage": fraction(self.percent)}))
