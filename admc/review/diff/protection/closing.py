"""Finds callers that NetworkPolicies newly admit (loosened) or newly refuse (tightened).

At the ports that it closes, the NetworkPolicy of a destination refuses every caller that is not declared. So a port
that is no longer closed admits undeclared callers, unless a guard refuses them. A new call to a closed port admits its
sender.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from admc.review.diff.model import CallName, Word
from admc.review.diff.protection.comparison import NO_POLICY, Comparison
from admc.review.diff.protection.guards import admitted
from admc.review.diff.protection.index import UNDECLARED
from admc.review.diff.protection.note import Note

if TYPE_CHECKING:
    from admc.compile.plan.model import PortRow


def no_longer_closed(comparison: Comparison) -> Iterator[Note]:
    """Undeclared callers that a NetworkPolicy refuses in BASE, and that HEAD admits."""
    base, head = comparison.base, comparison.head
    for destination in sorted(base.closed_targets):
        why = "closes fewer ports" if destination in head.closed_targets else "is gone"
        text = f"undeclared callers are let through: the NetworkPolicy that refused them {why}"
        calls = [call for call in _undeclared(comparison, destination) if not head.refuses(call)]
        if calls:
            yield comparison.note(Word.LOOSENED, NO_POLICY, calls, text)


def newly_closed(comparison: Comparison) -> Iterator[Note]:
    """Undeclared callers that BASE admits, and that a NetworkPolicy refuses in HEAD."""
    base, head = comparison.base, comparison.head
    for destination in sorted(head.closed_targets):
        text = "undeclared callers are refused by a new NetworkPolicy"
        if destination in base.closed_targets:
            text = "undeclared callers are refused: the NetworkPolicy closes more ports"
        calls = [
            CallName(UNDECLARED, destination, row.number)
            for row in _ports(comparison, destination)
            if (destination, row.number) in head.closed_at
            and base.has_port(destination, row.number)
            and not base.refuses(CallName(UNDECLARED, destination, row.number))
        ]
        if calls:
            yield comparison.note(Word.TIGHTENED, NO_POLICY, calls, text)


def newly_admitted(comparison: Comparison) -> Iterator[Note]:
    """Callers that a NetworkPolicy of BASE refuses, and that HEAD admits: HEAD declares the call, or a guard in the
    network admits its caller."""
    base, head = comparison.base, comparison.head
    ports = {(name, row.number): row for name in base.closed_targets for row in head.ports_of(name)}
    explained = {call for note in admitted(comparison) if note.word is Word.LOOSENED for call in note.calls}
    named = {CallName(party, *endpoint) for endpoint, parties in head.admitted_at.items() for party in parties}
    calls = [
        call
        for call in sorted(head.calls | named)
        if (row := ports.get((call.destination, call.port))) is not None
        and base.closes(call.destination, row)
        and call not in base.calls
        and not base.admits_at(call.source, call.destination, row)
        and call not in explained
        and not head.refuses(call)
    ]
    if calls:
        text = "newly admitted: in BASE a NetworkPolicy refuses undeclared callers"
        lines = {CallName(row.source, row.destination, row.port): row.line for row in head.plan.calls}
        line = next((lines[call] for call in calls if call in lines), None)
        yield comparison.note(Word.LOOSENED, NO_POLICY, calls, text)._replace(lines=(None, line))


def _undeclared(comparison: Comparison, destination: str) -> Iterator[CallName]:
    """Undeclared callers that a NetworkPolicy of BASE refuses: `*`, and names that HEAD may admit although it refuses
    `*`.

    These are the names that a guard of HEAD admits, or that the scope of a policy leaves out.
    """
    base, head = comparison.base, comparison.head
    for row in _ports(comparison, destination):
        port = row.number
        if not base.closes(destination, row) or (destination, port) in head.closed_at:
            continue
        unknown = CallName(UNDECLARED, destination, port)
        yield unknown
        for name in head.meets(unknown):
            if not head.refuses(unknown):
                continue
            for caller in sorted({*(head.admits(name) or ()), *head.content(name).excluded}):
                call = CallName(caller, destination, port)
                if call not in base.calls and call not in head.calls:
                    yield call


def _ports(comparison: Comparison, destination: str) -> list[PortRow]:
    """The ports of a destination in HEAD."""
    return sorted(comparison.head.ports_of(destination), key=lambda row: row.number)
