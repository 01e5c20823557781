"""Kinds of the sender's routing: retries, timeouts, splits and mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed import echo
from admc.testbed.facts import copies, is_split, repeats
from admc.testbed.findings import (
    TIMED_OUT,
    Bed,
    ProbeFinding,
    described,
    identified,
    judged,
    too_rare,
    tries,
    unobservable,
)
from admc.testbed.matching import policies_on
from admc.testbed.probes.arguments import duration, integer, listed, percent, seconds, text
from dsl.selecting import holds

if TYPE_CHECKING:
    from admc.testbed.client import Reply, Request
    from dsl.program import Call, Policy

MOST_REQUESTS = 1500
"""The largest number of requests that a probe sends until a share of them shows an effect. A smaller share is reported
as not observable."""
MOST_COPIES = 300
"""The same for copies. It is smaller, because a copy may arrive after the answer, and the probe waits after each
request."""
SETTLED = 0.25
"""Seconds to wait for a further copy, which should not come."""
RETRIED = {
    "http": {"unavailable": (503, "503"), "gateway_error": (502, "502"), "server_error": (500, "500")},
    "grpc": {
        "unavailable": (14, "UNAVAILABLE"),
        "cancelled": (1, "CANCELLED"),
        "deadline_exceeded": (4, "DEADLINE_EXCEEDED"),
        "internal": (13, "INTERNAL"),
        "resource_exhausted": (8, "RESOURCE_EXHAUSTED"),
    },
}


def retry(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """A service that always fails receives `attempts` requests."""
    statuses = RETRIED[call.port.protocol.value]
    repeated = next((statuses[str(condition)] for condition in listed(policy, "on") if condition in statuses), None)
    if repeated is None:
        return unobservable("an echo service cannot fail in the way that it retries on")
    status, label = repeated
    attempts = integer(policy, "attempts")
    identity, failing = identified(request.with_headers((echo.STATUS, str(status))))
    reply = bed.send(call, failing)
    others = {text(p, "to") for p in policies_on(bed.program, call) if copies(p)}
    arrived = sum(arrival.service not in others for arrival in bed.record.of(identity))
    return judged(
        arrived == attempts,
        f"{described(call, request)}; the service answers {label}",
        f"{attempts} attempts",
        f"{arrived} attempts, then {reply.label}",
    )


def timeout(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """A slow service gets no more time than `after`. A timeout that is declared after a retry limits each attempt."""
    after = seconds(policy, "after")
    attempts = 1
    for other in policies_on(bed.program, call):
        if repeats(other) and holds(other.match, request):
            attempts = max(attempts, integer(other, "attempts"))
    delay = min(after * attempts * 2 + 1, echo.MAX_DELAY)
    if delay <= after:
        return unobservable(f"an echo service takes at most {echo.MAX_DELAY:.0f} s, which it allows")
    while True:
        identity, slow = identified(request.with_headers((echo.DELAY, str(delay))))
        reply = bed.send(call, slow, timeout=delay + 5)
        arrived = bed.record.of(identity)
        if not is_split(bed.program, call) or not arrived or arrived[0].service == call.destination:
            break  # otherwise a split routed it to the other service
    right = reply.label in TIMED_OUT and after * 0.9 <= reply.seconds < delay
    expected = "DEADLINE_EXCEEDED" if reply.grpc else "504"
    return judged(
        right,
        f"{described(call, request)}; the service takes {duration(delay)}",
        f"{expected} after {duration(after)}",
        f"{reply.label} after {duration(reply.seconds)}",
    )


def split(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """About the declared share of the requests reaches the other service."""
    to, part = text(policy, "to"), percent(policy)
    left = min(MOST_REQUESTS, bed.allowance(call, request))
    other = 100 - part if 0 < part < 100 else 100.0
    if (finding := too_rare(min(part, other), left)) is not None:
        return finding
    total = min(left, max(200, tries(min(part, other))))
    services = [reply.seen.service for reply in (bed.send(call, request) for _ in range(total)) if reply.seen]
    share = 100 * services.count(to) / total
    both = part >= 100 or 0 < share < 100  # the spread of a small share includes 0%, but some requests must show it
    spread = 500 * ((part / 100) * (1 - part / 100) / total) ** 0.5  # five standard deviations
    return judged(
        len(services) == total and both and abs(share - part) <= spread,
        f"{described(call, request)}, {total} times",
        f"about {part:g}% reach `{to}`",
        f"{share:g}% ({services.count(to)}) reached `{to}`",
    )


def mirror(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """The other service receives a copy, and the caller the answer to the original."""
    to, part = text(policy, "to"), percent(policy)
    replies: dict[str, Reply] = {}

    def copied() -> str:
        """Return the identity of a request of which a copy has arrived, also of an earlier one; empty if none has."""
        return next((name for name in replies if any(arrival.service == to for arrival in bed.record.of(name))), "")

    if (finding := too_rare(part, min(MOST_COPIES, bed.allowance(call, request)))) is not None:
        return finding
    for _ in range(tries(part)):
        identity, sent = identified(request)
        replies[identity] = bed.send(call, sent)
        bed.wait(copied, 0.05)
        if copied():
            break
    bed.wait(copied)
    name = copied()
    most = sum(copies(p) and text(p, "to") == to for p in policies_on(bed.program, call))

    def number() -> int:
        return sum(arrival.service == to for arrival in bed.record.of(name))

    bed.wait(lambda: number() > most, SETTLED)
    reply = replies[name or identity]
    by = reply.seen.service if reply.seen else reply.label
    return judged(
        1 <= number() <= most and reply.ok and by != to,
        described(call, request) if len(replies) == 1 else f"{described(call, request)}, {len(replies)} times",
        f"`{call.destination}` answers, `{to}` receives a copy",
        f"`{by}` answered, `{to}` received {('none', 'a copy')[number()] if number() < 2 else f'{number()} copies'}",
    )
