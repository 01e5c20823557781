"""The finding of one probe, and the interface of the running application (`Bed`) that probes use."""

from __future__ import annotations

import itertools
import math
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from admc.testbed import echo
from admc.testbed.facts import denies, is_split
from admc.testbed.matching import GRPC_PATH, meeting, policies_on
from dsl.selecting import holds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from admc.testbed.client import Reply, Request
    from admc.testbed.echo import Record
    from dsl.program import Call, Policy, Program

TRIES = 80
"""Requests on a split call after which its own destination should have answered one."""
TIMED_OUT = frozenset({"504", "DEADLINE_EXCEEDED", "UNAVAILABLE"})
"""Labels of the answers that a timeout causes."""
STRANGER = "(no service)"
"""The source of a request from an address that no service and no outside party has."""
DOUBT = 1e-6
"""The largest accepted probability that an effect on a share of the requests shows in none of them by chance."""


class ProbeOutcome(StrEnum):
    ENFORCED = "enforced"
    """The policy had its declared effect on a real request."""
    NOT_ENFORCED = "NOT ENFORCED"
    """The request had a result other than the declared one."""
    HIDDEN = "hidden"
    """Another policy, in front of this one, lets no request through to it."""
    NOT_OBSERVABLE = "not observable"
    """The policy has no effect that this testbed can show; the finding has the reason."""
    NOT_TRIED = "not tried"
    """The trial's time was over before the policy was tried."""

    @property
    def is_good(self) -> bool:
        """False where the trial failed."""
        return self not in (ProbeOutcome.NOT_ENFORCED, ProbeOutcome.NOT_TRIED)


class ProbeFinding(NamedTuple):
    """The request, the declared result and the observed one. If no request was sent, `observed` is the reason."""

    outcome: ProbeOutcome
    observed: str
    request: str = ""
    expected: str = ""


class TimeUpError(Exception):
    """The time that the whole trial may take is over."""


class ExhaustedError(Exception):
    """This machine has no port or file descriptor left for a connection."""


class Bed(Protocol):
    """A running application, as probes use it. Methods that send or wait may raise `TimeUpError`, and those that send
    `ExhaustedError`."""

    program: Program

    @property
    def record(self) -> Record: ...

    @property
    def timeouts(self) -> int:
        """The number of answers so far that a timeout caused, in an ADM or behind it."""
        ...

    def send(
        self,
        call: Call,
        request: Request,
        *,
        source: str | None = None,
        timeout: float = 10.0,
        protocol: str | None = None,
    ) -> Reply:
        """Send on a declared call: as its source, or as `source`, which is another service or `STRANGER`. `protocol`
        replaces the call's own, for example `h2c` on an http call."""
        ...

    def concurrently(self, call: Call, requests: Sequence[Request]) -> list[Reply]:
        """Send all requests at once."""
        ...

    def wait(self, is_over: Callable[[], object], seconds: float | None = None) -> None:
        """Wait until `is_over` returns something true, or `seconds` have passed. By default that is the time in which a
        busy machine logs, counts or copies a request."""
        ...

    def prepare(self, call: Call, request: Request) -> None:
        """Refill each quota on the way of such a request that may not admit a dozen more."""
        ...

    def allowance(self, call: Call, request: Request) -> int:
        """Return how many such requests the quotas on the way still admit, after the requests sent so far."""
        ...

    def refill(self, policy: Policy, destination: str) -> None:
        """Restart the Envoys that enforce a policy at a destination, so that its bucket is full."""
        ...

    def logged(self, policy: Policy, call: Call) -> int:
        """Return the number of lines in an access log by now."""
        ...

    def counted(self, policy: Policy, call: Call) -> int:
        """Return the number of requests in a request count by now."""
        ...

    def check(self, *, closely: bool = False) -> None:
        """Raise `EnvoyError` if an Envoy has ended; with `closely`, also if it is about to end."""
        ...


def judged(right: bool, request: str, expected: str, observed: str) -> ProbeFinding:
    """Return the finding about a request that was sent. `right`: whether the observed result is the declared one."""
    return ProbeFinding(ProbeOutcome.ENFORCED if right else ProbeOutcome.NOT_ENFORCED, observed, request, expected)


def unobservable(reason: str) -> ProbeFinding:
    return ProbeFinding(ProbeOutcome.NOT_OBSERVABLE, reason)


def tries(percent: float) -> int:
    """Return how many requests to send: an effect on `percent` of them shows in none with a probability of `DOUBT`."""
    return 1 if percent >= 100 else math.ceil(math.log(DOUBT) / math.log1p(-percent / 100))


def too_rare(percent: float, most: int) -> ProbeFinding | None:
    """Return a finding if `most` requests are too few to show an effect on `percent` of them; None if they suffice."""
    if percent > 0 and tries(percent) <= most:
        return None
    return unobservable(f"{percent:g}% may show in none of the {most} requests that can be sent here")


_identities = itertools.count(1)


def identified(request: Request) -> tuple[str, Request]:
    """Return an identity that no other request has, and the request with this identity."""
    identity = f"probe-{next(_identities)}"
    return identity, request.with_headers((echo.ID, identity))


def described(call: Call, request: Request) -> str:
    """Describe a request in a few words, without the headers for the echo service."""
    if call.port.protocol.value == "tcp":
        return "a connection"
    start = f"{request.method} {request.path}"
    if call.port.protocol.value == "grpc":
        start = "a call" if request.path == GRPC_PATH else f"call {request.path}"
    headers = [f"{name}: {value}" for name, value in request.headers if not name.startswith("x-echo-")]
    return ", ".join([start, *headers])


REJECTIONS = {
    "tcp": ("connection closed",),
    "grpc": ("PERMISSION_DENIED", "UNAUTHENTICATED"),
    "http": ("401", "403"),
}


def rejected(call: Call, reply: Reply) -> bool:
    """Whether a reply is the rejection of a guard in the call's protocol, and not an answer of the service."""
    return reply.label in REJECTIONS[call.port.protocol.value] and reply.seen is None


def reply_label(call: Call, reply: Reply) -> str:
    """Return the label of a reply. It is `connected` for a TCP connection, which has no status."""
    return "connected" if reply.ok and call.port.protocol.value == "tcp" else reply.label


def reach(bed: Bed, call: Call, request: Request) -> Reply:
    """Send until the call's own destination answers, since a split may route requests to another service."""
    reply = bed.send(call, request)
    for _ in range(TRIES if is_split(bed.program, call) else 0):
        if reply.seen is None or reply.seen.service == call.destination:
            break
        reply = bed.send(call, request)
    return reply


def hidden_by(program: Program, call: Call, policy: Policy, request: Request) -> Policy | None:
    """Return the guard that rejects this request before it reaches `policy`, if any."""
    for other in policies_on(program, call):
        if other is not policy and holds(other.match, request) and denies(other, call.source):
            return other
    return None


def request_for(program: Program, call: Call, policy: Policy) -> Request | ProbeFinding:
    """Return a request to probe a policy with, or the finding that gives the reason why there is none."""
    request = meeting(program, call, policy)
    if request is None:
        return unobservable("no request was found that its match selects")
    guard = hidden_by(program, call, policy, request)
    if guard is not None:
        return ProbeFinding(ProbeOutcome.HIDDEN, f"`{guard.name}` rejects every request of this call before it")
    return request
