"""Kinds that make requests fail or wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed.findings import Bed, ProbeFinding, described, judged, too_rare, tries, unobservable
from admc.testbed.probes.arguments import duration, integer, percent, seconds

if TYPE_CHECKING:
    from admc.testbed.client import Request
    from dsl.program import Call, Policy

ALL = 3
"""Requests that the probe sends to a policy that delays all. Each must be late."""
SHORT = 0.01
"""Seconds. A shorter delay of all requests is not observable, since an answer may take as long without it ..."""
SHORT_SHARE = 0.1
"""... and so is a delay of some requests that is shorter than this: a single answer may be late by chance."""
MOST_REQUESTS = 1500
"""The largest number of requests that a probe sends until a share of them shows an effect. A smaller share is reported
as not observable."""


def delay(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """A share of the requests is answered after the delay, and the others at once."""
    if (finding := too_rare(percent(policy), min(MOST_REQUESTS, bed.allowance(call, request)))) is not None:
        return finding
    after = seconds(policy, "delay")
    share = percent(policy)
    if after < (SHORT if share >= 100 else SHORT_SHARE):
        return unobservable(f"an answer may take {duration(after)} longer on this machine by itself")
    if share >= 100:
        # Even the fastest answer must be late: a busy machine is not late each time.
        replies = [bed.send(call, request, timeout=after + 10) for _ in range(ALL)]
        soonest = min(replies, key=lambda reply: reply.seconds)
        return judged(
            soonest.seconds >= after * 0.95,
            _times(described(call, request), ALL),
            f"answered after {duration(after)}",
            f"{soonest.label} after {duration(soonest.seconds)}",
        )
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


def abort(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """The ADM answers a share of the requests itself. The service receives none of these."""
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
