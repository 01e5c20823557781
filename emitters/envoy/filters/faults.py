"""Faults on purpose: late answers and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dsl.program import Protocol
from emitters.envoy.filters.built import Built
from emitters.envoy.typed import Json, duration, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.scope import Hop

_FAULT: Final = "envoy.extensions.filters.http.fault.v3.HTTPFault"
_LAST_GRPC_STATUS: Final = 16


def fraction(percent: Any) -> Json:
    """A percentage in Envoy's finest grain, one in a million."""
    return {"numerator": round(float(percent) * 10_000), "denominator": "MILLION"}


def fault_delay(context: Context, hop: Hop, policy: Policy) -> Built:
    delay = policy.arguments["delay"]
    assert isinstance(delay, int)  # noqa: S101 - checked by the resolver
    return _fault(delay={"fixed_delay": duration(delay), "percentage": fraction(policy.arguments["percent"])})


def fault_abort(context: Context, hop: Hop, policy: Policy) -> Built:
    """`status` is an HTTP status; on grpc also a gRPC status, which is what a number up to 16 means."""
    status = policy.arguments["status"]
    assert isinstance(status, int)  # noqa: S101 - checked by the resolver
    percentage = fraction(policy.arguments["percent"])
    if hop.port.protocol is Protocol.GRPC and 0 < status <= _LAST_GRPC_STATUS:
        return _fault(abort={"grpc_status": status, "percentage": percentage})
    if not 200 <= status < 600:
        context.refuse(
            "ADM705",
            f"`{policy.name}` answers with status {status}, which `{hop.port.protocol}` callers do not know",
            policy,
            cause="an HTTP status is between 200 and 599; on grpc 1 to 16 is a gRPC status",
            hint="use 503 for a service that is not available",
        )
    return _fault(abort={"http_status": status, "percentage": percentage})


def _fault(**fields: Json) -> Built:
    # Statistics by downstream cluster would make a name of a client's header; limits are for runtime settings.
    return Built(typed(_FAULT, disable_downstream_cluster_stats=True, **fields))
