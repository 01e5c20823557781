"""Faults on purpose: late answers and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from emitters.envoy.filters.built import Built
from emitters.envoy.messages.typed import Json, duration, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_FAULT: Final = "envoy.extensions.filters.http.fault.v3.HTTPFault"


def fraction(percent: Any) -> Json:
    """A percentage in Envoy's finest grain, one in a million."""
    return {"numerator": round(float(percent) * 10_000), "denominator": "MILLION"}


def fault_delay(context: Context, hop: Hop, policy: Policy) -> Built:
    delay = policy.arguments["delay"]
    assert isinstance(delay, int)  # noqa: S101 - checked by the resolver
    return _fault(delay={"fixed_delay": duration(delay), "percentage": fraction(policy.arguments["percent"])})


def fault_abort(context: Context, hop: Hop, policy: Policy) -> Built:
    """`status` is an HTTP status; to a gRPC caller Envoy translates it."""
    percentage = fraction(policy.arguments["percent"])
    return _fault(abort={"http_status": policy.arguments["status"], "percentage": percentage})


def _fault(**fields: Json) -> Built:
    # Statistics by downstream cluster would make a name of a client's header; limits are for runtime settings.
    return Built(typed(_FAULT, disable_downstream_cluster_stats=True, **fields))
