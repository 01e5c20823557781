"""The result of one probe, and what a probe needs of the running application."""

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
"""Requests after which an answer of the destination itself, beside a split, is missing."""
TIMED_OUT = frozenset({"504", "DEADLINE_EXCEEDED", "UNAVAILABLE"})
"""Labels of answers where a timeout was over."""
STRANGER = "(no service)"
"""The source of a request from an address that no service and no outside party has."""
DOUBT = 1e-6
"""How improbable it has to be that a share of the requests shows in none of them by chance."""


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
    """The request, the declared result and the observed one. If no request was sent, the reason for that."""

    outcome: ProbeOutcome
    observed: str
    request: str = ""
    expected: str = ""


class TimeUpError(Exception):
    """The time that the whole trial may take is over."""


class ExhaustedError(Exception):
    """This machine has no port or file descriptor left for a connection."""


class Bed(Protocol):
    """What probes need of a running application. All that send raise `TimeUpError` and `ExhaustedError`."""

    program: Program

    @property
    def record(self) -> Record: ...

    @property
    def timeouts(self) -> int:
        """Answers so far by which an ADM, or a service behind it, said that the time was over."""
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
        """Send on a declared call, as its source, as another service or as `STRANGER`. `h2c` is the other protocol of
        http calls."""
        ...

    def concurrently(self, call: Call, requests: Sequence[Request]) -> list[Reply]:
        """Send all at once."""
        ...

    def wait(self, is_over: Callable[[], object], seconds: float | None = None) -> None:
        """Wait until `is_over` returns something true, or the time is over: as long as a busy machine needs to log a
        line, to count or to copy a request, if `seconds` does not say otherwise."""
        ...

    def prepare(self, call: Call, request: Request) -> None:
        """Make sure that the quotas on the way of some dozen such requests are not empty."""
        ...

    def allowance(self, call: Call, request: Request) -> int:
        """Requests that the quotas on the way still admit, by the requests that were sent."""
        ...

    def refill(self, policy: Policy, destination: str) -> None:
        """Restart the Envoys that enforce a policy at a destination, so that its bucket is full."""
        ...

    def logged(self, policy: Policy, call: Call) -> int:
        """Lines that an access log has by now."""
        ...

    def counted(self, policy: Policy, call: Call) -> int:
        """Requests that a request count has by now."""
        ...

    def check(self, *, closely: bool = False) -> None:
        """Raise `EnvoyError` if an Envoy has ended; `closely`: or is about to end."""
        ...


def judged(right: bool, request: str, expected: str, observed: str) -> ProbeFinding:
    """The finding of a request that was sent."""
    return ProbeFinding(ProbeOutcome.ENFORCED if right else ProbeOutcome.NOT_ENFORCED, observed, request, expected)


def unobservable(reason: str) -> ProbeFinding:
    return ProbeFinding(ProbeOutcome.NOT_OBSERVABLE, reason)


def tries(percent: float) -> int:
    """Requests of which at least one shows a share of `percent`: none does by chance with the probability `DOUBT`."""
    return 1 if percent >= 100 else math.ceil(math.log(DOUBT) / math.log1p(-percent / 100))


def too_rare(percent: float, most: int) -> ProbeFinding | None:
    """The finding where `most` requests are too few for a share to show for certain."""
    if percent > 0 and tries(percent) <= most:
        return None
    return unobservable(f"{percent:g}% may show in none of the {most} requests that can be sent here")


_identities = itertools.count(1)


def identified(request: Request) -> tuple[str, Request]:
    """A request with an identity that no other has."""
    identity = f"probe-{next(_identities)}"
    return identity, request.with_headers((echo.ID, identity))


def described(call: Call, request: Request) -> str:
    """A request in a few words, without the headers that are for the echo service."""
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
    """Whether this is the answer of a guard, in the caller's protocol, and not of the service."""
    return reply.label in REJECTIONS[call.port.protocol.value] and reply.seen is None


def result(call: Call, reply: Reply) -> str:
    """A reply in a word: a connection has no status."""
    return "connected" if reply.ok and call.port.protocol.value == "tcp" else reply.label


def reach(bed: Bed, call: Call, request: Request) -> Reply:
    """Send until the call's own destination answers: a split may send a share to another service."""
    reply = bed.send(call, request)
    for _ in range(TRIES if is_split(bed.program, call) else 0):
        if reply.seen is None or reply.seen.service == call.destination:
            break
        reply = bed.send(call, request)
    return reply


def hidden_by(program: Program, call: Call, policy: Policy, request: Request) -> Policy | None:
    """The guard that keeps this request from reaching `policy`, if any; `request` meets as few others as possible."""
    for other in policies_on(program, call):
        if other is not policy and holds(other.match, request) and denies(other, call.source):
            return other
    return None


def request_for(program: Program, call: Call, policy: Policy) -> Request | ProbeFinding:
    """The request to probe a policy with, or why there is none."""
    request = meeting(program, call, policy)
    if request is None:
        return unobservable("no request was found that its match selects")
    guard = hidden_by(program, call, policy, request)
    if guard is not None:
        return ProbeFinding(ProbeOutcome.HIDDEN, f"`{guard.name}` rejects every request of this call before it")
    return request
