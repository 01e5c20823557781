"""Kinds that limit how much passes: requests, connections, requests at once, bytes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from admc.testbed import echo
from admc.testbed.client import Request
from admc.testbed.findings import Bed, ProbeFinding, described, judged, reach, unobservable
from admc.testbed.probes.arguments import duration, integer, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.program import Call, Policy

MOST_REQUESTS = 1500
"""A bucket larger than this is not emptied."""
MOST_AT_ONCE = 50
SLOWER = (1, 4)
"""Seconds that the service takes to answer each of the requests at once, in the first and in the second attempt. A busy
machine may need longer than the first to send them all."""
LONGEST_REFILL = 2.0
"""The most seconds to wait until a bucket is full again."""
MOST_BYTES = 8 << 20
REJECTION = {"tcp": "connection closed", "grpc": "RESOURCE_EXHAUSTED", "http": "429"}


def quota(bed: Bed, policy: Policy, requests: Sequence[tuple[Call, Request]]) -> ProbeFinding:
    """The ADM admits `burst` requests from all callers together, and rejects the next one.

    If the bucket refills faster than one request after another empties it, the probe sends many at once. If these do
    not empty it either, the policy is not observable: a finding would depend on the speed of the machine.
    """
    per_period = integer(policy, "connections" if policy.kind.name == "connection_rate_limit" else "requests")
    burst, period = integer(policy, "burst"), seconds(policy, "per")
    if burst > MOST_REQUESTS:
        return unobservable(f"its bucket of {burst} is too large to empty here")
    bed.refill(policy, requests[0][0].destination)
    started, answered, last = time.monotonic(), 0, ""
    while answered <= 2 * burst + 20:
        call, request = requests[answered % len(requests)]
        reply = bed.send(call, request)
        if not reply.ok:
            last = reply.label
            break
        answered += 1
    took = time.monotonic() - started
    earned = per_period * took / period + 1
    expected = REJECTION[requests[0][0].port.protocol.value]
    if not last and answered <= burst + earned:
        time.sleep(min(burst * period / per_period, LONGEST_REFILL))
        return _at_once(bed, requests[0], burst, per_period, period, expected) or unobservable(
            f"its bucket refills faster ({per_period} in {duration(period)}) than requests can be sent here "
            f"({answered} in {duration(took)})"
        )
    right = last == expected and burst <= answered <= burst + earned
    callers = f" from {len(requests)} callers in turn" if len(requests) > 1 else ""
    return judged(
        right,
        f"{described(*requests[0])}, {answered + 1} times{callers}",
        f"{burst} answered ({per_period} more in {duration(period)}), then {expected}",
        f"{answered} answered, then {last or 'no rejection'}",
    )


def _at_once(
    bed: Bed, sent: tuple[Call, Request], burst: int, per_period: int, period: float, expected: str
) -> ProbeFinding | None:
    """Send many requests at once. None if all are answered, and a correct bucket could have admitted all of them."""
    call, request = sent
    number = min(2 * burst + 20, MOST_AT_ONCE)
    started = time.monotonic()
    replies = bed.concurrently(call, [request] * number)
    earned = per_period * (time.monotonic() - started) / period + 1
    answered = sum(reply.ok for reply in replies)
    labels = {reply.label for reply in replies if not reply.ok}
    if not labels and answered <= burst + earned:
        return None
    return judged(
        labels == {expected} and min(burst, number) <= answered <= burst + earned,
        f"{described(call, request)}, {number} at once",
        f"{burst} answered ({per_period} more in {duration(period)}), and {expected}",
        f"{answered} answered, and {', '.join(sorted(labels)) or 'no rejection'}",
    )


def breaker(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """`circuit_breaking`: of more requests at once than it admits, some are rejected."""
    most = policy.arguments["max_requests"]
    if not isinstance(most, int) or most > MOST_AT_ONCE:
        return unobservable("only a small `max_requests` can be reached here")
    for seconds_each in SLOWER:
        slow = request.with_headers((echo.DELAY, str(seconds_each)))
        replies = bed.concurrently(call, [slow] * (most + 5))
        through = sum(reply.ok for reply in replies)
        if through <= most:
            break  # otherwise some may have been answered before the last were sent
    labels = sorted({reply.label for reply in replies if not reply.ok})
    right = 1 <= through <= most and set(labels) <= {"503", "UNAVAILABLE"} and len(labels) == 1
    return judged(
        right,
        f"{described(call, request)}, {len(replies)} at once",
        f"at most {most} answered",
        f"{through} answered, the others {', '.join(labels) or '-'}",
    )


def buffer(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    most = integer(policy, "max")
    if most > MOST_BYTES:
        return unobservable("its limit is too large to exceed here")
    small = reach(bed, call, Request("POST", request.path, request.headers, b"x" * min(most, 1000)))
    large = reach(bed, call, Request("POST", request.path, request.headers, b"x" * (most + 1000)))
    return judged(
        small.ok and large.label == "413",
        f"POST {request.path} with {min(most, 1000)} and {most + 1000} bytes",
        "the first is answered, the second 413",
        f"{small.label}, and {large.label}",
    )
