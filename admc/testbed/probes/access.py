"""Kinds that decide which callers are admitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed.findings import Bed, Finding, denies, described, judged, rejected
from admc.testbed.matching import holds, missing, policies_on

if TYPE_CHECKING:
    from admc.testbed.client import Request
    from dsl.program import Call, Policy


def guard(bed: Bed, policy: Policy, call: Call, request: Request) -> Finding:
    """`allow` and `deny`: a declared caller is admitted or rejected as the policy says."""
    reply = bed.send(call, request)
    sent = f"{described(call, request)} from `{call.source}`"
    if not denies(policy, call.source):
        return judged(reply.ok, sent, "admitted", reply.label)
    beside = missing(bed.program, call, policy)
    if not rejected(reply) or beside is None or _denied(bed, call, beside):
        return judged(rejected(reply), sent, "rejected", reply.label)
    other = bed.send(call, beside)
    return judged(
        other.ok,
        f"{sent}, and {described(call, beside)}",
        "the first is rejected, the second admitted",
        f"{reply.label}, and {other.label}",
    )


def _denied(bed: Bed, call: Call, request: Request) -> bool:
    return any(denies(each, call.source) and holds(each.match, request) for each in policies_on(bed.program, call))


def token(bed: Bed, policy: Policy, call: Call, request: Request) -> Finding:
    """`jwt`: a request without a token is rejected."""
    reply = bed.send(call, request)
    right = reply.label in ("401", "UNAUTHENTICATED")
    return judged(right, f"{described(call, request)} without a token", "rejected", reply.label)
