"""Lost: a port newly leads where another one led, and a policy of that one does not apply to it.

A service port is only a way to a port of the process. A policy on one way holds for nothing that comes by another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from admc.diff.model import CallName, Word
from admc.diff.protection.comparison import Comparison, Pair
from admc.diff.protection.index import UNDECLARED, Endpoint
from admc.diff.protection.note import Note

_Ways = Mapping[Endpoint, list[Endpoint]]
"""A port of BASE -> ports of HEAD that newly lead to the same port of the same process."""


def other_ways(comparison: Comparison) -> Iterator[Note]:
    ways = _new_ways(comparison)
    if not ways:
        return
    for pair in comparison.pairs:
        if pair.base is None:
            continue
        for call in _met(comparison, pair.base):
            for way in ways.get((call.destination, call.port), ()):
                newly = CallName(call.source, *way)
                if not _meets(comparison, pair, newly):
                    yield comparison.note(Word.LOST, pair, (newly,), _text(pair, call, newly))


def _text(pair: Pair, call: CallName, newly: CallName) -> str:
    where = "" if newly.destination == call.destination else f" of `{call.destination}`"
    return f"port {newly.port} now leads where port {call.port}{where} led, and `{pair.name}` does not apply to it"


def _new_ways(comparison: Comparison) -> _Ways:
    found: dict[Endpoint, list[Endpoint]] = {}
    base, head = comparison.base, comparison.head
    for name, before in base.services.items():
        # A service with another name may have the same pods.
        after = head.services.get(base.heir(before, head) or name)
        if after is None or (after.name == name and after.ports == before.ports):
            continue
        known = {row.number: row.target for row in before.ports} if after.name == name else {}
        for old in before.ports:
            new = [row for row in after.ports if row.target == old.target and known.get(row.number) != row.target]
            if new:
                found[name, old.number] = [(after.name, row.number) for row in new]
    return found


def _met(comparison: Comparison, policy: str) -> Iterator[CallName]:
    base = comparison.base
    yield from base.met[policy]
    for endpoint in base.open(policy) | base.guarded(policy):
        yield CallName(UNDECLARED, *endpoint)


def _meets(comparison: Comparison, pair: Pair, call: CallName) -> bool:
    """Whether a call of HEAD meets the policy, or could not meet it: undeclared callers meet only guards and `*`."""
    head = comparison.head
    if call.source == UNDECLARED:
        endpoint = (call.destination, call.port)
        return pair.head is not None and endpoint in head.open(pair.head) | head.guarded(pair.head)
    return not (head.calls and call in head.calls) or head.applies(pair.head, call)
