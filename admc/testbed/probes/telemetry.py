"""Kinds that log or count requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed.findings import Bed, Finding, described, judged

if TYPE_CHECKING:
    from admc.testbed.client import Request
    from dsl.program import Call, Policy

COUNTED = 3


def log(bed: Bed, policy: Policy, call: Call, request: Request) -> Finding:
    before = bed.logged(policy, call)
    bed.send(call, request)
    bed.wait(lambda: bed.logged(policy, call) > before)
    more = bed.logged(policy, call) - before
    lines = "line" if more == 1 else "lines"
    return judged(more >= 1, described(call, request), "a line in the log", f"{more} {lines} in the log")


def count(bed: Bed, policy: Policy, call: Call, request: Request) -> Finding:
    before = bed.counted(policy, call)
    for _ in range(COUNTED):
        bed.send(call, request)
    bed.wait(lambda: bed.counted(policy, call) - before >= COUNTED)
    more = bed.counted(policy, call) - before
    return judged(
        more == COUNTED, f"{described(call, request)}, {COUNTED} times", f"{COUNTED} counted", f"{more} counted"
    )
