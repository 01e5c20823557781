"""What a probe found out, and what it needs to find it out."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from admc.testbed import echo
from admc.testbed.matching import meeting, policies_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.testbed.client import Reply, Request
    from admc.testbed.echo import Record
    from dsl.program import Call, Policy, Program

TRIES = 80
"""Requests after which a share that should have come by now has not."""


class Outcome(StrEnum):
    SEEN = "enforced"
    """The policy did what it says, on a real request."""
    WRONG = "NOT ENFORCED"
    """What came of a request is not what the program says."""
    HIDDEN = "hidden"
    """A policy outside this one lets no request through to it."""
    UNSEEN = "not observable"
    """Nothing that it does shows on this bed; the reason is in the evidence."""


class Finding(NamedTuple):
    outcome: Outcome
    evidence: str


class Bed(Protocol):
    """What probes need of a running application."""

    program: Program

    @property
    def record(self) -> Record: ...

    def send(
        self,
        call: Call,
        request: Request,
        *,
        source: str | None = None,
        timeout: float = 10.0,
        protocol: str | None = None,
    ) -> Reply:
        """Send on a declared call, as its source or as another service; `h2c` is the other protocol of http calls."""
        ...

    def prepare(self, call: Call, request: Request) -> None:
        """See to it that the quotas in the way of some dozen such requests are not empty."""
        ...

    def allowance(self, call: Call, request: Request) -> int:
        """Requests that the quotas in the way still let through, as far as is known."""
        ...

    def concurrently(self, call: Call, requests: Sequence[Request]) -> list[Reply]:
        """Send all at once."""
        ...

    def refill(self, policy: Policy, destination: str) -> None:
        """Start the Envoys that enforce a policy at a destination anew, so that its bucket is full."""
        ...

    def logged(self, policy: Policy, call: Call) -> int:
        """Lines that an access log has written so far."""
        ...

    def counted(self, policy: Policy, call: Call) -> int:
        """Requests that a request count has counted so far."""
        ...


def seen(evidence: str) -> Finding:
    return Finding(Outcome.SEEN, evidence)


def wrong(evidence: str) -> Finding:
    return Finding(Outcome.WRONG, evidence)


def unseen(evidence: str) -> Finding:
    return Finding(Outcome.UNSEEN, evidence)


def judged(right: bool, evidence: str) -> Finding:
    return seen(evidence) if right else wrong(evidence)


_identities = itertools.count(1)


def identified(request: Request) -> tuple[str, Request]:
    """A request with an identity that no other has."""
    identity = f"probe-{next(_identities)}"
    return identity, request.with_headers((echo.ID, identity))


def denies(policy: Policy, source: str) -> bool:
    """Whether a guard lets nothing from this source through."""
    if policy.kind.name == "deny":
        return True
    callers = policy.arguments.get("callers")
    if policy.kind.name == "allow" and isinstance(callers, tuple):
        return source not in callers
    return policy.kind.name == "jwt"


def refused(reply: Reply) -> bool:
    """Whether a guard's answer came back, in the caller's protocol."""
    return reply.label in ("401", "403", "PERMISSION_DENIED", "UNAUTHENTICATED", "connection closed")


def is_split(program: Program, call: Call) -> bool:
    return any(policy.kind.name == "split" for policy in policies_on(program, call))


def reach(bed: Bed, call: Call, request: Request) -> Reply:
    """Send until the call's own destination answers: a split may give a share to another one."""
    reply = bed.send(call, request)
    for _ in range(TRIES if is_split(bed.program, call) else 0):
        if reply.seen is None or reply.seen.service == call.destination:
            break
        reply = bed.send(call, request)
    return reply


def hidden_by(program: Program, call: Call, policy: Policy, request: Request) -> Policy | None:
    """The guard that keeps this request from reaching `policy`, if any; `request` meets as few others as possible."""
    from admc.testbed.matching import holds

    for other in policies_on(program, call):
        if other is not policy and holds(other.match, request) and denies(other, call.source):
            return other
    return None


def asked_for(program: Program, call: Call, policy: Policy) -> Request | Finding:
    """The request to probe a policy with, or why there is none."""
    request = meeting(program, call, policy)
    if request is None:
        return unseen("no request was found that its match selects")
    guard = hidden_by(program, call, policy, request)
    if guard is not None:
        return Finding(Outcome.HIDDEN, f"`{guard.name}` refuses every request of this call before it")
    return request
