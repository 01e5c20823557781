"""Lost: a port newly leads where another one led, and a policy of that one does not apply to it.

A service port is only a way to a port of the process. A policy on one way holds for nothing that comes by another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from admc.diff.model import CallName, Word
from admc.diff.protection.comparison import Comparison, Pair
from admc.diff.protection.index import UNDECLARED, Endpoint
from admc.diff.protection.note import Note

_Ways = Mapping[Endpoint, list[int]]
"""A port of BASE -> ports of HEAD that newly lead to the same port of the process."""


def other_ways(comparison: Comparison) -> Iterator[Note]:
    ways = _new_ways(comparison)
    if not ways:
        return
    for pair in comparison.pairs:
        if pair.base is None:
            continue
        for call in _met(comparison, pair.base):
            for port in ways.get((call.destination, call.port), ()):
                way = call._replace(port=port)
                if not _meets(comparison, pair, way):
                    text = f"port {port} now leads where port {call.port} led, and `{pair.name}` does not apply to it"
                    yield comparison.note(Word.LOST, pair, (way,), text)


def _new_ways(comparison: Comparison) -> _Ways:
    found: dict[Endpoint, list[int]] = {}
    for name, before in comparison.base.services.items():
        after = comparison.head.services.get(name)
        if after is None or before.ports == after.ports:
            continue
        targets = {row.number: row.target for row in before.ports}
        new = [row for row in after.ports if targets.get(row.number) != row.target]
        for number, target in targets.items():
            ports = [row.number for row in new if row.target == target]
            if ports:
                found[name, number] = ports
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
