"""Finds callers that NetworkPolicies newly admit (loosened) or newly refuse (tightened).

The NetworkPolicy of a closed destination refuses every caller that is not declared. So a destination that is no longer
closed admits undeclared callers, unless a guard refuses them. A new call to a closed destination admits its sender.
"""

from __future__ import annotations

from collections.abc import Iterator

from admc.review.diff.model import CallName, Word
from admc.review.diff.protection.comparison import NO_POLICY, Comparison
from admc.review.diff.protection.guards import admitted
from admc.review.diff.protection.index import UNDECLARED
from admc.review.diff.protection.note import Note


def no_longer_closed(comparison: Comparison) -> Iterator[Note]:
    """Undeclared callers that a NetworkPolicy refuses in BASE, and that HEAD admits."""
    head = comparison.head
    for destination in sorted(comparison.base.closed.keys() - head.closed.keys()):
        text = "undeclared callers are let through: the NetworkPolicy that refused them is gone"
        calls = [call for call in _undeclared(comparison, destination) if not head.refuses(call)]
        if calls:
            yield comparison.note(Word.LOOSENED, NO_POLICY, calls, text)


def newly_closed(comparison: Comparison) -> Iterator[Note]:
    """Undeclared callers that BASE admits, and that a NetworkPolicy refuses in HEAD."""
    base = comparison.base
    for destination in sorted(comparison.head.closed.keys() - base.closed.keys()):
        text = "undeclared callers are refused by a new NetworkPolicy"
        calls = [
            CallName(UNDECLARED, destination, port)
            for port in _ports(comparison, destination)
            if base.has_port(destination, port) and not base.refuses(CallName(UNDECLARED, destination, port))
        ]
        if calls:
            yield comparison.note(Word.TIGHTENED, NO_POLICY, calls, text)


def newly_declared(comparison: Comparison) -> Iterator[Note]:
    """Senders that a NetworkPolicy of BASE refuses as undeclared, and that HEAD admits, since it declares the call."""
    base, head = comparison.base, comparison.head
    explained = {call for note in admitted(comparison) if note.word is Word.LOOSENED for call in note.calls}
    calls = [
        call
        for call in sorted(head.calls)
        if call.destination in base.closed
        and call not in base.calls
        and call not in explained
        and not head.refuses(call)
    ]
    if calls:
        text = "newly admitted: in BASE a NetworkPolicy refuses undeclared callers"
        line = next(row.line for row in head.plan.calls if CallName(row.source, row.destination, row.port) == calls[0])
        yield comparison.note(Word.LOOSENED, NO_POLICY, calls, text)._replace(lines=(None, line))


def _undeclared(comparison: Comparison, destination: str) -> Iterator[CallName]:
    """Undeclared callers that BASE refuses: `*`, and names that HEAD may admit although it refuses `*`.

    These are the names that a guard of HEAD admits, or that the scope of a policy leaves out.
    """
    base, head = comparison.base, comparison.head
    for port in _ports(comparison, destination):
        unknown = CallName(UNDECLARED, destination, port)
        yield unknown
        for name in head.meets(unknown):
            if not head.refuses(unknown):
                continue
            for caller in sorted({*(head.admits(name) or ()), *head.content(name).excluded}):
                call = CallName(caller, destination, port)
                if call not in base.calls and call not in head.calls:
                    yield call


def _ports(comparison: Comparison, destination: str) -> list[int]:
    """The ports of a destination in HEAD."""
    return sorted(row.number for row in comparison.head.ports_of(destination))
