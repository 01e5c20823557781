"""`fault_delay`: requests wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.faults import fault, fraction
from emitters.envoy.messages.typed import duration

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class FaultDelay(EnvoyKind):
    """A delay of Envoy's fault filter."""

    delay: int
    percent: float

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return HttpFilter(fault(delay={"fixed_delay": duration(self.delay), "percentage": fraction(self.percent)}))
