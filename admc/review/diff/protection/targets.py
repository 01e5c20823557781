"""Finds ports that newly lead to the same place as another port, and so around the policies on that other port.

A port of a service is only a way to a port of a process, and several services may select the same pod. A port of an
external is a way to its hosts. A policy on one way does not hold for requests that take another way.

    on the new way                                      finding
    the policy does not apply                           lost
    the policy applies, and limits each way by itself   loosened
    other policies may weaken the policy                unclear
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from admc.compile.plan.model import PortRow
from admc.review.diff.model import CallName, Word
from admc.review.diff.parties import is_nowhere, share_a_place
from admc.review.diff.protection import effects
from admc.review.diff.protection.comparison import Comparison, Pair
from admc.review.diff.protection.index import UNDECLARED, Endpoint
from admc.review.diff.protection.interference import met, why_weaker, writes_alone
from admc.review.diff.protection.note import Note
from dsl.program import Verb

_Ways = Mapping[Endpoint, list[Endpoint]]
"""A port of BASE -> ports of HEAD that newly lead to the same port of the same process."""


def other_ways(comparison: Comparison) -> Iterator[Note]:
    ways = {**_new_ways(comparison), **_new_ways_outside(comparison)}
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
                    continue
                if newly.destination != call.destination and _limits(comparison, pair):
                    yield comparison.note(Word.LOOSENED, pair, (newly,), _twice(pair, call, newly))
                for why in _beside(comparison, pair, call, newly):
                    yield comparison.note(Word.UNCLEAR, pair, (newly,), why)


def _beside(comparison: Comparison, pair: Pair, call: CallName, newly: CallName) -> Iterator[str]:
    """How policies that the call meets only on the new way may weaken this policy."""
    here, before = met(comparison.head, newly), met(comparison.base, call)
    if pair.head is None or pair.head not in here:
        return
    for name in here:
        if name != pair.head and comparison.base_name.get(name) not in before:
            alone = writes_alone(comparison.head, name, here)
            why = why_weaker(comparison, name, pair.head, alone=alone)
            if why is not None:
                yield why


def _limits(comparison: Comparison, pair: Pair) -> bool:
    """Whether a policy limits the number of requests, which it counts for each destination by itself."""
    if pair.head is None:
        return False
    content = comparison.head.content(pair.head)
    return effects.does(content, Verb.COUNTS) and effects.does(content, Verb.REJECTS)


def _twice(pair: Pair, call: CallName, newly: CallName) -> str:
    return f"`{pair.name}` limits `{newly.destination}` by itself, and that leads where `{call.destination}` leads"


def _text(pair: Pair, call: CallName, newly: CallName) -> str:
    where = "" if newly.destination == call.destination else f" of `{call.destination}`"
    return f"port {newly.port} now leads where port {call.port}{where} led, and `{pair.name}` does not apply to it"


def _new_ways(comparison: Comparison) -> _Ways:
    ways: dict[Endpoint, list[Endpoint]] = {}
    base, head = comparison.base, comparison.head
    for name, before in base.services.items():
        after = head.services.get(name)
        if after is not None and after.ports != before.ports:
            known = {row.number: row.target for row in before.ports}
            for old in before.ports:
                new = [row for row in after.ports if row.target == old.target and known.get(row.number) != row.target]
                _add(ways, (name, old.number), name, new)
    for name, other in comparison.newly_shared:
        # `other` newly selects pods of `name`.
        for old in base.services[name].ports:
            new = [row for row in head.services[other].ports if row.target == old.target]
            _add(ways, (name, old.number), other, new)
    return ways


def _new_ways_outside(comparison: Comparison) -> _Ways:
    """The new ways to the hosts and addresses of an external, which another external newly has."""
    ways: dict[Endpoint, list[Endpoint]] = {}
    base, head = comparison.base, comparison.head
    changed = {
        name
        for name, row in head.externals.items()
        if row.ports and (name not in base.externals or replace(base.externals[name], line=row.line) != row)
    }
    for name in sorted(changed):
        after, known = head.externals[name], base.externals.get(name)
        for before in base.externals.values():
            gone = before.name not in head.externals and is_nowhere(before) and is_nowhere(after)
            if before.name == name or not (gone or share_a_place(before, after)):
                continue
            old = {row.number for row in known.ports} if known is not None and share_a_place(before, known) else set()
            for port in before.ports:
                new = [row for row in after.ports if row.number == port.number and row.number not in old]
                _add(ways, (before.name, port.number), name, new)
    return ways


def _add(ways: dict[Endpoint, list[Endpoint]], old: Endpoint, party: str, rows: list[PortRow]) -> None:
    if rows:
        ways.setdefault(old, []).extend((party, row.number) for row in rows)


def _met(comparison: Comparison, policy: str) -> Iterator[CallName]:
    base = comparison.base
    yield from base.met[policy]
    for endpoint in base.open(policy) | base.guarded(policy):
        yield CallName(UNDECLARED, *endpoint)


def _meets(comparison: Comparison, pair: Pair, call: CallName) -> bool:
    """Whether a request on the new way meets the policy in HEAD, is refused, or has a caller that is gone.

    The caller may take the new way without a declared call, and then meets only guards and policies for `*`.
    """
    head = comparison.head
    if call.source == UNDECLARED:
        endpoint = (call.destination, call.port)
        return pair.head is not None and endpoint in head.open(pair.head) | head.guarded(pair.head)
    gone = call.source not in head.services and call.source not in head.externals
    return gone or head.refuses(call) or head.applies(pair.head, call)
