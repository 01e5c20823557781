"""Requests that go on though their call is no longer declared: one of its ends is outside of the mesh.

A client there sends its requests whatever a program declares. A party there is called by every service, and only the
calls of declared senders are captured: so what a guard, or a policy for `*`, says of all callers is not enforced there
without the declaration.
"""

from __future__ import annotations

from dataclasses import replace

from admc.review.diff.model import CallName
from admc.review.diff.parties import share_a_place
from admc.review.diff.protection.index import PlanIndex


def goes_on(one: PlanIndex, policy: str, other: PlanIndex, partner: str | None, call: CallName) -> bool:
    """Whether a policy of `one` meant the requests of a call for which `other` lacks the declaration, and they go on
    there without its partner."""
    content = one.content(policy)
    if call.source in one.externals:
        if not other.has_port(call.destination, call.port) or other.refuses(call):
            return False
        ways = [replace(call, source=name) for name in _successors(one, other, call.source, unknown=True)]
    elif call.destination in one.externals and (content.open or content.guard):
        if call.source not in other.services:
            return False
        ends = (call.destination, *_successors(one, other, call.destination, unknown=False))
        ways = [CallName(call.source, name, call.port) for name in ends]
    else:
        return False
    return not any(other.applies(partner, way) for way in ways)


def reason(one: PlanIndex, call: CallName) -> str:
    """Why requests of a call go on. It continues a sentence about its policy."""
    if call.source in one.externals:
        return "the call is no longer declared, and clients outside of the mesh still send it"
    return "the call is no longer declared, and one to a party outside of the mesh is then not captured"


def _successors(one: PlanIndex, other: PlanIndex, external: str, *, unknown: bool) -> list[str]:
    """The externals that have addresses of one that is gone; none where it is still there. `unknown`: also those that
    stand for all clients with an unknown address."""
    row = one.externals[external]
    if external in other.externals:
        return []
    found = (
        name
        for name, each in other.externals.items()
        if share_a_place(row, each) or (unknown and name in other.unknown)
    )
    return sorted(found)
