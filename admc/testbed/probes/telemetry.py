"""Kinds that log or count requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed.facts import is_split
from admc.testbed.findings import TRIES, Bed, ProbeFinding, described, judged

if TYPE_CHECKING:
    from collections.abc import Callable

    from admc.testbed.client import Request
    from dsl.program import Call, Policy

COUNTED = 3
SETTLED = 0.25
"""Seconds to wait for what should not come: a second line, a further count, or one of an earlier request."""


def log(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    """A request adds exactly one line. If a split routes some requests to other services, each adds at most one."""
    before = _at_rest(bed, lambda: bed.logged(policy, call))
    sent, tried = 0, TRIES if is_split(bed.program, call) else 1
    while sent < tried:
        reply = bed.send(call, request)
        sent += 1
        if reply.seen is None or reply.seen.service == call.destination:
            break
    bed.wait(lambda: bed.logged(policy, call) > before)
    bed.wait(lambda: bed.logged(policy, call) - before > sent, SETTLED)
    more = bed.logged(policy, call) - before
    lines = "line" if more == 1 else "lines"
    requests = described(call, request) + (f", {sent} times" if sent > 1 else "")
    return judged(1 <= more <= sent, requests, "a line in the log", f"{more} {lines} in the log")


def count(bed: Bed, policy: Policy, call: Call, request: Request) -> ProbeFinding:
    before = _at_rest(bed, lambda: bed.counted(policy, call))
    for _ in range(COUNTED):
        bed.send(call, request)
    bed.wait(lambda: bed.counted(policy, call) - before >= COUNTED)
    bed.wait(lambda: bed.counted(policy, call) - before > COUNTED, SETTLED)
    more = bed.counted(policy, call) - before
    return judged(
        more == COUNTED, f"{described(call, request)}, {COUNTED} times", f"{COUNTED} counted", f"{more} counted"
    )


def _at_rest(bed: Bed, number: Callable[[], int]) -> int:
    """Return a number of lines or counts that has stopped to grow: a busy proxy logs an earlier request late."""
    known = number()
    while True:
        before = known
        bed.wait(lambda before=before: number() > before, SETTLED)  # type: ignore[misc]
        known = number()
        if known == before:
            return known
