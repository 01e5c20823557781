"""Kinds that make requests fail or wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed.findings import Bed, Finding, described, judged, too_rare, tries
from admc.testbed.probes.arguments import duration, integer, percent, seconds

if TYPE_CHECKING:
    from admc.testbed.client import Request
    from dsl.program import Call, Policy

MOST_REQUESTS = 1500
"""A share that may show in none of so many requests is not waited for."""


def delay(bed: Bed, policy: Policy, call: Call, request: Request) -> Finding:
    """A share of the requests is answered after the delay, and the others at once."""
    if (finding := too_rare(percent(policy), min(MOST_REQUESTS, bed.allowance(call, request)))) is not None:
        return finding
    after = seconds(policy, "delay")
    sent, right = 0, False
    while not right and sent < tries(percent(policy)):
        reply = bed.send(call, request, timeout=after + 10)
        sent, right = sent + 1, reply.seconds >= after * 0.95
    return judged(
        right,
        _times(described(call, request), sent),
        _share(f"answered after {duration(after)}", policy),
        f"{reply.label} after {duration(reply.seconds)}",
    )


def abort(bed: Bed, policy: Policy, call: Call, request: Request) -> Finding:
    """A share of the requests is answered by the ADM: the service sees none of these, whatever their status."""
    if (finding := too_rare(percent(policy), min(MOST_REQUESTS, bed.allowance(call, request)))) is not None:
        return finding
    status = integer(policy, "status")
    sent, aborted = 0, False
    while not aborted and sent < tries(percent(policy)):
        reply = bed.send(call, request)
        sent, aborted = sent + 1, reply.seen is None
    right = aborted and (reply.grpc or reply.label == str(status))
    wanted = f"{status} from the ADM" if not reply.grpc else f"the gRPC error for {status}"
    return judged(right, _times(described(call, request), sent), _share(wanted, policy), reply.label)


def _times(request: str, sent: int) -> str:
    return request if sent == 1 else f"{request}, {sent} times"


def _share(expected: str, policy: Policy) -> str:
    return expected if percent(policy) == 100 else f"{percent(policy):g}% {expected}"
