"""Kinds that decide which callers are admitted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from admc.testbed.facts import denies
from admc.testbed.findings import Bed, ProbeFinding, described, judged, rejected, reply_label
from admc.testbed.matching import missing, policies_on
from dsl.program import callee
from dsl.selecting import holds

if TYPE_CHECKING:
    from admc.testbed.client import Request
    from dsl.program import Call, Policy


def guard(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """`allow` and `deny`: a declared caller is admitted or rejected as the policy declares."""
    reply = bed.send(call, request)
    sent = f"{described(call, request)} from `{call.source}`"
    if not denies(policy, call.source):
        return judged(reply.ok, sent, "admitted", reply_label(call, reply))
    beside = missing(bed.program, call, policy)
    if not rejected(call, reply) or beside is None or _denied(bed, call, beside):
        return judged(rejected(call, reply), sent, "rejected", reply_label(call, reply))
    other = bed.send(call, beside)
    return judged(
        other.ok,
        f"{sent}, and {described(call, beside)}",
        "the first is rejected, the second admitted",
        f"{reply.label}, and {other.label}",
    )


def _denied(bed: Bed, call: Call, request: Request) -> bool:
    return any(denies(other, call.source) and holds(other.match, request) for other in policies_on(bed.program, call))


def normal_path(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """`normal_paths`: the ADM admits a path in its normal form, and rejects another spelling of it."""
    usual = bed.send(call, request)
    other = replace(request, path=f"/.{request.path}")
    reply = bed.send(call, other)
    return judged(
        usual.ok and reply.status == 400,
        f"{described(call, request)}, and {described(call, other)}",
        "the first is admitted, the second rejected with 400",
        f"{usual.label}, and {reply.label}",
    )


def token(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """`jwt`: a request without a token is rejected."""
    reply = bed.send(call, request)
    right = reply.label in ("401", "UNAUTHENTICATED")
    return judged(right, f"{described(call, request)} without a token", "rejected", reply.label)


def authorization(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """`external_authorization`: the ADM calls the authorization service before it forwards the request. The service
    admits all requests here."""
    service, _ = callee(policy.arguments["service"])

    def checks() -> int:
        return sum(
            (arrival.service, arrival.path) == (service, policy.kind.traits.grpc_method) for arrival in bed.record.all()
        )

    before = checks()
    reply = bed.send(call, request)
    more = checks() - before
    return judged(
        more == 1 and reply.ok,
        described(call, request),
        f"a check at `{service}`, then admitted",
        f"{more} {'check' if more == 1 else 'checks'}, then {reply.label}",
    )
